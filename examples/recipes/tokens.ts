// Limits model tokens. Each of three clients streams a response, reports the tokens that the model states at its end, and stops if the caller goes away.
import { Readable } from 'node:stream'
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import Anthropic from '@anthropic-ai/sdk'
import fastifyJwt from '@fastify/jwt'
import { streamText } from 'ai'
import Fastify from 'fastify'
import quotaPlugin, { usedTokens } from 'fastify-llm-quota'
import OpenAI from 'openai'

const { JWT_SECRET: secret = '', MODEL_URL: url = 'http://127.0.0.1:11434', MODEL_KEY: key = 'none', MODEL: model = 'any' } = process.env
if (secret.length < 32) throw new Error('JWT_SECRET must have 32 characters or more')

type Ask = (prompt: string, signal: AbortSignal, report: (usage: unknown) => void) => AsyncIterable<string>

const openai = new OpenAI({ baseURL: `${url}/v1`, apiKey: key })

const askOpenAi: Ask = async function * (prompt, signal, report) {
  const messages = [{ role: 'user' as const, content: prompt }]
  const stream = await openai.chat.completions.create({ model, messages, stream: true, stream_options: { include_usage: true } }, { signal })
  for await (const { choices, usage } of stream) {
    report(usage)
    yield choices[0]?.delta.content ?? ''
  }
}

const anthropic = new Anthropic({ baseURL: url, apiKey: key })

const askAnthropic: Ask = async function * (prompt, signal, report) {
  const stream = anthropic.messages.stream({ model, max_tokens: 400, messages: [{ role: 'user', content: prompt }] }, { signal })
  for await (const event of stream) {
    if (event.type === 'content_block_delta' && event.delta.type === 'text_delta') yield event.delta.text
  }
  report((await stream.finalMessage()).usage)
}

const provider = createOpenAICompatible({ name: 'model', baseURL: `${url}/v1`, apiKey: key, includeUsage: true })

const askAi: Ask = (prompt, abortSignal, report) => {
  return streamText({ model: provider(model), prompt, abortSignal, onFinish: ({ totalUsage }) => { report(totalUsage) } }).textStream
}

const clients = new Map([['openai', askOpenAi], ['anthropic', askAnthropic], ['ai', askAi]])

const app = Fastify()
await app.register(fastifyJwt, { secret })
app.addHook('onRequest', async (request) => { await request.jwtVerify() })
await app.register(quotaPlugin, {
  operations: [],
  rateLimitHeaders: 'draft-10',
  // A response that ends early states no tokens. It is charged as many as a response can have.
  quotas: { tokens: { tokensPerMinute: 1000, unreportedTokens: 400 }, streams: { inFlight: 2 } }
})

app.get<{ Params: { client: string } }>('/ask/:client', { config: { quota: ['tokens', 'streams'] } }, async (request, reply) => {
  const ask = clients.get(request.params.client)
  if (ask === undefined) return reply.callNotFound()
  const gone = new AbortController()
  reply.raw.once('close', () => { gone.abort() })
  const parts = ask('Which invoices are late?', gone.signal, (usage) => {
    const tokens = usedTokens(usage)
    if (tokens !== null) app.quotaCharge(request, tokens)
  })
  return reply.type('text/plain; charset=utf-8').send(Readable.from(parts))
})

console.log(await app.listen({ port: Number(process.env['PORT'] ?? 3000) }))
