// Hostile clients on real sockets: no request is lost or counted twice, memory is bounded, and the service works correctly afterwards.
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { once } from 'node:events'
import { Agent, request as send } from 'node:http'
import { connect as connectHttp2, constants, type ClientHttp2Stream } from 'node:http2'
import { connect, type Socket } from 'node:net'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import Fastify, { type FastifyInstance, type RouteHandlerMethod } from 'fastify'
import t, { type Test } from 'tap'
import quotaPlugin, { MemoryQuotaStore, quotaDecisions, type QuotaDecisionMessage, type QuotaStore } from '../../lib/index.js'
import { VirtualClock } from '../../lib/testing.js'
import { fromHeader } from '../support/quota-host.js'
import { listen, sendRaw } from '../support/raw-socket.js'

const limit = 10

/** A store in which no window ends, however long a test takes. */
const memoryStore = (maxTrackedCallers = 10_000) => new MemoryQuotaStore({ clock: new VirtualClock().now, maxTrackedCallers })

/** A service whose decisions are counted. */
async function start (t: Test, { server = {}, store = memoryStore(), handler = async () => 'ran' }: { server?: object, store?: QuotaStore, handler?: RouteHandlerMethod } = {}) {
  const app = Fastify({ forceCloseConnections: true, ...server }) as FastifyInstance
  const outcomes: Record<string, number> = {}
  const count = (message: unknown): void => {
    const { request, decision } = message as QuotaDecisionMessage
    if (request.server.server !== app.server) return
    outcomes[decision.outcome] = (outcomes[decision.outcome] ?? 0) + 1
  }
  subscribe(quotaDecisions.name, count)
  await app.register(quotaPlugin, { perMinute: limit, store, authentication: fromHeader, rateLimitHeaders: 'draft-10' })
  app.post('/api/analyze', handler)
  const port = await listen(app)
  t.teardown(async () => {
    await app.close()
    unsubscribe(quotaDecisions.name, count)
  })
  const isRight = async (used: number): Promise<void> => {
    const responses = await sendRaw(port, Array.from({ length: limit + 2 - used }, () => ({ method: 'POST', target: '/api/analyze' })))
    t.same(responses.map(({ status }) => status), [...Array(limit - used).fill(200), 429, 429], 'the service continues to count from the correct value')
  }
  return { app, port, outcomes, isRight }
}

async function open (port: number): Promise<Socket> {
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => {})
  await once(socket, 'connect')
  return socket
}

async function closed (app: FastifyInstance): Promise<void> {
  const connections = () => new Promise<number>((resolve, reject) => { app.server.getConnections((error, count) => { if (error) reject(error); else resolve(count) }) })
  while (await connections() > 0) await new Promise(setImmediate)
}

const head = 'POST /api/analyze HTTP/1.1\r\nHost: h\r\n'

t.test('incomplete requests are not counted', async (t) => {
  const { app, port, outcomes, isRight } = await start(t)
  const beginnings = ['', 'P', 'POST /api/analyze', head, `${head}Content-Length: 10\r\n\r\n`, `${head}Content-Type: application/json\r\nContent-Length: 10\r\n\r\n{"a":`,
    `${head}Transfer-Encoding: chunked\r\n\r\n5\r\n{"a":`, `${head}Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"a":\r\n`]
  for (const [how, end] of [['half-open', (socket: Socket) => { socket.end() }], ['aborted', (socket: Socket) => { socket.destroy() }], ['reset', (socket: Socket) => { socket.resetAndDestroy() }]] as const) {
    const sockets = await Promise.all(Array.from({ length: 80 }, async (_, index) => {
      const socket = await open(port)
      await new Promise((resolve) => socket.write(beginnings[index % beginnings.length] ?? '', resolve))
      return socket
    }))
    for (const socket of sockets) end(socket)
    await Promise.all(sockets.map((socket) => socket.closed || once(socket.resume(), 'close').catch(() => {})))
    await closed(app)
    t.same(outcomes, {}, how)
  }
  await isRight(0)
})

