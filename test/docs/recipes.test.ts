// The programs of the documents that need a model, several processes or a host of their own, run
// unchanged.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import { createRequire } from 'node:module'
import Fastify from 'fastify'
import OpenAI from 'openai'
import t from 'tap'
import quotaPlugin, { localAuthentication, MemoryQuotaStore } from '../../lib/index.js'
import { quotas } from '../../documented/recipes/quotas.js'
import earlierQuotaPlugin from '../../lib/earlier.js'
import { hs256, secret, statuses } from '../support/credentials.js'
import { plainEnvironment } from '../support/environment.js'
import { listenOnLoopback } from '../support/loopback.js'
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

/** Sends a prompt to the service of tokens.ts. */
async function chat (address: string, signal: AbortSignal | null = null): Promise<Response> {
  return await fetch(`${address}/chat`, {
    method: 'POST',
    headers: { ...bearer('mira'), 'content-type': 'application/json' },
    body: '{"prompt":"Which invoices are late?"}',
    signal
  })
}

/** What tokens.ts holds for this prompt: its bytes, 16 more, and the longest answer. */
const estimate = 24 + 16 + 400
const remaining = (response: Response): number =>
  Number(/"tokens";r=(\d+)/.exec(response.headers.get('ratelimit') ?? '')?.[1])

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
  const first = await chat(address)
  t.equal(
    first.headers.get('ratelimit-policy'),
    '"tokens";q=5000;w=60;qu="tokens", "streams";q=2;qu="concurrent-requests"'
  )
  t.match(await first.text(), /^Two invoices/)
  isWhole = false
  const second = await chat(address, gone.signal)
  t.equal(remaining(second), 5000 - 42 - estimate)
  await second.body?.getReader().read()
  gone.abort()
  await server.abandoned
  isWhole = true
  const third = await chat(address)
  t.equal(remaining(third), 5000 - 42 - 2 * estimate)
  t.match(third.headers.get('ratelimit'), '"streams";r=1')
  await third.text()
})

for (const [what, usageOf, used] of [
  ['zeros until the last chunk', () => ({ total_tokens: 0 }), 42],
  ['what was used so far', (chunk: number) => ({ total_tokens: 12 + chunk }), 52]
] as const) {
  t.test(`a server that sends ${what} is counted once, and no answer is free`, async (t) => {
    const abandoned: Promise<unknown>[] = []
    let isWhole = true
    const server = await startOpenAiServer(t, (_, response) => {
      for (let chunk = 1; chunk <= 40; chunk++) {
        streamPart(response, 'late ', null, usageOf(chunk))
      }
      if (isWhole) endStream(response, used === 42 ? usage : undefined)
      else abandoned.push(once(response, 'close'))
    })
    const address = await programs.run('recipes/tokens.ts', {
      MODEL_URL: server.url.replace('/v1', '')
    })
    await (await chat(address)).text()
    isWhole = false
    const statusesOfThoseWhoLeave: number[] = []
    for (;;) {
      const gone = new AbortController()
      const response = await chat(address, gone.signal)
      statusesOfThoseWhoLeave.push(response.status)
      if (response.status !== 200) break
      const left = 5000 - used - estimate * statusesOfThoseWhoLeave.length
      t.equal(remaining(response), Math.max(0, left))
      await response.body?.getReader().read()
      gone.abort()
      await abandoned.at(-1)
    }
    // The last one is granted what is left.
    t.same(statusesOfThoseWhoLeave, [...Array<number>(12).fill(200), 429])
  })
}

