// Instances of the example service with a shared server or database: counters, limits and sessions, with a client of each package; and what
// applies while the server is unavailable.
import t from 'tap'
import { statuses } from '../support/credentials.js'
import { analysis, startService } from '../support/example-service.js'
import { PostgresServer } from '../support/postgres-server.js'
import { RedisServer } from '../support/redis-server.js'
import { Visitor } from '../support/visitor.js'

const perMinute = 'rate-limit.per-minute'
const limits = { [perMinute]: 3, 'rate-limit.tokens.tokens-per-minute': 1000 }
const text = { businessText: 'Invoices are late.' }
const administrator = { claims: { role: 'admin' } }
const password = 'a secret'

const withPassword = ({ url }: RedisServer) => url.replace('//', `//:${encodeURIComponent(password)}@`)

for (const [client, how] of [['ioredis', 'is not running'], ['ioredis', 'hangs'], ['redis', 'is not running'], ['glide', 'is not running'], ['pg', 'is not running']] as const) {
  t.test(`two instances with ${client} enforce one limit, and continue while the server ${how}`, async (t) => {
    const server = client === 'pg' ? await PostgresServer.start() : await RedisServer.startWithPassword(password)
    t.teardown(async () => {
      server.signal('SIGCONT')
      await server.stop()
    })
    const environment = { LOG_LEVEL: 'trace', ...server instanceof PostgresServer ? { DATABASE_URL: server.url } : { REDIS_CLIENT: client, REDIS_URL: `${withPassword(server)}/1` } }
    const one = await startService(t, environment)
    const two = await startService(t, environment)

    t.same(await (await one.post('root', '/api/preferences', limits, 'PUT')).json(), limits)
    t.match(await (await two.as('root', '/api/preferences', administrator)).json(), limits)
    const found = []
    for (const service of [one, two, one, two, one]) found.push((await service.post('alice', '/api/analyze', text)).status)
    t.same(found, [200, 200, 200, 429, 429])
    t.match(await (await two.as('alice', '/api/quota')).json(), { quotas: [{ quota: 'default', count: 3 }, { quota: 'tokens', limit: 1000 }, { quota: 'streams', limit: 0 }] })
    await one.post('root', '/api/preferences', { [perMinute]: null }, 'PUT')
    t.match(await (await two.as('root', '/api/preferences', administrator)).json(), { [perMinute]: null })

    if (how === 'hangs') server.signal('SIGSTOP')
    else await server.kill()
    t.equal((await one.post('bob', '/api/analyze', text)).status, 200, 'the fallback and the configured limit apply')
    for (const [response, error] of [
      [await one.post('root', '/api/preferences', limits, 'PUT'), 'The shared server did not confirm the new limit. Please try again.'],
      [await one.as('root', '/api/preferences', administrator), 'The shared server does not answer, so the limit is not available. Please try again.']
    ] as const) t.same([response.status, response.headers.get('retry-after'), await response.json()], [503, '1', { error, status: 503 }])
    const log = one.log.join('')
    t.match(log, /primary store fails; its fallback counts/)
    t.match(log, /preference is unavailable|preference reader did not return in time/)
    t.notMatch(log, '"statusCode":500')
    t.notMatch(log, password)
  })
}

for (const REDIS_CLIENT of ['ioredis', 'redis', 'glide']) {
  t.test(`a service with REDIS_CLIENT=${REDIS_CLIENT} starts while the server is not running, but not without the password of a running server`, async (t) => {
    const server = await RedisServer.startWithPassword(password)
    t.teardown(() => server.stop())
    await t.rejects(startService(t, { REDIS_URL: server.url, REDIS_CLIENT }), { message: 'REDIS_URL: the server does not accept the user name and the password (NOAUTH)' })
    const environment = { REDIS_URL: withPassword(server), REDIS_CLIENT }
    t.notMatch((await startService(t, environment)).log.join(''), 'the shared server does not answer')
    await server.kill()
    const alone = await startService(t, environment)
    t.equal(alone.log.join('').match(/the shared server does not answer; until it does, each instance counts for itself/g)?.length, 1)
    t.equal((await alone.post('alice', '/api/analyze', text)).status, 200)
  })
}

t.test('a session is valid on every instance that has the same secret and a shared store', async (t) => {
  const server = await RedisServer.start()
  t.teardown(() => server.stop())
  const environment = { REDIS_URL: server.url, JWT_SECRET: 'a secret that both instances know of', SERVICE_RATE_LIMIT_PER_MINUTE: '3' }
  const [here, elsewhere] = [new Visitor((await startService(t, environment)).address), new Visitor((await startService(t, environment)).address)]
  await here.signInWithOpenId('Mira Lindqvist')
  elsewhere.cookies = here.cookies
  t.same(await statuses(2, () => here.send('/api/analyze', analysis)), [200, 200])
  t.same(await statuses(2, () => elsewhere.send('/api/analyze', analysis)), [200, 429])
  t.same(await statuses(1, () => here.send('/api/analyze', analysis)), [429])
})

t.test('the quota plugin alone interprets what is stored as the limit', async (t) => {
  const redis = await RedisServer.start()
  const client = redis.client()
  t.teardown(async () => {
    client.disconnect()
    await redis.stop()
  })
  const { as } = await startService(t, { REDIS_URL: redis.url, SERVICE_RATE_LIMIT_PER_MINUTE: '4' })
  for (const [stored, limit] of [['3', 3], ['-7', 1], ['0', 0], ['', 4], ['0x10', 4], ['1.5', 4], ['many', 4]] as const) {
    await client.hset('language-service:preferences', perMinute, stored)
    t.match(await (await as('alice', '/api/quota')).json(), { quotas: [{ quota: 'default', limit }] }, `"${stored}"`)
    const state = await as('root', '/api/callers', administrator)
    t.match(await state.json(), { limits: { [perMinute]: { effective: limit, preference: /^-?\d+$/.test(stored) ? Number(stored) : stored } } })
  }
})
