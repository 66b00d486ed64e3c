// docs/rules.md, "Several quotas": requests in flight. A place is given back exactly once, whatever ends the response.
import { once } from 'node:events'
import { connect as connectHttp2 } from 'node:http2'
import { connect, type Socket } from 'node:net'
import { Readable } from 'node:stream'
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import t, { type Test } from 'tap'
import quotaPlugin, { callerKey, localAuthentication, MemoryQuotaStore, type AuthenticationReader, type Entry, type QuotaOptions, type QuotaStore } from '../../lib/index.js'
import { fromHeader } from '../support/quota-host.js'
import { listen } from '../support/raw-socket.js'
import { asAlice, captureLog } from '../support/service.js'

const aliceKey = String(callerKey(localAuthentication('alice')))

/** A memory store that counts how often its places are taken and given back. */
class CountingStore extends MemoryQuotaStore {
  entered = 0
  left = 0

  override quota (): CountingStore {
    return this
  }

  override enter (callerKey: string, limit: number): Entry {
    const entry = super.enter(callerKey, limit)
    if (!entry.admitted) return entry
    this.entered += 1
    return { ...entry, leave: () => { this.left += 1; return entry.leave?.() } }
  }

  get inFlight (): number {
    return this.enter(aliceKey, 0).count
  }
}

type Handler = (request: FastifyRequest, reply: FastifyReply) => unknown
interface Host extends QuotaOptions { server?: object, mark?: string | string[], before?: (app: FastifyInstance) => unknown }

/** A service with one route, `POST /run`, in a quota of requests in flight. */
async function start (t: Test, handler: Handler, { server = {}, mark = 'streams', before, ...options }: Host) {
  const app = Fastify({ forceCloseConnections: true, ...server }) as FastifyInstance
  await before?.(app)
  await app.register(quotaPlugin, { operations: [], authentication: fromHeader, quotas: { streams: { inFlight: 2 } }, ...options })
  app.post('/run', { config: { quota: mark } }, handler)
  t.teardown(() => app.close())
  return app
}

/** Resolves when the condition holds. The test runner's time limit ends the wait otherwise. */
async function until (condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise(setImmediate)
}

/** Sends the same request once or several times without waiting for a response. */
async function send (port: number, headers = '', times = 1): Promise<Socket> {
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => {})
  socket.resume()
  await once(socket, 'connect')
  socket.write(`POST /run HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n${headers}\r\n`.repeat(times))
  return socket
}

/** Opens a session, and returns a function that sends a request. */
function openHttp2 (t: Test, port: number) {
  const session = connectHttp2(`http://127.0.0.1:${port}`)
  session.on('error', () => {})
  t.teardown(() => { session.destroy() })
  return { session, post: () => session.request({ ':method': 'POST', ':path': '/run' }).on('error', () => {}) }
}

/** Sends two requests, and returns functions that abort them. */
async function sendTwo (port: number): Promise<[() => void, () => void]> {
  const [first, second] = [await send(port, 'Connection: close\r\n'), await send(port, 'Connection: close\r\n')]
  return [() => { first.resetAndDestroy() }, () => { second.resetAndDestroy() }]
}

function sendTwoOverHttp2 (t: Test, port: number): [() => void, () => void] {
  const { session, post } = openHttp2(t, port)
  const first = post()
  post()
  return [() => { first.close() }, () => { session.destroy() }]
}

function endless (): Readable {
  return new Readable({ read () { setImmediate(() => { this.push('data: x\n\n') }) } })
}

t.test('as many requests run at once as the limit allows, and no more', async (t) => {
  const running: (() => void)[] = []
  const store = new CountingStore()
  const app = await start(t, async ({ quota }) => {
    await new Promise<void>((resolve) => { running.push(resolve) })
    return quota
  }, { store })
  const ask = () => app.inject({ method: 'POST', url: '/run' })
  const first = ask()
  const second = ask()
  await until(() => running.length === 2)
  const body = '{"error":"Rate limit exceeded. Maximum 2 LLM requests at once. Please wait.","status":429}'
  t.match(await ask(), { body, headers: { 'retry-after': '1', 'cache-control': 'no-store' } })
  t.equal(store.inFlight, 2)
  running.shift()?.()
  t.match((await first).json(), { outcome: 'admitted', quota: 'streams', unit: 'requests-in-flight', window: null, count: 1, windowRemaining: null, overflow: false })
  await until(() => store.inFlight === 1)
  const third = ask()
  await until(() => running.length === 2)
  t.equal((await ask()).statusCode, 429)
  for (const finish of running) finish()
  t.same([(await second).statusCode, (await third).statusCode], [200, 200])
  await until(() => store.inFlight === 0)
  t.same([store.entered, store.left], [3, 3])
})

