// The recipe for several processes: a worker that is killed in the middle of its requests is replaced, and the counts continue.
import { createHmac } from 'node:crypto'
import { setTimeout } from 'node:timers/promises'
import t from 'tap'
import { startExample } from '../support/example.js'

const secret = 'a secret of thirty-two bytes or more'
const limit = 400

function bearer (sub: string): string {
  const [header, payload] = [{ alg: 'HS256', typ: 'JWT' }, { iss: 'https://identity.example', sub }].map((part) => Buffer.from(JSON.stringify(part)).toString('base64url'))
  return `Bearer ${header}.${payload}.${createHmac('sha256', secret).update(`${header}.${payload}`).digest('base64url')}`
}

t.test('a worker that is killed in the middle of its requests is replaced, and the counts continue', async (t) => {
  const service = await startExample('recipes/processes.js', { JWT_SECRET: secret, SERVICE_RATE_LIMIT_PER_MINUTE: String(limit) })
  t.teardown(() => { service.process.kill('SIGKILL') })
  // Requests to a worker that is killed are lost. Node.js does not close those that the worker has not accepted yet, so they end here.
  const analyze = async (): Promise<{ status: number, process: number }> => {
    try {
      const response = await fetch(`${service.address}/api/analyze`, { method: 'POST', headers: { authorization: bearer('mira'), connection: 'close' }, signal: AbortSignal.timeout(1500) })
      return { status: response.status, ...await response.json() as { process: number } }
    } catch {
      return { status: 0, process: 0 }
    }
  }

  let admitted = 0
  const killed = new Set<number>()
  // The test's own time limit ends this if a worker is not replaced. If both were killed at once, Node.js would listen on another port.
  async function twoWorkersRespond (): Promise<void> {
    const workers = new Set<number>()
    while (workers.size < 2) {
      const { status, process: worker } = await analyze()
      admitted += Number(status === 200)
      if (status === 200 && !killed.has(worker)) workers.add(worker)
      if (status === 0) await setTimeout(100)
    }
  }
  for (let round = 0; round < 3; round++) {
    await twoWorkersRespond()
    const flood = Array.from({ length: 50 }, analyze)
    const { process: worker } = await Promise.race(flood)
    if (worker !== 0) process.kill(worker, 'SIGKILL')
    killed.add(worker)
    admitted += (await Promise.all(flood)).filter(({ status }) => status === 200).length
  }
  await twoWorkersRespond()
  const rest = await Promise.all(Array.from({ length: limit }, analyze))
  admitted += rest.filter(({ status }) => status === 200).length
  t.ok(rest.some(({ status }) => status === 429), 'the workers share one counter')
  t.ok(admitted <= limit, `${admitted} requests are admitted`)
})
