// Instances of the example service with a shared server or database, and what applies while it is
// not running.
import { InsuredQuotaStore } from 'fastify-llm-quota'
import t from 'tap'
import { FaultyProxy } from '../../chaos/faulty-proxy.js'
import { statuses } from '../support/credentials.js'
import { analysis, startService, type RunningService } from '../support/example-service.js'
import { matchExactly } from '../support/match-exactly.js'
import { PostgresServer } from '../support/postgres-server.js'
import { RedisServer } from '../support/redis-server.js'
import { until } from '../support/until.js'

const perMinute = 'rate-limit.per-minute'
const password = 'a secret'

// The primary store has 100 ms for a decision. The first one, for which it connects and its server
// prepares, can take longer.
async function warmUp (service: RunningService) {
  const store = service.app.quotaStore
  if (!(store instanceof InsuredQuotaStore)) throw new Error('the store is not insured')
  await until('the primary store decides in time', async () => {
    await service.as('alice', '/api/analyze', analysis)
    return store.state === 'primary'
  })
  await store.clearCounters?.()
}

for (const kind of ['Redis', 'PostgreSQL']) {
  t.test(
    `two instances with ${kind} enforce one limit, and continue while it is not running`,
    async (t) => {
      const server =
        kind === 'Redis'
          ? await RedisServer.startWithPassword(password)
          : await PostgresServer.start()
      t.teardown(() => server.stop())
      const environment =
        kind === 'Redis'
          ? { REDIS_URL: `${server.url.replace('//', `//:${encodeURIComponent(password)}@`)}/1` }
          : { DATABASE_URL: server.url }
      const [one, two] = await Promise.all([
        startService(t, environment),
        startService(t, environment)
      ])
      await warmUp(one)
      await warmUp(two)
      const put = { method: 'PUT' }
      const change = async (limit: number | null) =>
        (await one.as('root', '/api/preferences', { ...put, body: { [perMinute]: limit } })).status
      t.equal(await change(3), 200)
      t.match(await (await two.as('root', '/api/preferences')).json(), { [perMinute]: /^3$/ })
      const found = []
      for (const service of [one, two, one, two, one]) {
        found.push((await service.as('alice', '/api/analyze', analysis)).status)
      }
      t.same(found, [200, 200, 200, 429, 429])
      t.match(await two.standing('alice'), { default: { limit: 3, count: 3 } })
      matchExactly(t, await (await two.as('root', '/api/callers')).json(), {
        trackedCallers: 1,
        callers: [{ quotas: { default: { count: 3 } } }]
      })
      t.equal(await change(null), 200)
      t.match(await two.standing('alice'), { default: { limit: 10 } })
      const linesBefore = one.log.length
      await server.kill()
      t.same(
        await statuses(11, () => one.as('alice', '/api/analyze', analysis)),
        [...Array(10).fill(200), 429],
        'each instance counts for itself, up to the configured limit'
      )
      const response = await one.as('root', '/api/preferences', {
        method: 'PUT',
        body: { [perMinute]: 3 }
      })
      t.same(
        [response.status, await response.json()],
        [500, { error: 'The service failed. Please try again.', status: 500 }]
      )
      t.match(one.log.slice(linesBefore).join(''), 'primary store fails; its fallback counts')
      t.notMatch(one.log.join(''), password)
    }
  )
}

t.test('an instance leaves a server that has become a replica of the next one', async (t) => {
  const [former, next] = await Promise.all([RedisServer.start(), RedisServer.start()])
  const address = await FaultyProxy.start(former.port)
  t.teardown(async () => {
    await Promise.all([address.stop(), former.stop(), next.stop()])
  })
  const service = await startService(t, { REDIS_URL: `redis://127.0.0.1:${address.port}` })
  await warmUp(service)
  address.targetPort = next.port
  await former.administer('REPLICAOF', '127.0.0.1', String(next.port))
  await next.until('the next server counts', async (client) => {
    await service.as('alice', '/api/analyze', analysis)
    return (await client.exists('llm-quota:{llm-quota:}v9:windows:default')) === 1
  })
})
