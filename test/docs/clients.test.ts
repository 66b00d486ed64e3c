// The statements and programs of docs/clients.md: each client sends a request to a running service while its caller is at the limit. Time
// is virtual: an expected wait ends immediately and advances the clock of the store by the same amount.
import { readFileSync } from 'node:fs'
import Anthropic from '@anthropic-ai/sdk'
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { generateText } from 'ai'
import Fastify, { type FastifyInstance } from 'fastify'
import got from 'got'
import ky from 'ky'
import OpenAI from 'openai'
import pRetry from 'p-retry'
import t, { type Test } from 'tap'
import { Agent, interceptors, request, RetryAgent, type RetryHandler } from 'undici'
import { ask as askAi } from '../../examples/clients/ai.js'
import { ask as askAnthropic } from '../../examples/clients/anthropic.js'
import { ask as askGot } from '../../examples/clients/got.js'
import { ask as askKy } from '../../examples/clients/ky.js'
import { ask as askOpenAi } from '../../examples/clients/openai.js'
import { ask as askPRetry } from '../../examples/clients/p-retry.js'
import { ask as askRetryAgent, askIntercepted } from '../../examples/clients/undici.js'
import quotaPlugin, { localAuthentication, MemoryQuotaStore } from '../../lib/index.js'
import { VirtualClock } from '../../lib/testing.js'

const answer = 'Two invoices.'
const minute = 60_000

type Ask = (address: string, token: string) => Promise<unknown>

/** A service with a limit of 1 and the APIs that the clients use, and the status of each of its responses. */
async function startService (t: Test, clock: VirtualClock) {
  const statuses: number[] = []
  const app: FastifyInstance = Fastify()
  await app.register(quotaPlugin, { perMinute: 1, store: new MemoryQuotaStore({ clock: clock.now }), authentication: ({ headers }) => headers.authorization?.endsWith('nobody') === true ? null : localAuthentication(String(headers.authorization)) })
  app.addHook('onSend', async (_request, reply) => { statuses.push(reply.statusCode) })
  app.post('/api/analyze', async () => answer)
  app.get('/api/analyze-node', { exposeHeadRoute: false }, async () => answer)
  app.post('/v1/chat/completions', { config: { quota: true } }, async () => ({
    id: '1', object: 'chat.completion', created: 1, model: 'any', choices: [{ index: 0, finish_reason: 'stop', message: { role: 'assistant', content: answer } }]
  }))
  app.post('/v1/messages', { config: { quota: true } }, async () => ({
    id: '1', type: 'message', role: 'assistant', model: 'any', stop_reason: 'end_turn', content: [{ type: 'text', text: answer }], usage: { input_tokens: 1, output_tokens: 1 }
  }))
  const address = await app.listen({ port: 0, host: '127.0.0.1' })
  t.teardown(() => app.close())
  return { address, statuses }
}

/** Makes timers with the given delays run immediately and advance the clock, and records them in order. */
function skipWaits (t: Test, clock: VirtualClock, lengths: readonly number[]): number[] {
  const waits: number[] = []
  const real = globalThis.setTimeout
  t.teardown(() => { Reflect.set(globalThis, 'setTimeout', real) })
  Reflect.set(globalThis, 'setTimeout', (callback: () => void, delay: number) => {
    if (!lengths.includes(delay)) return real(callback, delay)
    waits.push(delay)
    clock.advance(delay)
    return real(callback, 0)
  })
  return waits
}

const messages = [{ role: 'user' as const, content: 'Which invoices are late?' }]
const authorized = (token: string) => ({ headers: { authorization: `Bearer ${token}` } })
const askWith = (dispatcher: Agent | RetryAgent | ReturnType<Agent['compose']>): Ask => async (address, token) => {
  const { statusCode, body } = await request(`${address}/api/analyze`, { method: 'POST', ...authorized(token), dispatcher })
  await body.dump()
  return statusCode
}
const answered = /^Two invoices\.$/
const onlyPost: RetryHandler.RetryOptions = { methods: ['POST'] }
const rejectedByUndici = { code: 'UND_ERR_REQ_RETRY', statusCode: 429 }

const programs: [string, Ask][] = [
  ['openai', askOpenAi],
  ['@anthropic-ai/sdk', askAnthropic],
  ['ai with a fetch that waits', askAi],
  ['ky with POST among its methods', askKy],
  ['got with POST among its methods', askGot],
  ['RetryAgent with POST among its methods and a longer limit', askRetryAgent],
  ['interceptors.retry with the same options', askIntercepted],
  ['p-retry with the wait of the header', askPRetry]
]

