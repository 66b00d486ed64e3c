// docs/rules.md, "Settlements": the official clients read what passes through a meter as they read
// it from the model's server itself. The server here sends what the servers of these APIs send, as
// the types of the clients describe it.
import { createServer } from 'node:http'
import Anthropic from '@anthropic-ai/sdk'
import { createAnthropic } from '@ai-sdk/anthropic'
import { createAnthropic as createAnthropic6 } from '@ai-sdk/anthropic-6'
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { createOpenAICompatible as createOpenAICompatible6 } from '@ai-sdk/openai-compatible-6'
import { generateText, streamText } from 'ai'
import { generateText as generateText6, streamText as streamText6 } from 'ai-6'
import Fastify from 'fastify'
import OpenAI from 'openai'
import t, { type Test } from 'tap'
import quotaPlugin, { localAuthentication } from '../../lib/index.js'
import { listenOnLoopback } from '../support/loopback.js'

const alice = localAuthentication('alice')

interface Wire {
  readonly type: string
  readonly parts: readonly string[]
  /** Whether the connection is closed in the middle. */
  readonly isCutOff?: boolean
}

/** Starts a server of a model; returns its URL, and that of a proxy that meters it. */
async function startServers (t: Test, wire: Wire) {
  const server = createServer((request, response) => {
    request.resume()
    response.writeHead(200, { 'content-type': wire.type })
    for (const part of wire.parts) response.write(part)
    if (wire.isCutOff === true) setImmediate(() => response.destroy())
    else response.end()
  })
  const { port, stop } = await listenOnLoopback(server)
  t.teardown(stop)
  const direct = `http://127.0.0.1:${port}/v1`
  const app = Fastify()
  t.teardown(async () => await app.close())
  const tokens = { perDay: { tokens: 1_000_000 }, cost: 400 }
  await app.register(quotaPlugin, { quotas: { tokens }, authentication: () => alice })
  app.post('/v1/*', { config: { quota: 'tokens' } }, async (request, reply) => {
    const response = await fetch(direct, { method: 'POST', body: JSON.stringify(request.body) })
    reply.type(response.headers.get('content-type') ?? '')
    return reply.send(request.quota.meter(response.body))
  })
  const metered = `${await app.listen()}/v1`
  const count = async () => (await app.quotaStanding(alice, 'tokens'))?.count
  return { direct, metered, count }
}

function events (list: readonly object[], last: readonly string[] = []): Wire {
  const parts: string[] = []
  for (const data of list) {
    const type = 'type' in data ? `event: ${String(data.type)}\n` : ''
    parts.push(`${type}data: ${JSON.stringify(data)}\n\n`)
  }
  return { type: 'text/event-stream', parts: [...parts, ...last] }
}

function json (body: object): Wire {
  return { type: 'application/json', parts: [JSON.stringify(body)] }
}

const openaiUsage = {
  prompt_tokens: 20,
  completion_tokens: 30,
  total_tokens: 50,
  prompt_tokens_details: { cached_tokens: 8 },
  completion_tokens_details: { reasoning_tokens: 9 }
}

function chat (delta: object, reason: string | null, usage: object | null = null): object {
  const choices = [{ index: 0, delta, finish_reason: reason }]
  return { id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm', choices, usage }
}

const call = { index: 0, id: 't', type: 'function', function: { name: 'f', arguments: '{"a":1}' } }

const openaiStream = events(
  [
    chat({ role: 'assistant', content: '' }, null),
    chat({ content: 'four ' }, null),
    chat({ content: 'wörds\n\u2028"' }, null),
    chat({ tool_calls: [call] }, null),
    chat({}, 'tool_calls'),
    { ...chat({}, null, openaiUsage), choices: [] }
  ],
  ['data: [DONE]\n\n']
)

const openaiFailure = events([
  chat({ content: 'four' }, null),
  { error: { message: 'overloaded', type: 'server_error', param: null, code: null } }
])

const openaiBody = json({
  id: 'c',
  object: 'chat.completion',
  created: 1,
  model: 'm',
  choices: [
    { index: 0, message: { role: 'assistant', content: 'four' }, finish_reason: 'stop' }
  ],
  usage: openaiUsage
})

const responsesUsage = {
  input_tokens: 20,
  input_tokens_details: { cached_tokens: 8 },
  output_tokens: 30,
  output_tokens_details: { reasoning_tokens: 9 },
  total_tokens: 50
}

const response = { id: 'r', object: 'response', created_at: 1, model: 'm', output: [] }

const responsesStream = events([
  { type: 'response.created', sequence_number: 0, response: { ...response, usage: null } },
  {
    type: 'response.output_text.delta',
    sequence_number: 1,
    item_id: 'i',
    output_index: 0,
    content_index: 0,
    delta: 'four'
  },
  {
    type: 'response.completed',
    sequence_number: 2,
    response: { ...response, status: 'completed', usage: responsesUsage }
  }
])

const message = {
  id: 'm',
  type: 'message',
  role: 'assistant',
  model: 'm',
  content: [],
  stop_reason: null,
  stop_sequence: null,
  usage: { input_tokens: 12, cache_read_input_tokens: 8, output_tokens: 1 }
}

const messageEvents = [
  { type: 'message_start', message },
  { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
  { type: 'ping' },
  { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'four' } },
  { type: 'content_block_stop', index: 0 }
]

const anthropicStream = events([
  ...messageEvents,
  {
    type: 'message_delta',
    delta: { stop_reason: 'end_turn', stop_sequence: null },
    usage: { output_tokens: 30 }
  },
  { type: 'message_stop' }
])

const anthropicFailure = events([
  ...messageEvents,
  { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } }
])

