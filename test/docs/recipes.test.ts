// The programs of the documents that need a model, several processes or a host of their own, run
// unchanged.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import { createRequire } from 'node:module'
import fastifyWebsocket from '@fastify/websocket'
import Fastify from 'fastify'
import OpenAI from 'openai'
import t from 'tap'
import quotaPlugin, { estimateOf, localAuthentication, MemoryQuotaStore } from '../../lib/index.js'
import { quotas } from '../../documented/recipes/quotas.js'
import earlierQuotaPlugin from '../../lib/earlier.js'
import { hs256, secret, statuses } from '../support/credentials.js'
import { plainEnvironment } from '../support/environment.js'
import { listenOnLoopback } from '../support/loopback.js'
import { matchExactly } from '../support/match-exactly.js'
import {
  callTool,
  type ChatAnswer,
  complete,
  endStream,
  startOpenAiServer,
  streamPart
} from '../support/openai-server.js'
import { Programs } from '../support/programs.js'
import { listen } from '../support/raw-socket.js'
import { until } from '../support/until.js'

const programs = Programs.start(t)
const usage = { prompt_tokens: 12, completion_tokens: 30, total_tokens: 42 }
// The secret in service.ts of docs/recipes/README.md.
const bearer = (sub: string) => ({
  authorization: `Bearer ${hs256({ sub }, 'a secret of at least 32 characters')}`
})

// The tests share a server of a model, and with it the service of tokens.ts and the proxy, because
// starting one takes longer than they do. Each test has a caller of its own. A service starts in a
// test, because the tests of another file may run programs until then.
const model = await startOpenAiServer(t)
let chats: Promise<string> | undefined
let proxy: Promise<string> | undefined

/** Returns the address of tokens.ts. */
function startChats (): Promise<string> {
  chats ??= programs.run('recipes/tokens.ts', { MODEL_URL: model.url })
  return chats
}

/** Sends a prompt to the service of tokens.ts. */
async function chat (
  sub: string,
  signal: AbortSignal | null = null,
  address: string | Promise<string> = startChats()
): Promise<Response> {
  return await fetch(`${await address}/chat`, {
    method: 'POST',
    headers: { ...bearer(sub), 'content-type': 'application/json' },
    body: '{"prompt":"Which invoices are late?"}',
    signal
  })
}

/** What tokens.ts holds for this prompt: its bytes, 16 more, and the longest answer. */
const estimate = 24 + 16 + 400
const remaining = (response: Response): number =>
  Number(/"tokens";r=(\d+)/.exec(response.headers.get('ratelimit') ?? '')?.[1])

/** Makes the server of the model answer in this way from now on. Forgets its requests. */
function answer (answer: ChatAnswer): void {
  model.answer = answer
  model.requests.length = 0
}

