// REDIS_CLIENT: a client of each package shares counters and preferences, and the service continues to work without the server.
import t from 'tap'
import { printToken, startExample, type Example } from '../support/example.js'
import { startService } from '../support/example-service.js'
import { RedisServer } from '../support/redis-server.js'

async function ask (service: Example, token: string, path: string, body?: object, method = 'POST'): Promise<Response> {
  return fetch(service.address + path, {
    method, headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' }, ...(body && { body: JSON.stringify(body) })
  })
}

const text = { businessText: 'Our invoices went out late.' }

for (const REDIS_CLIENT of ['ioredis', 'redis', 'glide']) {
  t.test(`two instances with REDIS_CLIENT=${REDIS_CLIENT} enforce one limit, and continue without the server`, async (t) => {
    const server = await RedisServer.startWithPassword('a secret')
    const environment = { REDIS_URL: `redis://:${encodeURIComponent('a secret')}@127.0.0.1:${server.port}/1`, REDIS_CLIENT }
    const one = await startExample('service/main.js', environment)
    const two = await startExample('service/main.js', environment)
    t.teardown(async () => {
      await Promise.all([one.stop(), two.stop()])
      await server.stop()
    })
    const [administrator, alice, bob] = ['--admin root', 'alice', 'bob'].map((words) => printToken(...words.split(' ')))
    if (administrator === undefined || alice === undefined || bob === undefined) throw new Error('there is no token')

    await ask(one, administrator, '/api/preferences', { 'rate-limit.per-minute': 3 }, 'PUT')
    t.match(await (await ask(two, administrator, '/api/preferences', undefined, 'GET')).json(), { 'rate-limit.per-minute': 3 })
    const statuses: number[] = []
    for (let request = 0; request < 6; request++) statuses.push((await ask(request % 2 === 0 ? one : two, alice, '/api/analyze', text)).status)
    t.same(statuses, [200, 200, 200, 429, 429, 429])
    await ask(one, administrator, '/api/preferences', { 'rate-limit.per-minute': null }, 'PUT')
    t.match(await (await ask(two, administrator, '/api/preferences', undefined, 'GET')).json(), { 'rate-limit.per-minute': null })

    await server.kill()
    t.equal((await ask(one, bob, '/api/analyze', text)).status, 200)
    await one.printed(/primary store fails; its fallback counts/)
    await one.printed(/preference is unavailable|preference reader did not return in time/)
    t.notMatch(one.output(), /a secret/)
  })
}

for (const REDIS_CLIENT of ['ioredis', 'redis', 'glide']) {
  t.test(`a service with REDIS_CLIENT=${REDIS_CLIENT} starts while the server is not running, but not without the password of a running server`, async (t) => {
    const server = await RedisServer.startWithPassword('a secret')
    t.teardown(() => server.stop())
    await t.rejects(startService(t, { REDIS_URL: server.url, REDIS_CLIENT }), { message: 'REDIS_URL: the server does not accept the user name and the password (NOAUTH)' })
    const withPassword = { REDIS_URL: server.url.replace('//', `//:${encodeURIComponent('a secret')}@`), REDIS_CLIENT }
    const connected = await startService(t, withPassword)
    t.equal((await connected.post('alice', '/api/analyze', text)).status, 200)
    t.notMatch(connected.log.join(''), 'the shared server does not answer')
    await server.kill()
    const alone = await startService(t, withPassword)
    t.equal(alone.log.join('').match(/the shared server does not answer; until it does, each instance counts for itself/g)?.length, 1)
    t.equal((await alone.post('alice', '/api/analyze', text)).status, 200)
  })
}

t.test('start-up fails if REDIS_CLIENT is unknown', async (t) => {
  await t.rejects(startService(t, { REDIS_CLIENT: 'hiredis' }), { message: /REDIS_CLIENT must be equal to one of the allowed values/ })
})