const anthropicBody = json({
  ...message,
  content: [{ type: 'text', text: 'four' }],
  stop_reason: 'end_turn',
  usage: { input_tokens: 12, cache_read_input_tokens: 8, output_tokens: 30 }
})

/** Returns all parts of a stream, and the error that ends it. */
async function partsOf (stream: AsyncIterable<unknown>): Promise<unknown[]> {
  const parts: unknown[] = []
  try {
    for await (const part of stream) parts.push(part)
  } catch (error) {
    parts.push(error instanceof Error ? `${error.name}: ${error.message}` : error)
  }
  return parts
}

const messages = [{ role: 'user' as const, content: 'two' }]
const question = { model: 'm', messages, max_tokens: 100 }
const openai = (baseURL: string) => new OpenAI({ baseURL, apiKey: 'k', maxRetries: 0 })
const anthropic = (url: string) =>
  new Anthropic({ baseURL: url.replace(/\/v1$/, ''), apiKey: 'k', maxRetries: 0 })
const compatible = (baseURL: string) =>
  createOpenAICompatible({ name: 'm', baseURL, apiKey: 'k', includeUsage: true })('m')
const compatible6 = (baseURL: string) =>
  createOpenAICompatible6({ name: 'm', baseURL, apiKey: 'k', includeUsage: true })('m')
const anthropic5 = (baseURL: string) => createAnthropic({ baseURL, apiKey: 'k' })('m')
const anthropic6 = (baseURL: string) => createAnthropic6({ baseURL, apiKey: 'k' })('m')

const asked = { prompt: 'two', maxRetries: 0, onError () {} }

async function partsOf5 (model: ReturnType<typeof compatible>): Promise<unknown[]> {
  return withoutTimes(await partsOf(streamText({ ...asked, model }).fullStream))
}

async function partsOf6 (model: ReturnType<typeof compatible6>): Promise<unknown[]> {
  return withoutTimes(await partsOf(streamText6({ ...asked, model }).fullStream))
}

/** Removes from the parts of the AI SDK what differs each time: ids, times and headers. */
function withoutTimes (parts: readonly unknown[]): unknown[] {
  const changing = ['timestamp', 'headers', 'date', 'stack', 'url']
  const text = JSON.stringify(parts, (name, value) => {
    if (changing.includes(name)) return undefined
    return value instanceof Error ? `${value.name}: ${value.message}` : value
  })
  return JSON.parse(text)
}

type Ask = (url: string) => Promise<unknown>

const clients: [client: string, wire: Wire, count: number, ask: Ask][] = [
  [
    'openai, a stream of a chat',
    openaiStream,
    50,
    async (url) =>
      await partsOf(await openai(url).chat.completions.create({ ...question, stream: true }))
  ],
  [
    'openai, a chat',
    openaiBody,
    50,
    async (url) => await openai(url).chat.completions.create(question)
  ],
  [
    'openai, an error in the middle of a stream',
    openaiFailure,
    400,
    async (url) =>
      await partsOf(await openai(url).chat.completions.create({ ...question, stream: true }))
  ],
  [
    'openai, a stream of a response',
    responsesStream,
    50,
    async (url) =>
      await partsOf(await openai(url).responses.create({ model: 'm', input: 'a', stream: true }))
  ],
  [
    '@anthropic-ai/sdk, a stream',
    anthropicStream,
    50,
    async (url) => await anthropic(url).messages.stream(question).finalMessage()
  ],
  [
    '@anthropic-ai/sdk, a message',
    anthropicBody,
    50,
    async (url) => await anthropic(url).messages.create(question)
  ],
  [
    '@anthropic-ai/sdk, an error in the middle of a stream',
    anthropicFailure,
    400,
    async (url) =>
      await partsOf(await anthropic(url).messages.create({ ...question, stream: true }))
  ],
  ['ai 5 over OpenAI\'s API', openaiStream, 50, async (url) => await partsOf5(compatible(url))],
  [
    'ai 5 over Anthropic\'s API',
    anthropicStream,
    50,
    async (url) => await partsOf5(anthropic5(url))
  ],
  ['ai 5, an error', anthropicFailure, 400, async (url) => await partsOf5(anthropic5(url))],
  [
    'ai 5, a text',
    openaiBody,
    50,
    async (url) => (await generateText({ ...asked, model: compatible(url) })).totalUsage
  ],
  ['ai 6 over OpenAI\'s API', openaiStream, 50, async (url) => await partsOf6(compatible6(url))],
  [
    'ai 6 over Anthropic\'s API',
    anthropicStream,
    50,
    async (url) => await partsOf6(anthropic6(url))
  ],
  ['ai 6, an error', anthropicFailure, 400, async (url) => await partsOf6(anthropic6(url))],
  [
    'ai 6, a text',
    openaiBody,
    50,
    async (url) => (await generateText6({ ...asked, model: compatible6(url) })).totalUsage
  ]
]

for (const [client, wire, count, ask] of clients) {
  t.test(`a client reads what passes through a meter unchanged: ${client}`, async (t) => {
    const servers = await startServers(t, wire)
    const read = await ask(servers.direct)
    t.strictSame(await ask(servers.metered), read)
    t.equal(await servers.count(), count)
  })
}

t.test('a client sees where a stream is cut off', async (t) => {
  const servers = await startServers(t, { ...openaiFailure, isCutOff: true })
  const create = async (url: string) =>
    await partsOf(await openai(url).chat.completions.create({ ...question, stream: true }))
  t.match((await create(servers.metered)).at(-1), /Error/)
  t.equal(await servers.count(), 400)
})