for (const kind of ['at once', 'with a promise']) {
  t.test(`each request that the client aborts after it has reached the quota counts as one, with a store that answers ${kind}`, async (t) => {
    const memory = memoryStore()
    const reached: (() => void)[] = []
    const wait = () => new Promise<void>((resolve) => { reached.push(resolve) })
    const slow: QuotaStore = { acquire: async (...asked) => { await wait(); return memory.acquire(...asked) } }
    const { app, port, outcomes, isRight } = await start(t, kind === 'at once' ? { store: memory, handler: wait } : { store: slow })
    for (let request = 0; request < 4; request++) {
      const socket = await open(port)
      socket.write(`${head}Content-Length: 0\r\n\r\n`)
      while (reached.length === 0) await new Promise(setImmediate)
      socket.resetAndDestroy()
      await closed(app)
      for (const goOn of reached.splice(0)) goOn()
      await new Promise(setImmediate)
    }
    t.same(outcomes, { admitted: 4 })
    t.match(memory.inspect('default'), { trackedCallers: 1 })
    const answered = isRight(4)
    const going = setInterval(() => { for (const goOn of reached.splice(0)) goOn() }, 1)
    await answered
    clearInterval(going)
  })
}

t.test('new callers beyond the cap do not increase memory', async (t) => {
  setFlagsFromString('--expose-gc')
  const collect: () => void = runInNewContext('gc')
  const store = memoryStore(500)
  const { port, outcomes } = await start(t, { store })
  const agent = new Agent({ keepAlive: true, maxSockets: 50 })
  t.teardown(() => { agent.destroy() })
  let caller = 0
  const ask = async () => {
    const [response] = await once(send({ agent, port, host: '127.0.0.1', method: 'POST', path: '/api/analyze', headers: { 'x-caller': `caller ${caller++}`, 'content-length': 0 } }).end(), 'response')
    response.resume()
    await once(response, 'end')
    return response.statusCode
  }
  const flood = async (requests: number) => {
    const statuses: number[] = []
    await Promise.all(Array.from({ length: 50 }, async () => { for (let request = 0; request < requests / 50; request++) statuses.push(await ask()) }))
    collect()
    return { admitted: statuses.filter((status) => status === 200).length, heap: process.memoryUsage().heapUsed }
  }
  const first = await flood(2000)
  t.equal(first.admitted, 500 + limit, 'one request is admitted for each counter, and one limit for the overflow counter')
  const heaps = []
  for (let round = 0; round < 4; round++) {
    const { admitted, heap } = await flood(2000)
    t.equal(admitted, 0)
    heaps.push(heap)
  }
  t.same(store.inspect('default'), { trackedCallers: 500, sweeps: 0 })
  t.same(outcomes, { admitted: 500 + limit, rejected: 10_000 - 500 - limit })
  // Counters for the 8,000 later callers would take more than a megabyte.
  t.ok(Math.min(...heaps.slice(1)) - Math.max(heaps[0] ?? 0, first.heap) < 500_000, `the heap after each round: ${[first.heap, ...heaps].join(', ')}`)
})

t.test('HTTP/2 streams count as requests, also those that are opened at once or reset', async (t) => {
  const { app, port, outcomes } = await start(t, { server: { http2: true } })
  const session = connectHttp2(`http://127.0.0.1:${port}`).on('error', () => {})
  const ask = (path: string, caller = 'alice') => session.request({ ':method': 'POST', ':path': path, 'x-caller': caller }).on('error', () => {})
  const statusOf = async (stream: ClientHttp2Stream) => {
    const [headers] = await once(stream.end().resume(), 'response')
    return [headers[':status'], headers.ratelimit?.replace(/;t=\d+$/, '')]
  }
  const statuses = await Promise.all(Array.from({ length: 90 }, () => statusOf(ask('/api/analyze'))))
  t.equal(statuses.filter(([status]) => status === 200).length, limit)
  t.same(outcomes, { admitted: limit, rejected: 90 - limit })
  // The path of the last one could be read as the operation.
  const others = [['/api/%61nalyze?x', 200, '"default";r=9'], ['/other/analyze', 404, undefined], ['/api%2Fanalyze', 404, '"default";r=8']] as const
  for (const [path, ...expected] of others) t.same(await statusOf(ask(path, 'bob')), expected, path)

  for (let request = 0; request < 500; request++) ask('/api/analyze', 'carol').close(constants.NGHTTP2_CANCEL)
  session.destroy()
  await closed(app)
  t.ok(Number(outcomes.admitted) <= 2 * limit + 2, `no caller was admitted more often than the limit: ${outcomes.admitted} together`)
})
