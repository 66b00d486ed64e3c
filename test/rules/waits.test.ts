// docs/rules.md, "Decision": a decision waits for nothing but promises of the host's, and ends
// alike, whether a function of the host's throws or its promise rejects.
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import Fastify from 'fastify'
import t from 'tap'
import { storeDurations } from '../../lib/channels.js'
import quotaPlugin, {
  MemoryQuotaStore,
  type QuotaDefinition,
  type QuotaOptions,
  type QuotaStore
} from '../../lib/index.js'
import { matchExactly } from '../support/match-exactly.js'
import { createHost } from '../support/quota-host.js'
import { asAlice, captureLog, published } from '../support/service.js'

const everything: Record<string, QuotaDefinition> = {
  limited: { perHour: () => 2, cost: () => 1 },
  tokens: { perDay: { tokens: 10 }, cost: () => ({ least: 1, most: 5 }), timeZone: () => 'UTC' },
  places: { concurrent: 2 },
  tried: { perMinute: 1, mode: 'shadow' }
}

// What a host gives, and whether one of it is a promise.
const hosts: [what: string, options: QuotaOptions, waits: boolean][] = [
  ['functions that return values', { authentication: asAlice, preferences: new Map() }, false],
  ['an asynchronous authentication', { authentication: async () => asAlice() }, true],
  [
    'an asynchronous preference reader',
    { authentication: asAlice, preferences: { get: async () => undefined } },
    true
  ]
]

for (const [what, options, waits] of hosts) {
  t.test(
    `the hook takes ${waits ? 'a' : 'no'} turn of the event loop with ${what}, admitted or refused`,
    async (t) => {
      const app = Fastify()
      let runs = 0
      await app.register(quotaPlugin, {
        operations: [],
        rateLimitHeaders: 'draft-10',
        perMinute: 2,
        store: new MemoryQuotaStore(),
        quotas: everything,
        ...options
      })
      // What the store takes is measured in the second and third request.
      const { name } = storeDurations
      const measure = (): void => {}
      t.teardown(() => unsubscribe(name, measure))
      const decided: unknown[] = []
      app.addHook('preValidation', (request, reply, done) => {
        done()
        decided.push([request.quota.decisions[0]?.outcome, runs, reply.sent])
      })
      const quota = ['default', ...Object.keys(everything)]
      app.post('/run', { config: { quota } }, (_request, reply) => {
        runs += 1
        reply.send('ran')
      })
      const received = []
      for (let request = 0; request < 3; request++) {
        received.push((await app.inject({ method: 'POST', url: '/run' })).statusCode)
        subscribe(name, measure)
      }
      t.same(received, [200, 200, 429])
      t.same(
        decided,
        waits
          ? [[undefined, 0, false], [undefined, 1, false], [undefined, 2, false]]
          : [['admitted', 1, true], ['admitted', 2, true], ['rejected', 2, true]]
      )
    }
  )
}

function fail (): never {
  throw Object.assign(new Error('of the host'), { code: 'EHOST', statusCode: 503 })
}

// For each function of a host that can fail: the options, the status, the decision and the log.
const failing: [
  what: string,
  optionsOf: (fails: () => never) => QuotaOptions,
  status: number,
  decision: object,
  line: RegExp
][] = [
  [
    'the preference reader',
    (fails) => ({ preferences: { get: fails } }),
    200,
    { outcome: 'admitted', limit: 10 },
    /^the quota's runtime preference is unavailable/
  ],
  [
    'authentication',
    (fails) => ({ quotas: { quota: { authentication: fails } } }),
    503,
    { outcome: 'unavailable', reason: 'authentication', retryAfter: 1 },
    /^the authentication of the request could not be read/
  ],
  [
    'the limit of the caller',
    (fails) => ({ quotas: { quota: { perMinute: fails } } }),
    503,
    { outcome: 'unavailable', reason: 'limit', retryAfter: 1 },
    /^the limit of the caller could not be determined/
  ],
  [
    'the cost',
    (fails) => ({ quotas: { quota: { cost: fails } } }),
    503,
    { outcome: 'unavailable', reason: 'cost', retryAfter: 1 },
    /^the cost of the request could not be determined/
  ],
  [
    'the time zone',
    (fails) => ({ quotas: { quota: { perDay: 1, timeZone: fails } } }),
    503,
    { outcome: 'unavailable', reason: 'time-zone', retryAfter: 1 },
    /^the window in the caller's time zone could not be determined/
  ],
  [
    'the store',
    (fails) => ({ quotas: { quota: { store: { acquire: fails } satisfies QuotaStore } } }),
    503,
    { outcome: 'unavailable', reason: 'store', retryAfter: 1 },
    /^the quota store failed; the request is not counted/
  ]
]

for (const [what, optionsOf, status, decision, line] of failing) {
  t.test(`a decision ends alike, whether ${what} throws or rejects`, async (t) => {
    const rejects = async (): Promise<never> => {
      await Promise.resolve()
      return fail()
    }
    for (const fails of [fail, rejects as unknown as () => never]) {
      const log = captureLog()
      const options = { quotas: { quota: {} }, ...optionsOf(fails) }
      const { ask } = await createHost('quota', options, { logger: log.logger })
      const messages = await published(async () => {
        t.equal((await ask()).statusCode, status, fails.name)
      })
      matchExactly(t, messages, [{ decision }], fails.name)
      matchExactly(t, log.problems(), [{ msg: line }], fails.name)
    }
  })
}
