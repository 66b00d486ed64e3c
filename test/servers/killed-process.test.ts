// docs/rules.md, "Several quotas": requests in flight in four processes on one server, opened and torn down at random over 50 sockets. One
// process is killed. Its places are free when their leases end, and no other place is left.
import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { connect } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import t from 'tap'
import { callerKey, localAuthentication } from '../../lib/index.js'
import { RedisQuotaStore } from '../../lib/redis.js'
import { plainEnvironment } from '../support/environment.js'
import { Random } from '../support/random.js'
import { startRedis } from '../support/redis-server.js'

const requests = Number(process.env['RANDOM_WALKS'] ?? 40) * 50
const inFlight = 15
const callers = ['alice', 'bob', 'carol']
const ways = ['returns', 'waits', 'throws', 'streams', 'hijacks']
const random = new Random(1)

const { server, client } = await startRedis(t)
const store = new RedisQuotaStore({ client })

/** Returns how many requests of each caller are in flight. */
async function running (): Promise<number[]> {
  return Promise.all(callers.map(async (caller) => (await store.peek({ counters: 'streams.in-flight', callerKey: String(callerKey(localAuthentication(caller))), limit: inFlight, cost: 1, window: null, end: null }))?.count ?? 0))
}

async function start (): Promise<{ child: ChildProcess, port: number }> {
  const child = fork('build/test/support/streaming-service.js', [String(server.port), String(inFlight)], { env: plainEnvironment() })
  t.teardown(() => { child.kill('SIGKILL') })
  const [port] = await once(child, 'message')
  return { child, port }
}

/** Sends a request, waits a random time, and tears the socket down unless the response has ended. Returns the status; 0 if there was none. */
async function run (port: number): Promise<number> {
  const socket = connect(port, '127.0.0.1')
  let received = ''
  socket.on('error', () => {}).on('data', (chunk) => { received += String(chunk) })
  const closed = new Promise((resolve) => { socket.once('close', resolve) })
  socket.write(`POST /run HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 0\r\nx-caller: ${random.pick(callers)}\r\nx-how: ${random.pick(ways)}\r\n\r\n`)
  await Promise.race([closed, pause(random.integer(0, 199))])
  socket.resetAndDestroy()
  await closed
  return Number(received.split(' ')[1] ?? 0)
}

t.test('no place is left after requests were torn down and a process was killed', { timeout: 300_000 }, async (t) => {
  const services = await Promise.all([start(), start(), start(), start()])
  const [killed] = services
  const statuses = new Map<number, number>()
  let sent = 0
  await Promise.all(Array.from({ length: 50 }, async () => {
    while (sent < requests) {
      if (++sent === requests / 2) killed?.child.kill('SIGKILL')
      const status = await run(random.pick(services).port)
      statuses.set(status, (statuses.get(status) ?? 0) + 1)
    }
  }))
  t.comment(`${requests} requests, by status: ${[...statuses].map(([status, count]) => `${status}: ${count}`).join(', ')}`)
  for (const status of [200, 429, 500]) t.ok(statuses.has(status), `a request was answered with ${status}`)
  const left = await running()
  t.comment(`in flight after the last request: ${left.join(', ')}`)
  t.ok(left.every((count) => count <= inFlight))
  const ended = performance.now()
  while ((await running()).some((count) => count > 0)) await pause(200)
  t.comment(`none in flight ${Math.round((performance.now() - ended) / 1000)} s later`)
  t.same(await running(), [0, 0, 0])
})
