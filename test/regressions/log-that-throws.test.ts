// A log that throws, for example because of a faulty serializer, ended the process if the quota logged a line after an asynchronous step.
import Fastify, { type FastifyServerOptions } from 'fastify'
import t from 'tap'
import quotaPlugin, { callerKey, localAuthentication, MemoryQuotaStore, type QuotaOptions } from '../../lib/index.js'

const later = async (): Promise<void> => new Promise((resolve) => { setImmediate(resolve) })

const authentication = () => localAuthentication('alice')
const failure = async () => { await later(); throw new Error('away') }
const cases: [string, QuotaOptions][] = [
  ['an authentication that rejects', { authentication: failure }],
  ['a preference reader that rejects', { authentication, preferences: { get: failure } }],
  ['a preference reader that returns an invalid limit', { authentication, preferences: { get: async () => { await later(); return 'many' } } }],
  ['a store that rejects', { authentication, store: { acquire: failure } }],
  ['a store that rejects, after an asynchronous reader', { authentication, preferences: { get: later }, store: { acquire: failure } }],
  ['a store that throws, after an asynchronous reader', { authentication, preferences: { get: later }, store: { acquire () { throw new Error('away') } } }],
  ['a store that throws, after an asynchronous authentication', { authentication: async () => { await later(); return authentication() }, store: { acquire () { throw new Error('away') } } }],
  ['a store that throws', { authentication, store: { acquire () { throw new Error('away') } } }]
]

for (const [what, options] of cases) {
  t.test(`a log that throws results in 500 and does not end the process, with ${what}`, async (t) => {
    const logger: FastifyServerOptions['logger'] = {
      stream: { write () {} },
      hooks: {
        logMethod (line, method) {
          if (line.some((part) => typeof part === 'string' && /preference|authentication|quota store|quotas of the request/.test(part))) throw new Error('the log is full')
          method.apply(this, line)
        }
      }
    }
    const app = Fastify({ logger })
    await app.register(quotaPlugin, options)
    let runs = 0
    app.post('/api/analyze', async () => { runs += 1 })
    const response = await app.inject({ method: 'POST', url: '/api/analyze' })
    t.equal(response.statusCode, 500)
    t.match(response.json(), { message: 'the log is full' })
    t.equal(runs, 0)
  })
}

t.test('a log that throws keeps no place of a refused request', async (t) => {
  const store = new MemoryQuotaStore()
  const logger: FastifyServerOptions['logger'] = {
    level: 'debug',
    stream: { write () {} },
    hooks: {
      logMethod (line, method) {
        if (line.some((part) => typeof part === 'string' && part.startsWith('the quota refuses'))) throw new Error('the log is full')
        method.apply(this, line)
      }
    }
  }
  const app = Fastify({ logger })
  await app.register(quotaPlugin, { operations: [], store, authentication, perMinute: 1, quotas: { streams: { inFlight: 5 } } })
  app.post('/run', { config: { quota: ['default', 'streams'] } }, async () => 'ran')
  const statuses = []
  for (let request = 0; request < 2; request++) statuses.push((await app.inject({ method: 'POST', url: '/run' })).statusCode)
  t.same(statuses, [200, 500])
  t.equal(store.quota('streams', 60_000).enter(String(callerKey(authentication())), 0).count, 0)
})