t.test('in shadow mode, a request above the limit passes and takes no place', async (t) => {
  const running: (() => void)[] = []
  const store = new CountingStore()
  const app = await start(t, async ({ quota }) => {
    await new Promise<void>((resolve) => { running.push(resolve) })
    return quota
  }, { store, quotas: { streams: { inFlight: 1, mode: 'shadow' } } })
  const responses = [1, 2].map(() => app.inject({ method: 'POST', url: '/run' }))
  await until(() => running.length === 2)
  t.equal(store.inFlight, 1)
  for (const finish of running) finish()
  const outcomes = (await Promise.all(responses)).map((response) => response.json().outcome)
  t.same(outcomes.sort(), ['admitted', 'rejected'])
  await until(() => store.inFlight === 0)
  t.same([store.entered, store.left], [1, 1])
})

const handlers: Record<string, Handler> = {
  'the handler returns': async () => 'ran',
  'the handler throws an error': async () => { throw new Error('of the handler') },
  'the handler sends a stream': async (_request, reply) => reply.send(Readable.from(['a', 'b'])),
  'the handler sends a stream that breaks': async (_request, reply) => reply.send(Readable.from((async function * () { yield 'a'; throw new Error('broken') })())),
  'the handler hijacks the reply': (_request, reply) => { reply.hijack(); reply.raw.end('of the host') },
  'the handler calls callNotFound': (_request, reply) => { reply.callNotFound() },
  'the handler destroys the socket': (_request, reply) => { reply.hijack(); reply.raw.destroy() }
}

const aborts: Record<string, Handler> = {
  'the client aborts before the response': async () => new Promise(() => {}),
  'the client aborts in a stream': async (_request, reply) => reply.send(endless()),
  'the client aborts in a hijacked stream': (_request, reply) => { reply.hijack(); endless().on('error', () => {}).pipe(reply.raw) }
}

for (const [how, handler] of Object.entries({ ...handlers, ...aborts })) {
  for (const http2 of [false, true]) {
    t.test(`a place is given back once if ${how}, over HTTP/${http2 ? 2 : 1}`, async (t) => {
      const store = new CountingStore()
      const app = await start(t, handler, { store, server: { http2 } })
      const port = await listen(app)
      const [abortFirst, abortSecond] = http2 ? sendTwoOverHttp2(t, port) : await sendTwo(port)
      if (how in aborts) {
        await until(() => store.inFlight === 2)
        abortFirst()
        await until(() => store.inFlight === 1)
        abortSecond()
      }
      await until(() => store.left === 2)
      abortSecond()
      await app.close()
      t.same([store.entered, store.left, store.inFlight], [2, 2, 0])
    })
  }
}

t.test('a place is given back if the client has gone, or the host has responded, while the decision was pending', async (t) => {
  for (const ends of ['the client', 'the host']) {
    let decide = (): void => {}
    let isAsked = false
    const store = new CountingStore()
    const quota = { acquire: store.acquire.bind(store), enter: async (key: string, limit: number) => { await new Promise<void>((resolve) => { decide = resolve }); return store.enter(key, limit) } }
    const app = await start(t, async () => 'ran', {
      store: Object.assign(new MemoryQuotaStore(), { quota: () => quota }),
      before: (app) => app.addHook('preValidation', async (_request, reply) => {
        isAsked = true
        if (ends === 'the host') setImmediate(() => { reply.code(504).send('too slow') })
      })
    })
    const socket = await send(await listen(app), 'Connection: close\r\n')
    await until(() => isAsked)
    if (ends === 'the client') socket.resetAndDestroy()
    if (!socket.closed) await once(socket, 'close')
    for (let turn = 0; turn < 5; turn++) await new Promise(setImmediate)
    decide()
    await until(() => store.left === 1)
    t.equal(store.inFlight, 0, ends)
  }
})

