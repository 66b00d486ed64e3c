// The recipe for several processes: they share one limit, and a worker that is killed in the middle of its requests is replaced.
import { setTimeout } from 'node:timers/promises'
import t from 'tap'
import { startExample } from '../support/example.js'
import { hs256, secret } from '../support/credentials.js'

const limit = 60

t.test('the workers share one limit, and the counts continue when one is killed in the middle of its requests', async (t) => {
  const service = await startExample('recipes/processes.js', { JWT_SECRET: secret, SERVICE_RATE_LIMIT_PER_MINUTE: String(limit) })
  t.teardown(() => { service.process.kill('SIGKILL') })
  // Requests to a worker that is killed are lost. Node.js does not close those that the worker has not accepted yet, so they end here.
  const analyze = async (sub: string): Promise<{ status: number, process: number }> => {
    const headers = { authorization: `Bearer ${hs256({ sub })}`, connection: 'close' }
    try {
      const response = await fetch(`${service.address}/api/analyze`, { method: 'POST', headers, signal: AbortSignal.timeout(1500) })
      return { status: response.status, ...await response.json() as { process: number } }
    } catch {
      return { status: 0, process: 0 }
    }
  }
  const killed = new Set<number>()
  let probes = 0
  // The test's own time limit ends this if a worker is not replaced. If both were killed at once, Node.js would listen on another port.
  async function twoWorkersRespond (): Promise<void> {
    const workers = new Set<number>()
    while (workers.size < 2) {
      const { status, process: worker } = await analyze(`another ${++probes}`)
      if (status === 200 && !killed.has(worker)) workers.add(worker)
      if (status === 0) await setTimeout(100)
    }
  }

  await twoWorkersRespond()
  const responses = []
  for (let request = 0; request < limit + 5; request++) responses.push(await analyze('mira'))
  t.same(responses.map(({ status }) => status), [...Array(limit).fill(200), ...Array(5).fill(429)])
  t.equal(new Set(responses.slice(0, limit).map(({ process }) => process)).size, 2)

  const statuses: number[] = []
  for (let round = 0; round < 2; round++) {
    const flood = Array.from({ length: 15 }, () => analyze('tomas'))
    const { process: worker } = await Promise.race(flood)
    if (worker !== 0) process.kill(worker, 'SIGKILL')
    killed.add(worker)
    statuses.push(...(await Promise.all(flood)).map(({ status }) => status))
    await twoWorkersRespond()
  }
  for (let request = 0; request < limit; request++) statuses.push((await analyze('tomas')).status)
  t.ok(statuses.includes(429), 'the workers still share one counter')
  const admitted = statuses.filter((status) => status === 200).length
  t.ok(admitted <= limit, `${admitted} requests are admitted`)
})
