// An error after an asynchronous decision ended the process instead of being passed to Fastify.
import { once } from 'node:events'
import { connect, type AddressInfo } from 'node:net'
import Fastify, { type FastifyInstance } from 'fastify'
import t from 'tap'
import quotaPlugin, { localAuthentication, type QuotaOptions, type QuotaStore } from '../../lib/index.js'
import { captureLog } from '../support/service.js'

const soon = async (): Promise<void> => new Promise((resolve) => { setImmediate(resolve) })

function storeAfter (wait: () => Promise<unknown>, admitted = false): QuotaStore {
  return {
    async acquire () {
      await wait()
      return { admitted, count: 1, windowRemaining: 60_000, overflow: false }
    }
  }
}

const asynchronous: [string, QuotaOptions][] = [
  ['store', { store: storeAfter(soon), authentication: () => localAuthentication('alice') }],
  ['preference reader', { preferences: { get: soon }, authentication: () => null }],
  ['authentication', { authentication: async () => { await soon(); return null } }]
]

/** Runs a request over a socket, since an injected one cannot be cut, and resolves with what came back by the time of an event. */
async function rawAnswer (app: FastifyInstance, ended?: Promise<unknown>): Promise<string> {
  await app.listen({ port: 0, host: '127.0.0.1' })
  const { port } = app.server.address() as AddressInfo
  const socket = connect(port, '127.0.0.1')
  let received = ''
  socket.on('data', (chunk) => { received += String(chunk) })
  const begun = new Promise<unknown>((resolve) => { socket.once('data', resolve).once('close', resolve) })
  socket.on('error', () => {})
  socket.write('POST /api/analyze HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nConnection: close\r\n\r\n')
  await (ended ?? once(socket, 'close'))
  await begun
  socket.destroy()
  return received
}

/** Notes the errors that Fastify gets. Whether it then ends an answer that has begun depends on its version. */
function noteErrors (app: FastifyInstance) {
  const codes: unknown[] = []
  const first = new Promise<void>((resolve) => {
    app.addHook('onError', (_request, _reply, error, done) => {
      codes.push(error.code)
      resolve()
      done()
    })
  })
  return { codes, first }
}

for (const [what, options] of asynchronous) {
  t.test(`the error of a refusal after headers that the host has written is passed to Fastify, with an asynchronous ${what}`, async (t) => {
    const app = Fastify()
    t.teardown(async () => { await app.close() })
    app.addHook('preValidation', async (_request, reply) => {
      reply.raw.writeHead(200)
      reply.raw.write('begun')
    })
    const errors = noteErrors(app)
    await app.register(quotaPlugin, options)
    app.post('/api/analyze', async () => 'ran')
    t.match(await rawAnswer(app, errors.first), 'begun')
    t.ok(errors.codes.includes('ERR_HTTP_HEADERS_SENT'), 'Fastify got the error')
  })

  t.test(`a reply that the host hijacks before the decision is not answered by the quota, with an asynchronous ${what}`, async (t) => {
    const app = Fastify()
    t.teardown(async () => { await app.close() })
    app.addHook('preValidation', async (_request, reply) => {
      setImmediate(() => {
        reply.hijack()
        setImmediate(() => { setImmediate(() => { reply.raw.end('of the host') }) })
      })
    })
    await app.register(quotaPlugin, options)
    app.post('/api/analyze', async () => 'ran')
    t.match(await rawAnswer(app), 'of the host')
  })
}

t.test('the error of a handler that has written to the socket is passed to Fastify after an asynchronous admission', async (t) => {
  const app = Fastify()
  t.teardown(async () => { await app.close() })
  const errors = noteErrors(app)
  await app.register(quotaPlugin, { store: storeAfter(soon, true), authentication: () => localAuthentication('alice') })
  app.post('/api/analyze', (_request, reply) => {
    reply.raw.writeHead(200)
    reply.raw.write('begun')
    return 'ran'
  })
  await rawAnswer(app, errors.first)
  t.ok(errors.codes.includes('ERR_HTTP_HEADERS_SENT'), 'Fastify got the error')
})

t.test('a refusal while Fastify answers an error of the host is logged, and the answer does not change', async (t) => {
  const log = captureLog()
  const app = Fastify({ logger: log.logger })
  let decide = (): void => {}
  let answer = (): void => {}
  app.addHook('onError', (_request, _reply, _error, done) => {
    answer = done
    decide()
  })
  app.addHook('preValidation', async (_request, reply) => {
    setImmediate(() => { reply.send(Object.assign(new Error('too slow'), { statusCode: 504 })) })
  })
  await app.register(quotaPlugin, { store: storeAfter(() => new Promise<void>((resolve) => { decide = resolve })), authentication: () => localAuthentication('alice') })
  app.post('/api/analyze', async () => 'ran')
  const response = app.inject({ method: 'POST', url: '/api/analyze' })
  for (let turn = 0; turn < 5; turn++) await soon()
  answer()
  t.equal((await response).statusCode, 504)
  t.match(log.lines.filter(({ msg }) => /after the decision/.test(String(msg))), [{ level: 50, err: { code: 'FST_ERR_SEND_INSIDE_ONERR' } }])
})

t.test('a decision is applied without an error if the client has disconnected', async (t) => {
  for (const admitted of [true, false]) {
    const app = Fastify()
    t.teardown(async () => { await app.close() })
    let decide = (): void => {}
    let noteAsked = (): void => {}
    const asked = new Promise<void>((resolve) => { noteAsked = resolve })
    const wait = () => new Promise<void>((resolve) => {
      decide = resolve
      noteAsked()
    })
    await app.register(quotaPlugin, { store: storeAfter(wait, admitted), authentication: () => localAuthentication('alice') })
    const decided = new Promise<unknown>((resolve) => {
      app.addHook('preHandler', async () => { resolve('passed on') })
      app.addHook('onSend', async (_request, reply) => { resolve(reply.statusCode) })
    })
    app.post('/api/analyze', async () => 'ran')
    await app.listen({ port: 0, host: '127.0.0.1' })
    const socket = connect((app.server.address() as AddressInfo).port, '127.0.0.1')
    socket.write('POST /api/analyze HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n')
    await asked
    socket.destroy()
    await once(socket, 'close')
    decide()
    t.equal(await decided, admitted ? 'passed on' : 429)
  }
})

t.test('a thrown value that is not an error is passed to Fastify after an asynchronous admission', async (t) => {
  const app = Fastify()
  await app.register(quotaPlugin, { store: storeAfter(soon, true), authentication: () => localAuthentication('alice') })
  const thrown: unknown = 'thrown by the host'
  app.addHook('preHandler', (request, _reply, done) => {
    if (request.method === 'POST') throw thrown
    done()
  })
  app.post('/api/analyze', async () => 'ran')
  const { statusCode, payload } = await app.inject({ method: 'POST', url: '/api/analyze' })
  t.equal(statusCode, 500)
  t.match(payload, 'thrown by the host')
})
