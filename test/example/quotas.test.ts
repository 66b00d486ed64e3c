// The quotas beside the default one: tokens per minute and streams at once. Both are off until a variable or an administrator sets a limit.
import { setImmediate } from 'node:timers/promises'
import t from 'tap'
import { callerKey, tokenAuthentication } from '../../lib/index.js'
import { VirtualClock } from '../../lib/testing.js'
import { type RunningService, startService } from '../support/example-service.js'
import { beginStream, type ChatAnswer, complete, endStream, json, OpenAiServer, streamPart } from '../support/openai-server.js'

const [requests, tokens, streams] = ['rate-limit.per-minute', 'rate-limit.tokens.tokens-per-minute', 'rate-limit.streams.in-flight'] as const
const text = { businessText: 'Invoices are late.' }
const stream = `/api/analyze-stream?${new URLSearchParams(text).toString()}`
const sentence = '{"sentences":[{"text":"Invoices are late.","sentiment":0,"entities":[]}]}'

interface Standing { quota: string, unit: string, limit: number, count: number, remaining: number | null, windowRemaining: number, overflow: boolean }

async function standings ({ as }: RunningService, subject: string): Promise<Record<string, Standing>> {
  const { quotas } = await (await as(subject, '/api/quota')).json() as { quotas: Standing[] }
  return Object.fromEntries(quotas.map((standing) => [standing.quota, standing]))
}

/** Reads the standing again until it is as expected, because a response can arrive before its tokens are charged. */
async function reaches (service: RunningService, subject: string, quota: string, count: number): Promise<void> {
  while ((await standings(service, subject))[quota]?.count !== count) await setImmediate()
}

t.test('an administrator switches the quota of tokens on and off, and each operation is charged the tokens of its text', async (t) => {
  const clock = new VirtualClock()
  const service = await startService(t, {}, clock.now)
  const { as, post } = service
  const preferences = async () => await (await as('root', '/api/preferences', { claims: { role: 'admin' } })).json()
  t.same(await preferences(), { [requests]: null, [tokens]: null, [streams]: null })
  t.match(await standings(service, 'alice'), { default: { limit: 10 }, tokens: { limit: 0 }, streams: { limit: 0 } }, 'only the default quota is on at first')
  t.same(await (await post('root', '/api/preferences', { [tokens]: 13 }, 'PUT')).json(), { [tokens]: 13 })
  t.same(await preferences(), { [requests]: null, [tokens]: 13, [streams]: null })

  // The text has four tokens.
  const query = new URLSearchParams({ ...text, parentCode: 'FIN' }).toString()
  for (const [index, ask] of [
    () => post('alice', '/api/analyze', text),
    () => post('alice', '/api/justify-leaf', { ...text, leaf: 'FIN' }),
    () => as('alice', `/api/analyze-node?${query}`),
    () => as('alice', stream)
  ].entries()) {
    const response = await ask()
    t.equal(response.status, 200, 'a request is admitted below the limit')
    await response.text()
    await reaches(service, 'alice', 'tokens', 4 * (index + 1))
  }
  const rejected = await post('alice', '/api/analyze', text)
  t.same([rejected.status, rejected.headers.get('retry-after'), await rejected.json()], [429, '60', { error: 'Rate limit exceeded. Maximum 13 LLM tokens per minute. Please wait.', status: 429 }])
  t.match(await standings(service, 'alice'), { default: { count: 4 }, tokens: { limit: 13, count: 16, remaining: 0 } }, 'a rejected request is counted nowhere')
  t.equal((await post('bob', '/api/analyze', text)).status, 200)

  clock.advance(60_000)
  t.equal((await post('alice', '/api/analyze', text)).status, 200, 'a new window opens')
  await post('root', '/api/preferences', { [tokens]: null }, 'PUT')
  t.match((await standings(service, 'alice')).tokens, { limit: 0, remaining: null })
})