const getWithKy: Ask = async (address, token) => await ky(`${address}/api/analyze-node`, authorized(token)).text()
const getWithGot: Ask = async (address, token) => await got(`${address}/api/analyze-node`, authorized(token)).text()
const getWithUndici: Ask = async (address, token) => {
  const { body } = await request(`${address}/api/analyze-node`, { ...authorized(token), dispatcher: new RetryAgent(new Agent()) })
  return await body.text()
}
const postWithKy: Ask = async (address, token) => await ky.post(`${address}/api/analyze`, authorized(token)).text()
const postWithGot: Ask = async (address, token) => await got.post(`${address}/api/analyze`, authorized(token)).text()
const postWithTimeout: Ask = async (address, token) =>
  await got.post(`${address}/api/analyze`, { ...authorized(token), retry: { methods: ['POST'] }, timeout: { request: 30_000 } }).text()
const openAiOnce: Ask = async (address, token) =>
  await new OpenAI({ baseURL: `${address}/v1`, apiKey: token, maxRetries: 0 }).chat.completions.create({ model: 'any', messages })
const anthropicOnce: Ask = async (address, token) =>
  await new Anthropic({ baseURL: address, authToken: token, maxRetries: 0 }).messages.create({ model: 'any', max_tokens: 100, messages })
const aiByDefault: Ask = async (address, token) => {
  const model = createOpenAICompatible({ name: 'service', baseURL: `${address}/v1`, apiKey: token })('any')
  return (await generateText({ model, prompt: 'Which invoices are late?' })).text
}
const pRetryByDefault: Ask = async (address, token) => await pRetry(async () => {
  const response = await fetch(`${address}/api/analyze`, { method: 'POST', ...authorized(token) })
  if (!response.ok) throw new Error(String(response.status))
  return await response.text()
})
const rejected = [429]

// Each request comes from a caller that has just reached its limit. The table contains the waits, the statuses and the outcome.
for (const [what, ask, waits, statuses, outcome] of [
  ...programs.map(([name, ask]) => [`${name} waits until the window ends, and sends the request once more`, ask, [minute], [429, 200], answered] as const),
  ['ky waits and retries a GET request by default', getWithKy, [minute], [429, 200], answered],
  ['got waits and retries a GET request by default', getWithGot, [minute], [429, 200], answered],
  ['undici waits and retries a GET request by default', getWithUndici, [30_000, 30_000], [429, 429, 200], answered],
  ['ky does not retry a POST request by default', postWithKy, [], rejected, { name: 'HTTPError', response: { status: 429 } }],
  ['got does not retry a POST request by default', postWithGot, [], rejected, { name: 'HTTPError', response: { statusCode: 429 } }],
  ['got does not retry if its timeout is shorter than the wait', postWithTimeout, [], rejected, { response: { statusCode: 429 } }],
  ['RetryAgent does not retry a POST request by default, and throws', askWith(new RetryAgent(new Agent())), [], rejected, rejectedByUndici],
  ['interceptors.retry does not retry a POST request by default, and throws', askWith(new Agent().compose(interceptors.retry())), [], rejected, rejectedByUndici],
  ['undici retries every 30 s if only POST is set', askWith(new RetryAgent(new Agent(), onlyPost)), [30_000, 30_000], [429, 429, 200], 200],
  ['openai does not retry if maxRetries is 0', openAiOnce, [], rejected, { status: 429 }],
  ['@anthropic-ai/sdk does not retry if maxRetries is 0', anthropicOnce, [], rejected, { status: 429 }],
  ['ai ignores a wait of one minute by default, retries after 2 s, and then waits for the rest', aiByDefault, [2000, 58_000], [429, 429, 200], answered],
  ['p-retry retries after 1, 2, 4, 8, 16 and 32 s by default', pRetryByDefault, [1000, 2000, 4000, 8000, 16_000, 32_000], [...Array<number>(6).fill(429), 200], answered]
] satisfies (readonly [string, Ask, readonly number[], readonly number[], unknown])[]) {
  t.test(what, async (t) => {
    const clock = new VirtualClock()
    const service = await startService(t, clock)
    await fetch(`${service.address}/api/analyze`, { method: 'POST', ...authorized('alice') })
    const skipped = skipWaits(t, clock, waits)
    t.match(await ask(service.address, 'alice').catch((error: unknown) => error), outcome)
    t.same([skipped, service.statuses.slice(1)], [waits, statuses])
  })
}

t.test('no client sends a request again after a 401', async (t) => {
  for (const [name, ask] of programs) {
    const { address, statuses } = await startService(t, new VirtualClock())
    await ask(address, 'nobody').catch(() => {})
    t.same(statuses, [401], name)
  }
})

t.test('docs/clients.md contains the tested versions', async (t) => {
  const document = readFileSync('docs/clients.md', 'utf8')
  for (const name of ['openai', '@anthropic-ai/sdk', 'ai', '@ai-sdk/openai-compatible', 'ky', 'got', 'undici', 'p-retry']) {
    const { version } = JSON.parse(readFileSync(`node_modules/${name}/package.json`, 'utf8'))
    t.ok(document.includes(`\`${name}\` ${version}`), `${name} ${version}`)
  }
})