t.test('a caller with little left gets a shorter answer', async (t) => {
  const server = await startOpenAiServer(t, (_, response) => {
    streamPart(response, 'Two invoices.')
    endStream(response, usage)
  })
  const environment = { MODEL_URL: server.url.replace('/v1', '') }
  const low = await programs.run('recipes/tokens.ts', {
    ...environment,
    SERVICE_RATE_LIMIT_TOKENS_PER_MINUTE: '100'
  })
  await (await chat(low)).text()
  t.equal(server.requests[0]?.max_tokens, 100 - 24 - 16)
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
  const failed = await chat(address)
  t.equal(failed.status, 500)
  await failed.text()
  isDown = false
  const second = await chat(address)
  t.equal(remaining(second), 5000 - estimate)
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
      message: /^429 The limit of 4 requests is reached. Try again in \d+ s\.$/
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

/** Sends a request to openai-proxy.ts. */
async function complain (address: string, fields: object): Promise<Response> {
  return await fetch(`${address}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${hs256()}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'large-model', messages: [], ...fields })
  })
}

const tools = (description: string): object[] => [
  { type: 'function', function: { name: 'late', description } }
]
const says = (content: unknown): object[] => [{ role: 'user', content }]
const rareHan = String.fromCodePoint(...Array.from({ length: 600 }, (_, index) => 0x20000 + index))

for (const [what, fields, output, forwarded] of [
  ['the larger of two maxima', { max_tokens: 1, max_completion_tokens: 4096 }, 4096, {}],
  ['every answer', { max_tokens: 1000, n: 8 }, 8000, {}],
  ['the bytes of tools', { max_tokens: 1, tools: tools('x'.repeat(9000)) }, 1, {}],
  ['the bytes of rare characters', { max_tokens: 1, messages: says(rareHan) }, 1, {}],
  ['a maximum that it adds', {}, 1024, { max_completion_tokens: 1024 }],
  ['the maximum of a current model', { max_completion_tokens: 7 }, 7, {}]
] as const) {
  t.test(`the proxy estimates ${what}`, async (t) => {
    const server = await startOpenAiServer(t, (_, response) => {
      complete(response, 'late', usage)
    })
    const address = await programs.run('recipes/openai-proxy.ts', { MODEL_URL: server.url })
    const response = await complain(address, fields)
    t.equal(response.status, 200)
    await response.text()
    const body = { model: 'large-model', messages: [], ...fields }
    t.equal(remaining(response), 20_000 - Buffer.byteLength(JSON.stringify(body)) - output)
    t.same(server.requests, [{ ...body, ...forwarded }], 'and adds no second maximum')
  })
}

t.test('the proxy refuses what its estimate does not cover', async (t) => {
  const server = await startOpenAiServer(t)
  const address = await programs.run('recipes/openai-proxy.ts', { MODEL_URL: server.url })
  const picture = { type: 'image_url', image_url: { url: 'https://images.example/1' } }
  for (const fields of [
    { max_tokens: 1, max_completion_tokens: 9000 },
    { max_tokens: 1, n: 100 },
    { max_tokens: 1, best_of: 20 },
    { max_tokens: 1, messages: says([picture]) },
    { max_tokens: 1, tools: [{ type: 'web_search' }] }
  ]) {
    const response = await complain(address, fields)
    t.equal(response.status, 400, await response.text())
  }
  const tooLarge = await complain(address, { max_tokens: 1, tools: tools('x'.repeat(60_000)) })
  t.same(
    [tooLarge.status, tooLarge.headers.get('retry-after'), tooLarge.headers.get('x-should-retry')],
    [429, null, 'false']
  )
  matchExactly(t, await tooLarge.json(), {
    error: { message: 'The request is larger than the limit of 20000 tokens.' }
  })
  t.same(server.requests, [])
})

t.test('a request for which the server of the model does not respond costs nothing', async (t) => {
  const nobody = await listenOnLoopback(createServer())
  await nobody.stop()
  const address = await programs.run('recipes/openai-proxy.ts', {
    MODEL_URL: `http://127.0.0.1:${nobody.port}`
  })
  const ask = async (model: string) => await complain(address, { model, max_tokens: 4096 })
  t.same(await statuses(4, () => ask('small-model')), [500, 500, 500, 500])
  t.equal((await ask('large-model')).status, 500, 'a fifth estimate would not fit into the limit')
})

t.test('a call that a time limit ends counts its estimate', async (t) => {
  let answerNow = false
  const server = await startOpenAiServer(t, (_, response) => {
    if (answerNow) complete(response, 'late', usage)
  })
  const address = await programs.run('recipes/openai-proxy.ts', {
    MODEL_URL: server.url,
    TIME_LIMIT: '200'
  })
  const timedOut = await complain(address, { max_tokens: 4096 })
  t.equal(timedOut.status, 500)
  const estimate = 20_000 - remaining(timedOut)
  t.ok(estimate > 4096)
  await timedOut.text()
  await server.abandoned
  answerNow = true
  const second = await complain(address, { max_tokens: 4096 })
  t.equal(second.status, 200)
  await second.text()
  t.equal(remaining(second), 20_000 - 2 * estimate)
})

t.test('a service and a worker with one definition share one budget', async (t) => {
  const store = new MemoryQuotaStore()
  const [service, worker] = [Fastify(), Fastify()]
  for (const app of [service, worker]) {
    await app.register(quotaPlugin, { operations: [], store, quotas })
    await app.ready()
  }
  const mira = localAuthentication('mira')
  for (const [app, granted] of [
    [service, 400],
    [worker, 400],
    [service, 200],
    [worker, null]
  ] as const) {
    t.equal((await app.quotaAcquire(mira, 'jobs')).granted('tokens'), granted)
  }
  await Promise.all([service.close(), worker.close()])
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
