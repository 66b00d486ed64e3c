// The programs of the documents that need a model, several processes or a host of their own, run
// unchanged.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { createRequire } from 'node:module'
import Fastify from 'fastify'
import OpenAI from 'openai'
import t from 'tap'
import quotaPlugin from '../../lib/index.js'
import earlierQuotaPlugin from '../../lib/earlier.js'
import { hs256, secret, statuses } from '../support/credentials.js'
import { plainEnvironment } from '../support/environment.js'
import { matchExactly } from '../support/match-exactly.js'
import {
  callTool,
  complete,
  endStream,
  startOpenAiServer,
  streamPart
} from '../support/openai-server.js'
import { Programs } from '../support/programs.js'

const programs = Programs.start(t)
const usage = { prompt_tokens: 12, completion_tokens: 30, total_tokens: 42 }
// The secret in service.ts of docs/recipes/README.md.
const bearer = (sub: string) => ({
  authorization: `Bearer ${hs256({ sub }, 'a secret of at least 32 characters')}`
})

t.test('the usage of a model is counted, and the estimate if the caller leaves', async (t) => {
  let isWhole = true
  const server = await startOpenAiServer(t, (_, response) => {
    streamPart(response, 'Two invoices.')
    if (isWhole) endStream(response, usage)
  })
  const address = await programs.run('recipes/tokens.ts', {
    MODEL_URL: server.url.replace('/v1', '')
  })
  const gone = new AbortController()
  const ask = async (signal: AbortSignal | null = null) =>
    await fetch(`${address}/chat`, {
      method: 'POST',
      headers: { ...bearer('mira'), 'content-type': 'application/json' },
      body: '{"prompt":"Which invoices are late?"}',
      signal
    })
  const first = await ask()
  t.equal(
    first.headers.get('ratelimit-policy'),
    '"tokens";q=5000;w=60;qu="tokens", "streams";q=2;qu="concurrent-requests"'
  )
  t.match(await first.text(), /^Two invoices/)
  isWhole = false
  const second = await ask(gone.signal)
  t.match(second.headers.get('ratelimit'), `"tokens";r=${5000 - 42 - 1000};`)
  await second.body?.getReader().read()
  gone.abort()
  await server.abandoned
  isWhole = true
  const third = await ask()
  t.match(
    third.headers.get('ratelimit'),
    new RegExp(`"tokens";r=${5000 - 42 - 2000};.*"streams";r=1`)
  )
  await third.text()
})

t.test('a call that fails before the model responds costs nothing', async (t) => {
  let isDown = true
  const server = await startOpenAiServer(t, (_, response) => {
    if (isDown) {
      response.writeHead(500).end()
      return
    }
    streamPart(response, 'Two invoices.')
    endStream(response, usage)
  })
  const address = await programs.run('recipes/tokens.ts', {
    MODEL_URL: server.url.replace('/v1', '')
  })
  const ask = async () =>
    await fetch(`${address}/chat`, {
      method: 'POST',
      headers: { ...bearer('mira'), 'content-type': 'application/json' },
      body: '{"prompt":"Which invoices are late?"}'
    })
  const failed = await ask()
  t.equal(failed.status, 500)
  await failed.text()
  isDown = false
  const second = await ask()
  t.match(second.headers.get('ratelimit'), `"tokens";r=${5000 - 1000};`)
  await second.text()
})

t.test('a service that is ended completes the responses in progress', async (t) => {
  let answer = (_response: ServerResponse): void => {}
  const answered = new Promise<ServerResponse>((resolve) => {
    answer = resolve
  })
  const server = await startOpenAiServer(t, (_, response) => {
    streamPart(response, 'Two ')
    answer(response)
  })
  const service = spawn(process.execPath, ['build/documented/recipes/tokens.js'], {
    env: plainEnvironment({ PORT: '0', MODEL_URL: server.url.replace('/v1', '') }),
    stdio: ['ignore', 'pipe', 'inherit']
  })
  t.teardown(() => {
    service.kill('SIGKILL')
  })
  const [printed] = await once(service.stdout, 'data')
  const response = await fetch(`${String(printed).trim()}/chat`, {
    method: 'POST',
    // A connection that is kept would keep the service until its time limit for idle ones.
    headers: { ...bearer('mira'), 'content-type': 'application/json', connection: 'close' },
    body: '{"prompt":"Which invoices are late?"}'
  })
  const exited = once(service, 'exit')
  service.kill('SIGTERM')
  const upstream = await answered
  streamPart(upstream, 'invoices.')
  endStream(upstream, usage)
  t.equal(await response.text(), 'Two invoices.')
  t.same(await exited, [0, null])
})

t.test('each call of the model in a loop of tools is counted', async (t) => {
  let isWhole = true
  const server = await startOpenAiServer(t, ({ messages }, response) => {
    if (messages.at(-1)?.role !== 'tool') {
      callTool(response, 'invoices', usage)
      return
    }
    streamPart(response, 'Two invoices.')
    if (isWhole) endStream(response, usage)
  })
  const address = await programs.run('recipes/tools.ts', { MODEL_URL: server.url })
  const count = async () => {
    const response = await fetch(`${address}/standing`, { headers: bearer('mira') })
    return Object(await response.json()).count
  }
  const ask = async (signal: AbortSignal | null = null) =>
    await fetch(`${address}/chat`, { method: 'POST', headers: bearer('mira'), signal })
  t.equal(await (await ask()).text(), 'Two invoices.')
  t.equal(await count(), 2 * usage.total_tokens)
  isWhole = false
  const gone = new AbortController()
  const response = await ask(gone.signal)
  await response.body?.getReader().read()
  gone.abort()
  await server.abandoned
  t.equal(await count(), 3 * usage.total_tokens + 1_000, 'the second call counts its estimate')
  t.equal(server.requests.length, 4)
})

