// The limit while Redis is unavailable: reads are limited and paused, and a change that is not confirmed is answered with a reason.
import t from 'tap'
import { startService } from '../support/example-service.js'
import { RedisServer } from '../support/redis-server.js'

const perMinute = 'rate-limit.per-minute'
const text = { businessText: 'Invoices are late.' }

for (const [how, stop] of Object.entries({ hangs: 'SIGSTOP', 'is not running': 'SIGKILL' } as const)) {
  t.test(`the configured limit and the fallback apply while Redis ${how}`, async (t) => {
    const redis = await RedisServer.start()
    t.teardown(async () => {
      redis.signal('SIGCONT')
      await redis.stop()
    })
    const service = await startService(t, { REDIS_URL: redis.url, LOG_LEVEL: 'trace' })
    const { post, as, log } = service
    t.same(await (await post('root', '/api/preferences', { [perMinute]: 3 }, 'PUT')).json(), { [perMinute]: 3 })
    t.equal((await post('alice', '/api/analyze', text)).status, 200)
    if (stop === 'SIGKILL') await redis.kill()
    else redis.signal(stop)

    t.equal((await post('alice', '/api/analyze', text)).status, 200, 'the request is admitted')
    const change = await post('root', '/api/preferences', { [perMinute]: 5 }, 'PUT')
    t.same([change.status, change.headers.get('retry-after'), await change.json()], [503, '1', { error: 'The shared server did not confirm the new limit. Please try again.', status: 503 }])
    const read = await as('root', '/api/preferences', { claims: { role: 'admin' } })
    t.same([read.status, read.headers.get('retry-after'), await read.json()], [503, '1', { error: 'The shared server does not answer, so the limit is not available. Please try again.', status: 503 }])
    t.notMatch(log.join(''), '"statusCode":500')
  })
}

t.test('the quota plugin alone interprets what is stored as the limit', async (t) => {
  const redis = await RedisServer.start()
  t.teardown(() => redis.stop())
  const { as } = await startService(t, { REDIS_URL: redis.url, SERVICE_RATE_LIMIT_PER_MINUTE: '4' })
  const client = redis.client()
  t.teardown(() => { client.disconnect() })
  for (const [stored, limit] of [['3', 3], ['-7', 1], ['0', 0], ['', 4], ['0x10', 4], ['1.5', 4], ['many', 4]] as const) {
    await client.hset('language-service:preferences', perMinute, stored)
    t.match(await (await as('alice', '/api/quota')).json(), { quotas: [{ quota: 'default', limit }] }, `"${stored}"`)
    const state = await as('root', '/api/callers', { claims: { role: 'admin' } })
    t.match(await state.json(), { limits: { [perMinute]: { effective: limit, preference: /^-?\d+$/.test(stored) ? Number(stored) : stored } } })
  }
})
