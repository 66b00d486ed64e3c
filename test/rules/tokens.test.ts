// docs/rules.md, "Several quotas": quotas of model tokens, and what is charged to them.
import type { FastifyRequest } from 'fastify'
import t from 'tap'
import { MemoryQuotaStore, usedTokens, type QuotaDefinition, type QuotaOptions, type QuotaStore } from '../../lib/index.js'
import { quotaCharges, type QuotaCharge } from '../../lib/usage/charges.js'
import { createHost } from '../support/quota-host.js'
import { captureLog, published } from '../support/service.js'
import { virtualPerformance } from '../support/virtual-performance.js'

/** A service with one token quota and one of requests, and the requests that it has admitted or refused. */
async function createTokenHost (tokens: QuotaDefinition, options: QuotaOptions = {}) {
  const log = captureLog()
  const host = await createHost(['default', 'tokens'], { perMinute: 9, quotas: { tokens }, ...options }, { logger: log.logger })
  const requests: FastifyRequest[] = []
  host.app.addHook('onRequest', async (request) => { if (request.url === '/marked') requests.push(request) })
  const tokenCount = async () => (await host.counts(['tokens']))[0]
  /** Sends a request and returns it when its response has closed. */
  const ended = async (headers = {}): Promise<FastifyRequest> => {
    await host.ask({ headers })
    await new Promise(setImmediate)
    const request = requests.at(-1)
    if (request === undefined) throw new Error('no request has arrived')
    return request
  }
  return { ...host, log, requests, tokenCount, ended }
}

t.test('a number that is no safe integer of at least 0 throws a RangeError at once, also for a request without a token quota', async (t) => {
  const { app, ended, requests, tokenCount } = await createTokenHost({ tokensPerMinute: 100 })
  app.post('/other', async () => 'ran')
  app.addHook('onRequest', async (request) => { requests.push(request) })
  await app.inject({ method: 'POST', url: '/other' })
  const [withoutQuota] = requests
  const request = await ended()
  for (const tokens of [-1, 1.5, NaN, Infinity, -Infinity, 2 ** 53, '5', null, undefined, 5n, {}]) {
    for (const each of [request, withoutQuota]) t.throws(() => Reflect.apply(app.quotaCharge, app, [each, tokens]), { name: 'RangeError' }, String(tokens))
  }
  t.equal(await tokenCount(), 0)
  await t.resolves(app.quotaCharge(request, Number.MAX_SAFE_INTEGER))
})

t.test('a charge does nothing for a request that is subject to no token quota, was not admitted or is not decided yet', async (t) => {
  const { app, ended, statuses, tokenCount } = await createTokenHost({ tokensPerMinute: 100 }, { perMinute: 1 })
  app.addHook('onRequest', async (request) => { await app.quotaCharge(request, 50) })
  const admitted = await ended()
  t.equal(await tokenCount(), 0, 'the request was not decided')
  const refused = [await ended(), await ended({ 'x-caller': '' })]
  for (const request of refused) await app.quotaCharge(request, 50)
  t.equal(await tokenCount(), 0)
  await app.quotaCharge(admitted, 50)
  t.equal(await tokenCount(), 50)
  t.same(await statuses(1, { 'x-caller': 'bob' }), [200])
})

t.test('unreportedTokens is charged if the response has closed and no tokens were reported, with a warning once a minute', async (t) => {
  const time = virtualPerformance(t)
  const { app, ended, log, tokenCount } = await createTokenHost({ tokensPerMinute: 1000, unreportedTokens: 40 })
  app.addHook('preHandler', async (request) => { if (request.headers['x-reports'] !== undefined) await app.quotaCharge(request, 0) })
  await ended()
  t.equal(await tokenCount(), 40)
  time.advance(59_999)
  await ended()
  const warned = () => log.lines.filter(({ msg }) => /tokens were not reported/.test(String(msg)))
  t.match(warned(), [{ level: 40, quota: 'tokens', tokens: 40 }])
  t.equal(warned().length, 1)
  time.advance(1)
  await ended()
  t.equal(warned().length, 2)
  t.equal(await tokenCount(), 120)
  await ended({ 'x-reports': 'yes' })
  t.equal(await tokenCount(), 120, 'a report of 0 tokens is a report')
  t.equal(warned().length, 2)
})

t.test('unreportedTokens can be a function of the request; one that fails charges nothing, and the error is logged', async (t) => {
  const { ended, tokenCount } = await createTokenHost({ tokensPerMinute: 1000, unreportedTokens: ({ headers }) => Number(headers['x-estimate']) })
  await ended({ 'x-estimate': '70' })
  t.equal(await tokenCount(), 70)
  for (const unreportedTokens of [() => { throw new Error('of the host') }, () => -1, () => 1.5, () => NaN, () => JSON.parse('"5"')]) {
    const failing = await createTokenHost({ tokensPerMinute: 1000, unreportedTokens })
    await failing.ended()
    t.equal(await failing.tokenCount(), 0)
    t.equal(failing.log.lines.filter(({ level }) => level === 40).length, 0)
    t.match(failing.log.lines.filter(({ level }) => level === 50), [{ msg: /unreportedTokens failed/, quota: 'tokens', err: { message: /of the host|safe integer/ } }])
  }
})