t.test('callers can read their standing, and an administrator can reset it in each quota', async (t) => {
  const service = await startService(t, { SERVICE_RATE_LIMIT_PER_MINUTE: '2', SERVICE_RATE_LIMIT_TOKENS_TOKENS_PER_MINUTE: '100' })
  const { as, post } = service
  const reset = async (subject: string, digest: string) => (await as(subject, `/api/callers/${digest}`, { method: 'DELETE', claims: subject === 'root' ? { role: 'admin' } : {} })).status
  const unused = { quota: 'default', unit: 'requests', limit: 2, count: 0, remaining: 2, windowRemaining: null, overflow: false }
  t.same((await standings(service, 'alice')).default, unused)
  for (let request = 0; request < 3; request++) await post('alice', '/api/analyze', text)
  await reaches(service, 'alice', 'tokens', 8)
  const { windowRemaining, ...counts } = { windowRemaining: 0, ...(await standings(service, 'alice')).default }
  t.same(counts, { quota: 'default', unit: 'requests', limit: 2, count: 2, remaining: 0, overflow: false })
  t.ok(windowRemaining > 0 && windowRemaining <= 60_000, `${windowRemaining} ms`)
  t.equal((await as('alice', '/api/quota')).headers.get('cache-control'), 'no-store')
  t.match((await standings(service, 'bob')).default, { count: 0, remaining: 2 }, 'other callers are not affected')

  const alice = callerKey(tokenAuthentication({ iss: 'urn:example:language-service', sub: 'alice' })) ?? ''
  t.equal(await reset('alice', alice), 403)
  t.equal(await reset('root', alice.slice(0, 8)), 400, 'a caller is identified by the whole digest only')
  t.match((await standings(service, 'alice')).default, { count: 2 })
  t.equal(await reset('root', alice), 204)
  t.same((await standings(service, 'alice')).default, unused)
  t.match((await standings(service, 'alice')).tokens, { count: 0 })
  t.equal((await post('alice', '/api/analyze', text)).status, 200)
  await post('root', '/api/preferences', { [requests]: 0 }, 'PUT')
  t.match((await standings(service, 'alice')).default, { limit: 0, remaining: null })
})

t.test('the tokens that a server states are charged, and an estimate if it states none', async (t) => {
  const server = await OpenAiServer.start(t, () => {})
  const service = await startService(t, { MODEL_URL: server.url, MODEL_NAME: 'small', SERVICE_RATE_LIMIT_TOKENS_TOKENS_PER_MINUTE: '1000' })
  const { as, post } = service
  const reading = { sentences: [], entities: [], sentiment: 0 }
  const usage = { prompt_tokens: 30, completion_tokens: 12, total_tokens: 42 }
  const estimate = Math.ceil(text.businessText.length / 4)

  for (const [caller, answer, status, charged] of [
    ['answer', (_, response) => { complete(response, reading, {}, usage) }, 200, 42],
    ['unusable', (_, response) => { complete(response, { another: 'shape' }, {}, usage) }, 502, 42],
    ['silent', (_, response) => { complete(response, reading) }, 200, estimate],
    ['failed', (_, response) => { json(response, 500, { error: { message: 'no' } }) }, 503, 0]
  ] satisfies [string, ChatAnswer, number, number][]) {
    server.answer = answer
    t.equal((await post(caller, '/api/analyze', text)).status, status, caller)
    await reaches(service, caller, 'tokens', charged)
  }

  server.answer = ({ includesUsage }, response) => {
    beginStream(response)
    streamPart(response, sentence)
    endStream(response, includesUsage ? usage : undefined)
  }
  t.match(await (await as('stream', stream)).text(), /^event: end$/m)
  await reaches(service, 'stream', 'tokens', 42)

  server.answer = (_request, response) => {
    beginStream(response)
    streamPart(response, sentence)
  }
  const gone = new AbortController()
  const reader = (await as('gone', stream, { signal: gone.signal })).body?.getReader()
  await reader?.read()
  gone.abort()
  await reader?.closed.catch(() => {})
  await reaches(service, 'gone', 'tokens', estimate)
})

t.test('only so many streams of a caller are open at once', async (t) => {
  const server = await OpenAiServer.start(t, (_request, response) => {
    beginStream(response)
    streamPart(response, sentence)
  })
  const service = await startService(t, { MODEL_URL: server.url, MODEL_NAME: 'small', SERVICE_RATE_LIMIT_STREAMS_IN_FLIGHT: '2' })
  const { as, post } = service
  const gone = new AbortController()
  const open = await Promise.all([as('alice', stream, { signal: gone.signal }), as('alice', stream)])
  t.same(open.map(({ status }) => status), [200, 200])
  const rejected = await as('alice', stream)
  t.same([rejected.status, rejected.headers.get('retry-after'), await rejected.json()], [429, '1', { error: 'Rate limit exceeded. Maximum 2 LLM requests at once. Please wait.', status: 429 }])
  t.match(await standings(service, 'alice'), { default: { count: 2 }, streams: { limit: 2, count: 2, remaining: 0 } })
  t.equal((await as('bob', stream, { signal: gone.signal })).status, 200, 'another caller has places of its own')
  gone.abort()
  await reaches(service, 'alice', 'streams', 1)
  t.equal((await as('alice', stream)).status, 200)
  await post('root', '/api/preferences', { [streams]: 0 }, 'PUT')
  t.equal((await as('alice', stream)).status, 200, 'an administrator can switch the quota off')
})