t.test('the usage of a model is counted, and the estimate if the caller leaves', async (t) => {
  answer((_, response) => {
    streamPart(response, 'Two invoices.')
    endStream(response, usage)
  })
  const first = await chat('anna')
  t.equal(
    first.headers.get('ratelimit-policy'),
    '"tokens";q=5000;w=60;qu="tokens", "streams";q=2;qu="concurrent-requests"'
  )
  t.match(await first.text(), /^Two invoices/)
  const abandoned = new Promise((resolve) => {
    answer((_, response) => {
      response.once('close', resolve)
      streamPart(response, 'Two invoices.')
    })
  })
  const gone = new AbortController()
  const second = await chat('anna', gone.signal)
  t.equal(remaining(second), 5000 - 42 - estimate)
  await second.body?.getReader().read()
  gone.abort()
  await abandoned
  answer((_, response) => {
    endStream(response, usage)
  })
  const third = await chat('anna')
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
    answer((_, response) => {
      for (let chunk = 1; chunk <= 40; chunk++) {
        streamPart(response, 'late ', null, usageOf(chunk))
      }
      if (isWhole) endStream(response, used === 42 ? usage : undefined)
      else abandoned.push(once(response, 'close'))
    })
    await (await chat(what)).text()
    isWhole = false
    const statusesOfThoseWhoLeave: number[] = []
    for (;;) {
      const gone = new AbortController()
      const response = await chat(what, gone.signal)
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
  answer((_, response) => {
    endStream(response, usage)
  })
  const low = await programs.run('recipes/tokens.ts', {
    MODEL_URL: model.url,
    SERVICE_RATE_LIMIT_TOKENS_PER_MINUTE: '100'
  })
  await (await chat('bob', null, low)).text()
  t.equal(model.requests[0]?.max_tokens, 100 - 24 - 16)
})

t.test('a call that fails before the model responds costs nothing', async (t) => {
  answer((_, response) => response.writeHead(500).end())
  const failed = await chat('carol')
  t.equal(failed.status, 500)
  await failed.text()
  answer((_, response) => {
    endStream(response, usage)
  })
  const second = await chat('carol')
  t.equal(remaining(second), 5000 - estimate)
  await second.text()
})

t.test('each call of the model in a loop of tools is counted', async (t) => {
  let isWhole = true
  const abandoned = new Promise((resolve) => {
    answer(({ messages }, response) => {
      if (messages.at(-1)?.role !== 'tool') return callTool(response, 'invoices', usage)
      streamPart(response, 'Two invoices.')
      if (isWhole) endStream(response, usage)
      else response.once('close', resolve)
    })
  })
  const address = await programs.run('recipes/tools.ts', { MODEL_URL: model.url })
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
  await abandoned
  t.equal(await count(), 3 * usage.total_tokens + 1_000, 'the second call counts its estimate')
  t.equal(model.requests.length, 4)
})

/** Starts openai-proxy.ts, with a limit of 20,000 tokens a day. */
async function startProxy (url: string, environment: Record<string, string> = {}): Promise<string> {
  return await programs.run('recipes/openai-proxy.ts', {
    MODEL_URL: url,
    SERVICE_RATE_LIMIT_TOKENS_PER_DAY: '20000',
    ...environment
  })
}

/** Returns the address of the proxy that the tests share. */
function sharedProxy (): Promise<string> {
  proxy ??= startProxy(model.url)
  return proxy
}

/** A client of the shared proxy that does not retry. */
async function clientOf (apiKey: string): Promise<OpenAI> {
  return new OpenAI({ baseURL: `${await sharedProxy()}/v1`, apiKey, maxRetries: 0 })
}

const question = 'Which invoices are late?'
const says = (content: unknown): object[] => [{ role: 'user', content }]

/** Sends a request of a caller to openai-proxy.ts. */
async function complain (
  sub: string,
  fields: object = {},
  address: string | Promise<string> = sharedProxy()
): Promise<Response> {
  return await fetch(`${await address}/v1/chat/completions`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${hs256({ sub })}`,
      'content-type': 'application/json',
      // A connection that is kept would keep a service that ends, until its limit for idle ones.
      connection: 'close'
    },
    body: JSON.stringify({ model: 'any', messages: says(question), ...fields })
  })
}

t.test("OpenAI's client works through the proxy, and each use is counted", async (t) => {
  answer((request, response) => {
    if (request.stream !== true) return complete(response, 'Two invoices.', usage)
    streamPart(response, 'Two invoices.')
    endStream(response, request.stream_options?.include_usage === true ? usage : undefined)
  })
  const client = await clientOf(hs256({ sub: 'dave' }))
  const messages = [{ role: 'user' as const, content: question }]
  const completion = await client.chat.completions.create({ model: 'any', messages })
  t.equal(completion.choices[0]?.message.content, 'Two invoices.')
  let text = ''
  for await (const { choices } of await client.chat.completions.create({
    model: 'any',
    messages,
    stream: true
  })) {
    text += choices[0]?.delta.content ?? ''
  }
  t.equal(text, 'Two invoices.')
  t.same((await client.models.list()).data, [], 'the list of models is passed on')
  const next = await complain('dave')
  t.equal(remaining(next), 20_000 - 2 * 42 - bound({ messages }), 'and costs nothing')
  await next.text()
})

t.test("refusals and errors of the proxy have OpenAI's format", async (t) => {
  answer((_, response) => {
    complete(response, 'late', { prompt_tokens: 20_000, completion_tokens: 1 })
  })
  const client = await clientOf(hs256({ sub: 'erin' }))
  const messages = [{ role: 'user' as const, content: question }]
  const ask = async () => await client.chat.completions.create({ model: 'any', messages })
  await ask()
  const rejected = await ask().catch((error: unknown) => error)
  t.ok(rejected instanceof OpenAI.RateLimitError)
  t.match(rejected, { status: 429, code: 'rate_limit_exceeded', message: /Maximum 20000 LLM/ })
  t.ok(
    rejected instanceof OpenAI.APIError && rejected.headers?.get('x-should-retry') === 'false',
    'clients do not wait until the next day'
  )
  const invalid = await client.chat.completions
    .create({ model: 'any', messages, max_tokens: 1_000_000 })
    .catch((error: unknown) => error)
  t.match(invalid, {
    status: 400,
    type: 'invalid_request_error',
    message: /The request is too long or not supported/
  })
  const stranger = await clientOf('invalid')
  const unauthenticated = { status: 401, code: 'invalid_api_key' }
  await t.rejects(stranger.chat.completions.create({ model: 'any', messages }), unauthenticated)
  await t.rejects(stranger.models.list(), unauthenticated)
})

/** What the proxy holds for a request, at most, with the maximum that it sends. */
function bound (fields: object): number {
  const body = { model: 'any', messages: says(question), max_tokens: 1024, ...fields }
  const most = estimateOf(body, { output: 1024, image: 1_500 })
  return most === null ? NaN : most.input + most.output
}

const tools = (description: string): object[] => [
  { type: 'function', function: { name: 'late', description, parameters: {} } }
]
const picture = (url: string) => [{ type: 'image_url', image_url: { url } }]
const bytes = `data:image/png;base64,${'A'.repeat(2 * 2 ** 20)}`

type Fields = Readonly<Record<string, unknown>>

const estimated: [what: string, fields: Fields, least: number, forwarded: object][] = [
  [
    'the larger of two maxima',
    { max_tokens: 1, max_completion_tokens: 4096 },
    4096,
    { max_tokens: 4096 }
  ],
  ['a maximum of 0', { max_tokens: 0 }, 1024, { max_tokens: 1024 }],
  ['a maximum beyond all integers', { max_tokens: 1e300 }, 1024, { max_tokens: 1024 }],
  ['a negative maximum', { max_tokens: -1 }, 1024, { max_tokens: 1024 }],
  ['the newer name', { max_completion_tokens: 50 }, 50, { max_tokens: 50 }],
  ['every answer', { max_tokens: 1000, n: 8 }, 8000, {}],
  ['tools', { max_tokens: 1, tools: tools('x'.repeat(9000)) }, 9000, {}],
  ['an image of megabytes', { max_tokens: 1, messages: says(picture(bytes)) }, 1500, {}],
  ['a maximum that it adds', {}, 1024, { max_tokens: 1024 }],
  ['ordinary fields', { top_p: 0.5, stop: ['.'], seed: 7, user: 'm', max_tokens: 9 }, 9, {}]
]

for (const [what, fields, least, forwarded] of estimated) {
  t.test(`the proxy estimates ${what}, and passes the request on`, async (t) => {
    answer((_, response) => {
      complete(response, 'late', usage)
    })
    const response = await complain(what, fields)
    t.equal(response.status, 200)
    await response.text()
    const { max_completion_tokens: _newer, ...others } = fields
    const sent = { ...others, ...forwarded }
    t.equal(remaining(response), 20_000 - bound(sent))
    t.ok(bound(sent) >= least)
    t.same(model.requests, [{ model: 'any', messages: says(question), ...sent }])
  })
}

t.test('the proxy refuses what its estimate does not cover', async (t) => {
  answer(() => {})
  for (const fields of [
    { max_completion_tokens: 90_000 },
    { num_predict: 1_000_000 },
    { n: 100 },
    { messages: says('x'.repeat(400_001)) },
    { messages: says([{ type: 'file', file: { file_id: 'file-1' } }]) },
    { tools: [{ type: 'web_search' }] }
  ]) {
    const response = await complain('frank', fields)
    t.equal(response.status, 400)
    matchExactly(t, await response.json(), { error: { type: 'invalid_request_error' } })
  }
  t.same(model.requests, [])
})

t.test("the proxy passes on a provider's rejection, which costs nothing", async (t) => {
  answer((_, response) => {
    response
      .writeHead(429, { 'content-type': 'application/json', 'retry-after': '7' })
      .end('{"error":{"message":"slow down","type":"requests","code":"rate_limit_exceeded"}}')
  })
  const rejected = await complain('grace')
  t.same([rejected.status, rejected.headers.get('retry-after')], [429, '7'])
  matchExactly(t, await rejected.json(), { error: { message: 'slow down' } })
  const next = await complain('grace')
  t.equal(remaining(next), 20_000 - bound({}))
})

t.test('a request for which the server of the model does not respond costs nothing', async (t) => {
  const nobody = await listenOnLoopback(createServer())
  await nobody.stop()
  const address = await startProxy(`http://127.0.0.1:${nobody.port}`)
  const first = await complain('mira', {}, address)
  matchExactly(t, [first.status, await first.json()], [500, { error: { type: 'server_error' } }])
  t.equal(remaining(await complain('mira', {}, address)), 20_000 - bound({}))
})

t.test('a call that a time limit ends counts its estimate', async (t) => {
  const abandoned = new Promise((resolve) => {
    answer((_, response) => response.once('close', resolve))
  })
  const address = await startProxy(model.url, { TIME_LIMIT: '200' })
  const timedOut = await complain('mira', {}, address)
  t.equal(timedOut.status, 500)
  await timedOut.text()
  await abandoned
  answer((_, response) => {
    complete(response, 'late', usage)
  })
  const second = await complain('mira', {}, address)
  t.equal(second.status, 200)
  await second.text()
  t.equal(remaining(second), 20_000 - 2 * bound({}))
})

t.test('a proxy that is ended completes the responses in progress', async (t) => {
  const answered = new Promise<ServerResponse>((resolve) => {
    answer((_, response) => {
      streamPart(response, 'Two ')
      resolve(response)
    })
  })
  const service = spawn(process.execPath, ['build/documented/recipes/openai-proxy.js'], {
    env: plainEnvironment({ PORT: '0', JWT_SECRET: secret, MODEL_URL: model.url }),
    stdio: ['ignore', 'pipe', 'inherit']
  })
  t.teardown(() => {
    service.kill('SIGKILL')
  })
  const [printed] = await once(service.stdout, 'data')
  const response = await complain('mira', { stream: true }, String(printed).trim())
  const exited = once(service, 'exit')
  service.kill('SIGTERM')
  const upstream = await answered
  streamPart(upstream, 'invoices.')
  endStream(upstream, usage)
  t.match(await response.text(), /invoices\..*\[DONE\]/s)
  t.same(await exited, [0, null])
})

t.test('a client that leaves the proxy ends the call, and counts its estimate', async (t) => {
  const abandoned = new Promise((resolve) => {
    answer((request, response) => {
      if (request.stream !== true) return complete(response, 'late', usage)
      response.once('close', resolve)
      streamPart(response, 'Two ')
    })
  })
  const stream = await complain('heidi', { stream: true })
  const reader = stream.body?.getReader()
  await reader?.read()
  await reader?.cancel()
  await abandoned
  const next = await complain('heidi')
  t.equal(remaining(next), 20_000 - bound({ stream: true }) - bound({}))
})

t.test('a session takes a permit for each response, and passes on audio only', async (t) => {
  const sent: Record<string, unknown>[] = []
  const model = Fastify()
  await model.register(fastifyWebsocket)
  model.get('/realtime', { websocket: true }, (socket) => {
    socket.on('message', (message: Buffer) => {
      const event = JSON.parse(String(message))
      sent.push(event)
      const answer = (data: object) => {
        socket.send(JSON.stringify(data))
      }
      if (event.type === 'input_audio_buffer.append') {
        answer({ type: 'input_audio_buffer.committed' })
      }
      if (event.type === 'response.create') {
        const usage = { total_tokens: 30_000, input_tokens: 20_000, output_tokens: 10_000 }
        answer({ type: 'response.done', response: { usage } })
      }
    })
  })
  const port = await listen(model)
  t.teardown(() => model.close())
  const address = await programs.run('recipes/realtime.js', {
    MODEL_URL: `ws://127.0.0.1:${port}/realtime`
  })
  const { WebSocket } = createRequire(import.meta.url)('ws')
  const client = new WebSocket(`${address.replace('http', 'ws')}/realtime`, {
    headers: { authorization: `Bearer ${hs256()}` }
  })
  t.teardown(() => {
    client.close()
  })
  const received: Record<string, unknown>[] = []
  client.on('message', (message: Buffer) => received.push(JSON.parse(String(message))))
  await once(client, 'open')
  await until('the session is set up', () => sent.length === 1)
  t.match(sent[0], {
    type: 'session.update',
    session: { audio: { input: { turn_detection: { create_response: false } } } }
  })
  client.send('{"type":"session.update","session":{"max_output_tokens":"inf"}}')
  // The hour has 50,000 tokens, so there is room for two.
  for (let turn = 1; turn <= 3; turn++) {
    client.send('{"type":"input_audio_buffer.append","audio":"AAAA"}')
    const isOver = () =>
      received.filter(({ type }) => type === 'response.done' || type === 'error').length === turn
    await until(`turn ${turn} is over`, isOver)
  }
  t.same(
    sent.slice(1).map(({ type }) => type),
    [
      ...['input_audio_buffer.append', 'response.create'],
      ...['input_audio_buffer.append', 'response.create'],
      'input_audio_buffer.append'
    ]
  )
  t.match(received.at(-1), { type: 'error', error: { code: 'rate_limit_exceeded' } })
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