t.test('a charge is fulfilled when an asynchronous store has counted it, and is then published', async (t) => {
  const named = new MemoryQuotaStore()
  const slow = { acquire: async (key: string, limit: number, cost: number) => { await new Promise(setImmediate); return named.acquire(key, limit, cost) }, peek: named.peek.bind(named) }
  const { app, ended, tokenCount } = await createTokenHost({ tokensPerMinute: 100 }, { store: Object.assign(new MemoryQuotaStore(), { quota: () => slow }) })
  const request = await ended()
  const charges = await published<QuotaCharge>(async () => { await app.quotaCharge(request, 5) }, quotaCharges.name)
  t.match(charges, [{ request, quota: 'tokens', tokens: 5, failed: false }])
  t.equal(await tokenCount(), 5)
})

t.test('a store that fails does not make quotaCharge reject; the error is logged and published', async (t) => {
  const memory = new MemoryQuotaStore()
  const failures: [() => unknown, string][] = [
    [() => { throw new Error('gone') }, 'gone'], [async () => { throw new Error('gone') }, 'gone'],
    [() => ({ then: (_resolve: unknown, reject: (error: Error) => void) => { reject(new Error('gone')) } }), 'gone'],
    [() => null, 'the quota store returned an invalid result from acquire'], [async () => ({ admitted: true }), 'the quota store returned an invalid result from acquire']
  ]
  for (const [fail, message] of failures) {
    const named = { acquire: (key: string, limit: number, cost = 1) => cost === 0 ? memory.acquire(key, limit, 0) : fail() }
    const { app, ended, log } = await createTokenHost({ tokensPerMinute: 100 }, { store: Object.assign(new MemoryQuotaStore(), { quota: () => named }) as QuotaStore })
    const request = await ended()
    const charges = await published<QuotaCharge>(async () => { await t.resolves(app.quotaCharge(request, 5)) }, quotaCharges.name)
    t.match(log.lines.filter(({ level }) => level === 50), [{ msg: /the model tokens are not charged/, quota: 'tokens', tokens: 5, err: { message } }])
    t.match(charges, [{ request, quota: 'tokens', tokens: 5, failed: true }])
  }
})

t.test('usedTokens reads the usage of the known clients, and returns null for anything that does not state it', async (t) => {
  const usages: [string, unknown, number | null][] = [
    ['OpenAI chat', { prompt_tokens: 12, completion_tokens: 30, total_tokens: 42, prompt_tokens_details: { cached_tokens: 8 } }, 42],
    ['OpenAI chat without a total', { prompt_tokens: 12, completion_tokens: 30 }, 42],
    ['OpenAI responses', { input_tokens: 12, input_tokens_details: { cached_tokens: 8 }, output_tokens: 30, total_tokens: 42 }, 42],
    ['Anthropic', { input_tokens: 12, output_tokens: 30 }, 42],
    ['Anthropic with cached input', { input_tokens: 2, cache_creation_input_tokens: 4, cache_read_input_tokens: 6, output_tokens: 30, service_tier: 'standard' }, 42],
    ['Anthropic with null in its cache fields', { input_tokens: 12, cache_creation_input_tokens: null, cache_read_input_tokens: null, output_tokens: 30 }, 42],
    ['AI SDK 4', { promptTokens: 12, completionTokens: 30, totalTokens: 42 }, 42],
    ['AI SDK 5', { inputTokens: 12, outputTokens: 30, totalTokens: 42, reasoningTokens: 5, cachedInputTokens: 8 }, 42],
    ['AI SDK 5 without a total', { inputTokens: 12, outputTokens: 30, totalTokens: undefined }, 42],
    ['AI SDK 4 with an unknown total', { promptTokens: 12, completionTokens: 30, totalTokens: NaN }, 42],
    ['nothing used', { input_tokens: 0, output_tokens: 0 }, 0],
    ['the greatest safe integer', { total_tokens: Number.MAX_SAFE_INTEGER }, Number.MAX_SAFE_INTEGER],
    ['NaN', { promptTokens: NaN, completionTokens: NaN, totalTokens: NaN }, null],
    ['one part alone', { input_tokens: 12 }, null],
    ['the other part alone', { outputTokens: 30, totalTokens: undefined }, null],
    ['texts', { prompt_tokens: '12', completion_tokens: '30', total_tokens: '42' }, null],
    ['a negative total', { total_tokens: -42 }, null],
    ['a negative part', { input_tokens: -1, output_tokens: 30 }, null],
    ['a negative cache field', { input_tokens: 12, output_tokens: 30, cache_read_input_tokens: -1 }, null],
    ['a fraction', { total_tokens: 4.2 }, null],
    ['more than a safe integer', { total_tokens: 2 ** 53 }, null],
    ['a sum of more than a safe integer', { input_tokens: Number.MAX_SAFE_INTEGER, output_tokens: 1 }, null],
    ['another object', { tokens: 42 }, null],
    ...[null, undefined, 42, '42', true, [], () => {}].map((usage): [string, unknown, null] => [String(usage), usage, null])
  ]
  for (const [what, usage, tokens] of usages) t.equal(usedTokens(usage), tokens, what)
})