t.test(
  "the body chooses the quota, the usage is counted, and OpenAI's client understands refusals",
  async (t) => {
    const server = await startOpenAiServer(t, (request, response) => {
      if (!request.stream) return complete(response, 'Two invoices.', usage)
      streamPart(response, 'Two invoices.')
      endStream(response, usage)
    })
    const address = await programs.run('recipes/openai-proxy.ts', { MODEL_URL: server.url })
    const client = new OpenAI({
      baseURL: `${address}/v1`,
      apiKey: hs256({ exp: Math.floor(Date.now() / 1000) + 3600 }),
      maxRetries: 0
    })
    const ask = async (model: string) =>
      await client.chat.completions.create({
        model,
        max_tokens: 4096,
        messages: [{ role: 'user', content: 'Which invoices are late?' }]
      })
    // Six estimates of 4,096 tokens would not fit into 20,000.
    for (const size of ['small', 'small', 'small', 'large', 'large']) {
      t.equal((await ask(`${size}-model`)).usage?.total_tokens, 42, size)
    }
    let text = ''
    for await (const { choices } of await client.chat.completions.create({
      model: 'small-model',
      max_tokens: 4096,
      stream: true,
      messages: []
    })) {
      text += choices[0]?.delta.content ?? ''
    }
    t.equal(text, 'Two invoices.')
    t.same(server.requests.at(-1)?.stream_options, { include_usage: true })
    await t.rejects(ask('small-model'), {
      status: 429,
      code: 'rate_limit_exceeded',
      type: 'requests',
      message: '429 The limit of 4 requests is reached.'
    })
    const rejected = await ask('large-model').catch((error: unknown) => error)
    t.ok(
      rejected instanceof OpenAI.APIError && rejected.headers?.get('x-should-retry') === 'false',
      'clients do not wait until the next day'
    )
    t.match(await ask('unknown-model').catch((error: unknown) => error), { status: 400 })
    const unauthenticated = await fetch(`${address}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: 'Bearer invalid', 'content-type': 'application/json' },
      body: '{"model":"small-model","messages":[]}'
    })
    matchExactly(
      t,
      [unauthenticated.status, await unauthenticated.json()],
      [401, { error: { code: 'invalid_api_key' } }]
    )
  }
)

t.test('a request for which the server of the model does not respond costs nothing', async (t) => {
  const address = await programs.run('recipes/openai-proxy.ts', {
    MODEL_URL: 'http://127.0.0.1:1' // nothing listens there
  })
  const ask = async (model: string) =>
    await fetch(`${address}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${hs256()}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model, max_tokens: 4096, messages: [] })
    })
  t.same(await statuses(4, () => ask('small-model')), [500, 500, 500, 500])
  t.equal((await ask('large-model')).status, 500, 'a fifth estimate would not fit into the limit')
})

t.test('the workers of a cluster share one limit', async (t) => {
  const primary = spawn(process.execPath, ['build/documented/recipes/processes.js'], {
    env: plainEnvironment({ PORT: '0' }),
    stdio: ['ignore', 'pipe', 'inherit']
  })
  t.teardown(() => {
    primary.kill()
  })
  let printed = ''
  for await (const text of primary.stdout
    .setEncoding('utf8')
    .iterator({ destroyOnReturn: false })) {
    printed += text
    if (printed.split('\n').length > 2) break
  }
  const [address] = printed.split('\n')
  const workers = new Set<unknown>()
  t.same(
    await statuses(6, async () => {
      const response = await fetch(`${address}/chat`, {
        method: 'POST',
        headers: { ...bearer('mira'), connection: 'close' }
      })
      workers.add(Object(await response.json()).process)
      return response
    }),
    [200, 200, 200, 429, 429, 429]
  )
  workers.delete(undefined)
  t.equal(workers.size, 2)
})

t.test('the quota protects the routes of another file in the layout of fastify-cli', async (t) => {
  process.env['JWT_SECRET'] = secret
  const app = Fastify()
  await app.register(
    createRequire(import.meta.url)('../../../documented/recipes/plugins/quota.cjs')
  )
  await app.register(
    async (routes) => {
      routes.post('/analyze', async () => 'ran')
    },
    { prefix: '/api' }
  )
  const headers = { authorization: `Bearer ${hs256()}` }
  t.same(
    await statuses(4, async () => ({
      status: (await app.inject({ method: 'POST', url: '/api/analyze', headers })).statusCode
    })),
    [200, 200, 200, 429]
  )
})

t.test(
  'a module prints each decision in which the quota and its earlier version differ',
  async (t) => {
    const lines = t.capture(console, 'log')
    await import('../../documented/migrating/compare-decisions.js')
    const app = Fastify()
    await app.register(quotaPlugin, { mode: 'shadow' })
    await app.register(earlierQuotaPlugin, { perMinute: 1 })
    app.post('/api/analyze', async () => 'ran')
    for (let request = 0; request < 2; request++) {
      await app.inject({ method: 'POST', url: '/api/analyze' })
    }
    t.same(
      lines().map(({ args }) => args[0]),
      ['POST /api/analyze: earlier admitted, new unauthenticated']
    )
  }
)
