// Decisions in request.quota and on the diagnostics channel, and shadow mode.
import { channel, subscribe, unsubscribe } from 'node:diagnostics_channel'
import t from 'tap'
import { callerKey, localAuthentication, MemoryQuotaStore, quotaDecisions, tokenAuthentication, type QuotaDecisionMessage, type QuotaOptions, type QuotaStore } from '../../lib/index.js'
import { alice, analyze, captureLog, createService } from '../support/service.js'

const operation = { method: 'POST', path: '/api/analyze' }
const aliceKey = callerKey(tokenAuthentication(alice))
const brokenStore: QuotaStore = { async acquire () { throw new Error('the counters are gone') } }

/** Collects the messages that a subscriber gets. */
async function messagesDuring (run: () => Promise<unknown>): Promise<QuotaDecisionMessage[]> {
  const messages: QuotaDecisionMessage[] = []
  const subscriber = (message: unknown) => { messages.push(message as QuotaDecisionMessage) }
  subscribe('fastify-llm-quota:decision', subscriber)
  await run()
  unsubscribe('fastify-llm-quota:decision', subscriber)
  return messages
}

t.test('quotaDecisions is the channel fastify-llm-quota:decision', async (t) => {
  t.equal(quotaDecisions, channel('fastify-llm-quota:decision'))
  t.equal(quotaDecisions.hasSubscribers, false)
})

const uncounted = { count: null, windowRemaining: null, overflow: false }

t.test('one message is published for each protected request, with each of the five outcomes', async (t) => {
  const outcomes: [string, QuotaOptions, object | null, object, number][] = [
    ['admitted', { perMinute: 2 }, alice, { limit: 2, callerKey: aliceKey, count: 1, windowRemaining: 60_000, overflow: false }, 200],
    ['rejected', { perMinute: -1 }, alice, { limit: 1, callerKey: aliceKey, count: 1, overflow: false }, 429],
    ['unauthenticated', {}, null, { limit: 10, callerKey: null, ...uncounted }, 401],
    ['disabled', { perMinute: 0 }, alice, { limit: 0, callerKey: null, ...uncounted }, 200],
    ['unavailable', { store: brokenStore }, alice, { limit: 10, callerKey: aliceKey, ...uncounted }, 503]
  ]
  for (const mode of ['enforce', 'shadow'] as const) {
    for (const [outcome, options, claims, fields, status] of outcomes) {
      const app = await createService({ mode, ...options })
      if (outcome === 'rejected') await analyze(app, claims)
      let answered = 0
      const messages = await messagesDuring(async () => { answered = (await analyze(app, claims)).statusCode })
      t.equal(answered, mode === 'shadow' ? 200 : status, `${mode}: ${outcome}`)
      t.equal(messages.length, 1)
      t.match(messages[0]?.decision, { outcome, quota: 'default', unit: 'requests', window: 60_000, reason: outcome === 'unauthenticated' ? 'no-authentication' : null, operation, enforced: mode === 'enforce', ...fields })
      t.same(Object.keys(messages[0]?.decision ?? {}).sort(), ['callerKey', 'count', 'enforced', 'limit', 'operation', 'outcome', 'overflow', 'quota', 'reason', 'unit', 'window', 'windowRemaining'])
      t.equal(messages[0]?.request.quota, messages[0]?.decision, 'request.quota holds the same object')
      t.same(messages[0]?.request.quotaDecisions, [messages[0]?.decision])
      t.notMatch(JSON.stringify(messages[0]?.decision), 'alice', 'the decision contains no identity')
    }
  }
})

t.test('the plugin publishes no message for a request that is not subject to the quota', async (t) => {
  const app = await createService()
  app.get('/health', async ({ quota }) => ({ quota }))
  t.same(await messagesDuring(async () => { t.same((await app.inject('/health')).json(), { quota: null }) }), [])
})

t.test('every step of a decision can be asynchronous', async (t) => {
  const memory = new MemoryQuotaStore()
  const app = await createService({
    preferences: { get: async () => 1 },
    authentication: async ({ headers }) => localAuthentication(String(headers['x-caller'])),
    store: { ...brokenStore, acquire: async (callerKey, limit) => memory.acquire(callerKey, limit) }
  })
  const answers = []
  for (const caller of ['carol', 'carol', 'dave', '']) answers.push((await analyze(app, null, { headers: { 'x-caller': caller } })).statusCode)
  t.same(answers, [200, 429, 200, 401])
})

t.test('a decision by the overflow counter has overflow set to true', async (t) => {
  const app = await createService({ store: new MemoryQuotaStore({ maxTrackedCallers: 1 }) })
  await analyze(app, alice)
  const [message] = await messagesDuring(async () => { await analyze(app, { ...alice, sub: 'one more' }) })
  t.match(message?.decision, { outcome: 'admitted', overflow: true })
})

t.test('a subscriber that throws does not change an answer', async (t) => {
  const app = await createService({ perMinute: 1 })
  const failures: Error[] = []
  const subscriber = () => { throw new Error('of the subscriber') }
  const listeners = process.listeners('uncaughtException')
  process.removeAllListeners('uncaughtException')
  process.on('uncaughtException', (error) => failures.push(error))
  subscribe('fastify-llm-quota:decision', subscriber)
  const answers = [(await analyze(app, alice)).statusCode, (await analyze(app, alice)).statusCode, (await analyze(app, null)).statusCode]
  await new Promise(setImmediate)
  unsubscribe('fastify-llm-quota:decision', subscriber)
  process.removeAllListeners('uncaughtException')
  for (const listener of listeners) process.on('uncaughtException', listener)
  t.same(answers, [200, 429, 401])
  t.equal(failures.length, 3, 'Node.js reports the errors of the subscriber outside the request')
})

t.test('shadow mode makes every decision, and every request passes', async (t) => {
  t.test('shadow mode counts requests and passes those above the limit', async (t) => {
    const app = await createService({ mode: 'shadow', perMinute: 2 })
    const messages = await messagesDuring(async () => {
      for (let request = 0; request < 4; request++) t.equal((await analyze(app, alice)).statusCode, 200)
    })
    t.same(messages.map(({ decision }) => [decision.outcome, decision.count]), [['admitted', 1], ['admitted', 2], ['rejected', 2], ['rejected', 2]])
  })

  t.test('shadow mode passes a request whose authentication cannot be read', async (t) => {
    const log = captureLog()
    const app = await createService({ mode: 'shadow', authentication: () => { throw new Error('no session store') } }, { logger: log.logger })
    t.equal((await analyze(app, alice)).statusCode, 200)
    t.match(log.errors(), [/authentication of the request could not be read/])
  })
})
