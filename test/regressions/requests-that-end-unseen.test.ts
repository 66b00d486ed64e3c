// Two kinds of requests that ended without an event of their response kept their places and were never charged: pipelined requests that waited
// for their turn when the connection ended, and HTTP/2 requests that were reset while their decision was pending.
import { once } from 'node:events'
import { connect as connectHttp2 } from 'node:http2'
import { connect } from 'node:net'
import Fastify, { type FastifyInstance } from 'fastify'
import t, { type Test } from 'tap'
import quotaPlugin, { callerKey, localAuthentication, MemoryQuotaStore } from '../../lib/index.js'
import { listen } from '../support/raw-socket.js'

const alice = localAuthentication('alice')
const aliceKey = String(callerKey(alice))
const unreportedTokens = 7

async function start (t: Test, server: object, authentication: () => Promise<typeof alice>) {
  const store = new MemoryQuotaStore()
  const app = Fastify({ forceCloseConnections: true, ...server }) as FastifyInstance
  await app.register(quotaPlugin, { operations: [], store, authentication, quotas: { streams: { inFlight: 5 }, tokens: { tokensPerMinute: 100, unreportedTokens } } })
  app.get('/run', { config: { quota: ['streams', 'tokens'] } }, async () => new Promise(() => {}))
  t.teardown(() => app.close())
  const inFlight = (): number => store.quota('streams', 60_000).enter(aliceKey, 0).count
  const tokens = (): number => store.quota('tokens', 60_000).peek(aliceKey)?.count ?? 0
  return { port: await listen(app), inFlight, tokens }
}

async function until (condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise(setImmediate)
}

t.test('pipelined requests give back their places and are charged if the connection ends before their turn', async (t) => {
  const { port, inFlight, tokens } = await start(t, {}, async () => alice)
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => {})
  await once(socket, 'connect')
  socket.write('GET /run HTTP/1.1\r\nHost: h\r\n\r\n'.repeat(3))
  await until(() => inFlight() === 3)
  socket.resetAndDestroy()
  await until(() => inFlight() === 0)
  await until(() => tokens() === 3 * unreportedTokens)
})

t.test('an HTTP/2 request that is reset while its decision is pending gives back its place and is charged', async (t) => {
  let decide: (() => void) | undefined
  const { port, inFlight, tokens } = await start(t, { http2: true }, () => new Promise((resolve) => { decide = () => { resolve(alice) } }))
  const session = connectHttp2(`http://127.0.0.1:${port}`)
  session.on('error', () => {})
  t.teardown(() => { session.destroy() })
  const stream = session.request({ ':path': '/run' }).on('error', () => {})
  await until(() => decide !== undefined)
  stream.close(8)
  await once(stream, 'close')
  // The server has seen the reset before it answers a later frame.
  await new Promise<void>((resolve, reject) => { session.ping((error) => { if (error === null) resolve(); else reject(error) }) })
  decide?.()
  await until(() => tokens() === unreportedTokens)
  t.equal(inFlight(), 0)
})
