// The limit while Redis is unavailable: reads are limited and paused, and a change that is not confirmed is answered with a reason.
import t from 'tap'
import { VirtualClock } from '../../lib/testing.js'
import { startService } from '../support/example-service.js'
import { RedisServer } from '../support/redis-server.js'

import { SharedPreferences } from '../../examples/service/shared-preferences.js'

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

t.test('one read per second waits and all others fail immediately while a server hangs, until there is an answer', async (t) => {
  const clock = new VirtualClock()
  const asked: ((value: unknown) => void)[] = []
  const hash = {
    hget: async () => await new Promise<unknown>((resolve) => { asked.push(resolve) }),
    hset: async () => { throw new Error('away') },
    hdel: async () => 1
  }
  const preferences = new SharedPreferences(hash, clock.now)
  const first = preferences.get(perMinute)
  await t.rejects(first, { code: 'LIMIT_UNAVAILABLE', statusCode: 503 })
  for (let read = 0; read < 1000; read++) await t.rejects(preferences.get(perMinute), { code: 'LIMIT_UNAVAILABLE' })
  t.equal(asked.length, 1)
  clock.advance(1000)
  const [next, other] = [preferences.get(perMinute), preferences.get(perMinute)]
  await t.rejects(other, { code: 'LIMIT_UNAVAILABLE' }, 'one read waits, and the other one fails immediately')
  asked[1]?.('5')
  t.equal(await next, '5')
  t.equal(asked.length, 2)
  await t.rejects(preferences.set(perMinute, 5), { code: 'LIMIT_NOT_CHANGED', statusCode: 503 })
  await t.resolves(preferences.set(perMinute, null))
})

t.test('the streams of all callers share the reads of the server', async (t) => {
  const redis = await RedisServer.start()
  t.teardown(() => redis.stop())
  const { as, post } = await startService(t, { REDIS_URL: redis.url, SERVICE_RATE_LIMIT_PER_MINUTE: '2' })
  const leave = new AbortController()
  const streams = await Promise.all(Array.from({ length: 30 }, (_, index) => as(`caller ${index % 10}`, '/api/window', { signal: leave.signal })))
  t.same([...new Set(streams.map(({ status }) => status))], [200])
  for (const { body } of streams) {
    const reader = body?.getReader()
    await reader?.read()
    reader?.releaseLock()
  }
  const client = redis.client()
  const commands = async (): Promise<number> => Number(/total_commands_processed:(\d+)/.exec(await client.info('stats'))?.[1])
  const before = await commands()
  for (let request = 0; request < 28; request++) await post('alice', '/api/analyze', text)
  const spent = await commands() - before
  client.disconnect()
  leave.abort()
  t.ok(spent < 28 * 6, `28 requests cost ${spent} commands while 30 streams watch`)
})
