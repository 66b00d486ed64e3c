// The example with DATABASE_URL: instances share counters and limits in PostgreSQL, and continue to work without it.
import t from 'tap'
import { startService } from '../support/example-service.js'
import { PostgresServer } from '../support/postgres-server.js'

const text = { businessText: 'Invoices are late.' }
const limits = { 'rate-limit.per-minute': 3, 'rate-limit.tokens.tokens-per-minute': 1000 }

t.test('two instances with DATABASE_URL enforce one limit, and continue without the database', async (t) => {
  const server = await PostgresServer.start()
  t.teardown(() => server.stop())
  const environment = { DATABASE_URL: server.url, LOG_LEVEL: 'trace' }
  const [one, two] = await Promise.all([startService(t, environment), startService(t, environment)])
  const administrator = { claims: { role: 'admin' } }
  t.same(await (await one.post('root', '/api/preferences', limits, 'PUT')).json(), limits)
  t.match(await (await two.as('root', '/api/preferences', administrator)).json(), limits)

  const statuses = []
  for (const service of [one, two, one, two, one]) statuses.push((await service.post('alice', '/api/analyze', text)).status)
  t.same(statuses, [200, 200, 200, 429, 429])
  t.match(await (await two.as('alice', '/api/quota')).json(), { quotas: [{ quota: 'default', count: 3 }, { quota: 'tokens', limit: 1000 }, { quota: 'streams', limit: 0 }] })
  await one.post('root', '/api/preferences', { 'rate-limit.per-minute': null }, 'PUT')
  t.match(await (await two.as('root', '/api/preferences', administrator)).json(), { 'rate-limit.per-minute': null })

  await server.kill()
  t.equal((await one.post('bob', '/api/analyze', text)).status, 200, 'the fallback and the configured limit apply')
  const change = await one.post('root', '/api/preferences', limits, 'PUT')
  t.same([change.status, change.headers.get('retry-after')], [503, '1'])
  t.notMatch(one.log.join(''), '"statusCode":500')
})

t.test('the service does not start without its database, or with two shared servers', async (t) => {
  const DATABASE_URL = 'postgres://somebody:a%20secret@127.0.0.1:1/service'
  await t.rejects(startService(t, { DATABASE_URL }), { message: 'DATABASE_URL: the tables cannot be created (ECONNREFUSED)' })
  await t.rejects(startService(t, { DATABASE_URL: 'mysql://somebody:a%20secret@127.0.0.1/service' }), { message: 'DATABASE_URL must be a URL with postgres or postgresql, such as postgres://127.0.0.1:5432/service' })
  await t.rejects(startService(t, { DATABASE_URL, REDIS_URL: 'redis://127.0.0.1' }), { message: 'REDIS_URL and DATABASE_URL must not be set together' })
})
