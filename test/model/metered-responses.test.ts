// docs/rules.md, "Settlements": responses of a model that fail and callers who leave, over sockets.
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { once } from 'node:events'
import { createServer, get, type IncomingMessage, type ServerResponse } from 'node:http'
import { PassThrough } from 'node:stream'
import Fastify, { type FastifyReply, type FastifyRequest } from 'fastify'
import t, { type Test } from 'tap'
import quotaPlugin, {
  localAuthentication,
  quotaSettlements,
  type ModelBody,
  type QuotaSettlement
} from '../../lib/index.js'
import { listenOnLoopback } from '../support/loopback.js'
import { listen } from '../support/raw-socket.js'
import { until } from '../support/until.js'

const text = 'x'.repeat(5_000)
const event = `data: ${JSON.stringify({ choices: [{ delta: { content: text } }] })}\n\n`

/** A model's server that sends one event and goes on. */
async function startModel (t: Test) {
  const responses: ServerResponse[] = []
  const server = createServer((_request, response) => {
    responses.push(response)
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.write(event)
  })
  const { port, stop } = await listenOnLoopback(server)
  t.teardown(stop)
  return {
    url: `http://127.0.0.1:${port}`,
    isClosed: () => responses[0]?.destroyed === true,
    /** The server breaks off. */
    fail: () => responses[0]?.destroy()
  }
}

/** Calls a model; the signal aborts the call. */
type Call = (url: string, signal: AbortSignal) => Promise<ModelBody>

const calls: [form: string, call: Call][] = [
  ['a web stream', async (url, signal) => (await fetch(url, { signal })).body],
  [
    'a stream of Node.js',
    async (url, signal) => {
      const [response]: IncomingMessage[] = await once(get(url, { signal }), 'response')
      if (response === undefined) throw new Error('the model has not responded')
      return response
    }
  ]
]

type Handler = (
  request: FastifyRequest,
  reply: FastifyReply,
  model: Awaited<ReturnType<typeof startModel>>
) => Promise<unknown>

/** A host whose route responds with what its handler makes of a model's response. */
async function startHost (t: Test, handler: Handler) {
  const model = await startModel(t)
  const app = Fastify({ forceCloseConnections: true })
  const settled: number[] = []
  const note = (message: unknown): void => {
    const { server, used, before } = message as QuotaSettlement
    if (server === app.server) settled.push(used - before)
  }
  subscribe(quotaSettlements.name, note)
  t.teardown(() => unsubscribe(quotaSettlements.name, note))
  t.teardown(() => app.close())
  await app.register(quotaPlugin, {
    operations: [],
    authentication: () => localAuthentication('alice'),
    quotas: { used: { perDay: { tokens: 1_000_000 }, cost: 10 } }
  })
  app.get('/run', { config: { quota: 'used' } }, async (request, reply) =>
    await handler(request, reply, model)
  )
  const port = await listen(app)
  const used = (): number => settled.reduce((sum, change) => sum + change, 0)
  return { app, model, used, hasSettled: () => settled.length > 0, ...send(t, port) }
}

/** Sends a request. */
function send (t: Test, port: number) {
  const caller = { status: 0, received: 0, isBroken: false }
  const request = get({ port, host: '127.0.0.1', path: '/run', agent: false })
  t.teardown(() => {
    request.destroy()
  })
  const breakOff = (): void => {
    caller.isBroken = true
  }
  request.on('error', breakOff).on('response', (response) => {
    caller.status = response.statusCode ?? 0
    response.on('error', breakOff).on('data', (data: Buffer) => {
      caller.received += data.length
    })
  })
  return { caller, leave: () => request.destroy() }
}

for (const [form, call] of calls) {
  t.test(`${form} that fails before the response begins is a failed response`, async (t) => {
    const host = await startHost(t, async (request, reply, model) => {
      const metered = request.quota.meter(await call(model.url, AbortSignal.timeout(60_000)))
      model.fail()
      await until('it has failed', () => metered.destroyed)
      return await reply.send(metered)
    })
    await until('it has responded', () => host.caller.status === 500)
    await until('it is settled', host.hasSettled)
    t.equal(host.used(), 10)
  })

  t.test(`${form} that the host aborts for a caller who left ends no process`, async (t) => {
    let isMetered = false
    const host = await startHost(t, async (request, reply, model) => {
      const left = new AbortController()
      reply.raw.once('close', () => left.abort())
      const metered = request.quota.meter(await call(model.url, left.signal))
      isMetered = true
      await until('it has failed', () => metered.destroyed)
      return await reply.send(metered)
    })
    await until('it is metered', () => isMetered)
    host.leave()
    await until('the call is aborted', host.model.isClosed)
    await until('it is settled', host.hasSettled)
    t.equal(host.used(), 10)
    t.equal((await host.app.inject('/none')).statusCode, 404)
  })
}

const fetchBody = async (url: string): Promise<ModelBody> => (await fetch(url)).body

const pipes: [how: string, handler: Handler][] = [
  [
    'a transform that is sent',
    async ({ quota }, reply, { url }) =>
      await reply.send(quota.meter(await fetchBody(url)).pipe(new PassThrough()))
  ],
  [
    'the response',
    async ({ quota }, reply, { url }) => {
      reply.hijack()
      quota.meter(await fetchBody(url)).pipe(reply.raw)
    }
  ]
]

for (const [how, handler] of pipes) {
  t.test(`a caller leaves a meter that is piped to ${how}: its text counts`, async (t) => {
    const host = await startHost(t, handler)
    await until('the event has arrived', () => host.caller.received === event.length)
    host.leave()
    await until('the source is cancelled', host.model.isClosed)
    await until('its text counts', () => host.used() === text.length)
  })

  t.test(`a source fails that is piped to ${how}: the response is broken off`, async (t) => {
    const host = await startHost(t, handler)
    await until('the event has arrived', () => host.caller.received === event.length)
    host.model.fail()
    await until('the response is broken off', () => host.caller.isBroken)
    await until('its text counts', () => host.used() === text.length)
  })
}

t.test('a source that has failed before it is piped breaks the response off', async (t) => {
  const host = await startHost(t, async ({ quota }, reply, model) => {
    const metered = quota.meter(await fetchBody(model.url))
    model.fail()
    await until('it has failed', () => metered.destroyed)
    reply.hijack()
    metered.pipe(reply.raw)
  })
  await until('the response is broken off', () => host.caller.isBroken)
  t.equal(host.caller.status, 0)
})
