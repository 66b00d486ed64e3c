// docs/rules.md, "Decision": a decision waits for nothing but promises of the host's.
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import Fastify from 'fastify'
import t from 'tap'
import { storeDurations } from '../../lib/channels.js'
import quotaPlugin, {
  MemoryQuotaStore,
  type QuotaDefinition,
  type QuotaOptions
} from '../../lib/index.js'
import { asAlice } from '../support/server.js'

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
        if (request === 0) subscribe(name, measure)
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
