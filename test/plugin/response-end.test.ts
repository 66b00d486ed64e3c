// The end of uploads, HTTP/2 streams and WebSockets, on real sockets: each place is given back once, and each cost is settled. Others: test/rules/in-flight.test.ts.
import { once } from 'node:events'
import { connect as connectHttp2, constants } from 'node:http2'
import { connect, type Socket } from 'node:net'
import { Readable } from 'node:stream'
import fastifyWebsocket from '@fastify/websocket'
import Fastify, { type FastifyInstance, type FastifyRequest } from 'fastify'
import t, { type Test } from 'tap'
import quotaPlugin, { callerKey, localAuthentication, MemoryQuotaStore, type Acquisition } from '../../lib/index.js'
import { fromHeader } from '../support/quota-host.js'
import { listen } from '../support/raw-socket.js'

const limit = 1_000
const alice = String(callerKey(localAuthentication('alice')))
const quota = ['streams', 'tokens']
const config = { quota }

/** A store that counts how often each acquisition is given back. */
class CountingStore extends MemoryQuotaStore {
  readonly released = new Map<Acquisition, number>()

  override release (acquisition: Acquisition, amount: number): void {
    this.released.set(acquisition, (this.released.get(acquisition) ?? 0) + 1)
    super.release(acquisition, amount)
  }
}

/** Runs until a condition holds, which the timeout of the test runner limits. */
async function until (isSo: () => boolean): Promise<void> {
  while (!isSo()) await new Promise((resolve) => setTimeout(resolve, 1))
}

/** A service with routes in flight that also count tokens: 5 are estimated, and 2 if nothing is reported. */
async function start (t: Test, server: object = {}, before: (app: FastifyInstance) => unknown = () => {}) {
  const store = new CountingStore()
  const app = Fastify({ forceCloseConnections: true, ...server }) as FastifyInstance
  const running: FastifyRequest[] = []
  await before(app)
  await app.register(quotaPlugin, { operations: [], store, authentication: fromHeader, quotas: { streams: { inFlight: limit }, tokens: { perMinute: { tokens: 100_000 }, cost: 5, unreported: 2 } } })
  app.addHook('preHandler', async (request) => { running.push(request) })
  app.post('/body', { config }, async () => 'ran')
  app.post('/hangs', { config }, () => new Promise(() => {}))
  app.post('/hijacked', { config }, (_request, reply) => { reply.hijack(); reply.raw.writeHead(200); reply.raw.write('a') })
  // Not awaited, since an HTTP/2 server does not close after streams that were reset at once.
  t.teardown(() => { app.close() })
  const taken = () => store.peek({ counters: 'streams.in-flight', callerKey: alice, limit: 1, cost: 0, window: null, end: null })?.count
  const tokens = () => store.peek({ counters: 'tokens.tokens.minute', callerKey: alice, limit: 1, cost: 0, window: 60_000, end: null })?.count
  const isSettled = async (t: Test, requests: number, what: string): Promise<void> => {
    await until(() => taken() === 0)
    t.equal(tokens(), 2 * requests, `${what}: each request counts what it counts without a report`)
    t.same([...store.released.values()], Array(2 * requests).fill(1), `${what}: nothing is given back twice`)
  }
  return { app, store, running, taken, tokens, isSettled }
}

async function open (port: number): Promise<Socket> {
  const socket = connect(port, '127.0.0.1').on('error', () => {}).resume()
  await once(socket, 'connect')
  return socket
}

const post = (path: string, headers: string) => `POST ${path} HTTP/1.1\r\nHost: h\r\n${headers}\r\n`

t.test('an upload that is aborted has taken no place, or gives it back where the handler reads the body', async (t) => {
  const { app, running, taken, isSettled, store } = await start(t, {}, (app) => {
    app.addContentTypeParser('application/octet-stream', (_request, payload, done) => { done(null, payload) })
    app.post('/upload', { config }, ({ body }) => new Promise((_resolve, reject) => { if (body instanceof Readable) body.resume().on('error', reject) }))
  })
  const port = await listen(app)
  const uploads = { parsed: 'Content-Type: application/json\r\nContent-Length: 100\r\n', read: 'Content-Type: application/octet-stream\r\nContent-Length: 100\r\n' }
  const parsed = await open(port)
  parsed.write(`${post('/body', uploads.parsed)}{"a":`)
  const read = await open(port)
  read.write(`${post('/upload', uploads.read)}half`)
  await until(() => running.length === 1)
  t.equal(taken(), 1)
  parsed.destroy()
  read.resetAndDestroy()
  await isSettled(t, 1, 'upload')
  t.equal(store.released.size, 2)
})

const resets: [string, number, 'at once' | 'while it runs'][] = [
  // Of these, Node emits neither `close` nor `aborted`.
  ['without an error', constants.NGHTTP2_NO_ERROR, 'at once'], ['without an error', constants.NGHTTP2_NO_ERROR, 'while it runs'], ['with an error', constants.NGHTTP2_CANCEL, 'while it runs']
]
for (const [how, code, when] of resets) {
  for (const path of ['/hangs', '/hijacked']) {
    t.test(`300 HTTP/2 streams of ${path} that the client resets ${how} ${when}, their bodies open, give their places back while the connection lasts`, async (t) => {
      const requests = 300
      const { app, running, isSettled } = await start(t, { http2: true }, (app) => {
        app.addContentTypeParser('text/plain', (_request, _payload, done) => { done(null) })
      })
      const session = connectHttp2(`http://127.0.0.1:${await listen(app)}`).on('error', () => {})
      t.teardown(() => { session.destroy() })
      await once(session, 'connect')
      const streams = Array.from({ length: requests }, () => {
        const stream = session.request({ ':method': 'POST', ':path': path, 'content-type': 'text/plain' }, { endStream: false }).on('error', () => {})
        stream.write('x')
        return stream.resume()
      })
      const reset = () => { for (const stream of streams) stream.close(code) }
      if (when === 'at once') process.nextTick(reset)
      await until(() => running.length === requests)
      if (when === 'while it runs') reset()
      await isSettled(t, requests, path)
      t.equal(session.destroyed, false)
    })
  }
}

interface TestSocket { on (event: 'message' | 'close', run: () => void): void, send (text: string): void, terminate (): void }

for (const plugin of ['before', 'after']) {
  t.test(`a WebSocket holds its place until it closes, injected or on a connection, with @fastify/websocket registered ${plugin} the quota`, async (t) => {
    const { app, running, taken, isSettled } = await start(t, {}, async (app) => { if (plugin === 'before') await app.register(fastifyWebsocket) })
    if (plugin === 'after') await app.register(fastifyWebsocket)
    await app.register(async (scope) => {
      scope.get('/socket', { websocket: true, config }, (socket: TestSocket) => { socket.on('message', () => { socket.send('pong') }) })
    })
    await app.ready()
    const injected = await app.injectWS('/socket')
    t.equal(taken(), 1)
    await new Promise((resolve) => setTimeout(resolve, 20))
    t.equal(taken(), 1, 'the place is held while the socket is open')
    injected.terminate()
    await isSettled(t, 1, 'injected')

    const socket = await open(await listen(app))
    const upgraded = once(socket, 'data')
    socket.write('GET /socket HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n')
    t.match(String((await upgraded)[0]), /^HTTP\/1\.1 101 /)
    t.equal(taken(), 1)
    t.equal(running.length, 2)
    socket.destroy()
    await isSettled(t, 2, 'on a connection')
  })
}