/** A service of requests that never end, in a quota of requests in flight and one of tokens. */
async function startEndless (t: Test, server: object, authentication: AuthenticationReader) {
  const store = new MemoryQuotaStore()
  const quotas = { streams: { inFlight: 50 }, tokens: { tokensPerMinute: 100, unreportedTokens: 7 } }
  const port = await listen(await start(t, async () => new Promise(() => {}), { store, server, authentication, quotas, mark: ['streams', 'tokens'] }))
  return { port, inFlight: () => store.quota('streams', 60_000).enter(aliceKey, 0).count, tokens: () => store.quota('tokens', 60_000).peek(aliceKey)?.count ?? 0 }
}

// Such requests end without an event of their response.
t.test('pipelined requests give back their places and are charged if the connection ends before their turn', async (t) => {
  const { port, inFlight, tokens } = await startEndless(t, {}, async () => asAlice())
  const warnings: Error[] = []
  const warn = (warning: Error): void => { warnings.push(warning) }
  process.on('warning', warn)
  t.teardown(() => { process.off('warning', warn) })
  const socket = await send(port, '', 12)
  await until(() => inFlight() === 12)
  socket.resetAndDestroy()
  await until(() => inFlight() === 0 && tokens() === 84)
  t.same(warnings, [])
})

t.test('an HTTP/2 request that is reset while its decision is pending gives back its place and is charged', async (t) => {
  let decide: (() => void) | undefined
  const { port, inFlight, tokens } = await startEndless(t, { http2: true }, () => new Promise((resolve) => { decide = () => { resolve(asAlice()) } }))
  const { session, post } = openHttp2(t, port)
  const stream = post()
  await until(() => decide !== undefined)
  stream.close(8)
  await once(stream, 'close')
  // The server has seen the reset before it answers a later frame.
  await new Promise<void>((resolve, reject) => { session.ping((error) => { if (error === null) resolve(); else reject(error) }) })
  decide?.()
  await until(() => tokens() === 7)
  t.equal(inFlight(), 0)
})

t.test('the places of a request that another quota refuses are given back at once', async (t) => {
  const store = new CountingStore()
  const app = await start(t, async () => 'ran', { store, perMinute: 1, quotas: { streams: { inFlight: 2 }, more: { inFlight: 9 } }, mark: ['default', 'streams', 'more'] })
  const statuses = []
  for (let request = 0; request < 3; request++) statuses.push((await app.inject({ method: 'POST', url: '/run' })).statusCode)
  await until(() => store.left === store.entered)
  t.same(statuses, [200, 429, 429])
  t.equal(store.inFlight, 0)
})

t.test('a request is answered with 503 if enter fails, and an error of leave is logged', async (t) => {
  const valid: Entry = { admitted: true, count: 1, leave: () => {} }
  const failed = [/^the quota store failed/]
  const notLeft = [/^a place of a request in flight could not be given back/]
  const entries: [string, () => unknown, number, RegExp[]][] = [
    ['throws', () => { throw new Error('gone') }, 503, failed],
    ['rejects', async () => { throw new Error('gone') }, 503, failed],
    ...[null, undefined, {}, { admitted: true, count: 1 }, { ...valid, admitted: 'yes' }, { ...valid, count: -1 }].map((entry): [string, () => unknown, number, RegExp[]] => [JSON.stringify(entry), async () => entry, 503, failed]),
    ['a promise', async () => valid, 200, []],
    ['a leave that throws', () => ({ ...valid, leave () { throw new Error('gone') } }), 200, notLeft],
    ['a leave that rejects', () => ({ ...valid, async leave () { throw new Error('gone') } }), 200, notLeft]
  ]
  for (const [what, enter, status, errors] of entries) {
    const log = captureLog()
    const memory = new MemoryQuotaStore()
    const store = Object.assign(new MemoryQuotaStore(), { quota: () => ({ acquire: memory.acquire.bind(memory), enter }) })
    const app = await start(t, async () => 'ran', { store: store as QuotaStore, server: { logger: log.logger } })
    app.get('/standing', async (request) => app.quotaStanding(request, 'streams'))
    t.equal((await app.inject({ method: 'POST', url: '/run' })).statusCode, status, what)
    await new Promise(setImmediate)
    t.match(log.errors(), errors, what)
    t.same(log.lines.filter(({ level }) => level === 50).map(({ quota }) => quota), errors.map(() => 'streams'), what)
    t.equal((await app.inject('/standing')).statusCode, status, what)
  }
})
