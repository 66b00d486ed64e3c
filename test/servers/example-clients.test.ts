// Instances of the example service with a shared server: counters, preferences and sessions, with a client of each package.
import t, { type Test } from 'tap'
import { printToken, startExample, type Example } from '../support/example.js'
import { startService } from '../support/example-service.js'
import { RedisServer } from '../support/redis-server.js'
import { Visitor } from '../support/visitor.js'

const json = { 'content-type': 'application/json' }
const text = { businessText: 'Our invoices went out late.' }
const password = 'a secret'

async function ask (service: Example, token: string, path: string, body?: object, method = 'POST'): Promise<Response> {
  return fetch(service.address + path, { method, headers: { ...json, authorization: `Bearer ${token}` }, ...(body && { body: JSON.stringify(body) }) })
}

/** Starts two instances with the same environment, and stops them and the server after the test. */
async function startTwo (t: Test, server: RedisServer, environment: Record<string, string>): Promise<[Example, Example]> {
  const instances: [Example, Example] = [await startExample('service/main.js', environment), await startExample('service/main.js', environment)]
  t.teardown(async () => {
    await Promise.all(instances.map((instance) => instance.stop()))
    await server.stop()
  })
  return instances
}

for (const REDIS_CLIENT of ['ioredis', 'redis', 'glide']) {
  t.test(`two instances with REDIS_CLIENT=${REDIS_CLIENT} enforce one limit, and continue without the server`, async (t) => {
    const server = await RedisServer.startWithPassword(password)
    const [one, two] = await startTwo(t, server, { REDIS_URL: `redis://:${encodeURIComponent(password)}@127.0.0.1:${server.port}/1`, REDIS_CLIENT })
    const [administrator, alice, bob] = [printToken('--admin', 'root'), printToken('alice'), printToken('bob')]

    await ask(one, administrator, '/api/preferences', { 'rate-limit.per-minute': 3 }, 'PUT')
    t.match(await (await ask(two, administrator, '/api/preferences', undefined, 'GET')).json(), { 'rate-limit.per-minute': 3 })
    const statuses: number[] = []
    for (const service of [one, two, one, two, one, two]) statuses.push((await ask(service, alice, '/api/analyze', text)).status)
    t.same(statuses, [200, 200, 200, 429, 429, 429])
    await ask(one, administrator, '/api/preferences', { 'rate-limit.per-minute': null }, 'PUT')
    t.match(await (await ask(two, administrator, '/api/preferences', undefined, 'GET')).json(), { 'rate-limit.per-minute': null })

    await server.kill()
    t.equal((await ask(one, bob, '/api/analyze', text)).status, 200)
    await one.printed(/primary store fails; its fallback counts/)
    await one.printed(/preference is unavailable|preference reader did not return in time/)
    t.notMatch(one.output(), password)
  })

  t.test(`a service with REDIS_CLIENT=${REDIS_CLIENT} starts while the server is not running, but not without the password of a running server`, async (t) => {
    const server = await RedisServer.startWithPassword(password)
    t.teardown(() => server.stop())
    await t.rejects(startService(t, { REDIS_URL: server.url, REDIS_CLIENT }), { message: 'REDIS_URL: the server does not accept the user name and the password (NOAUTH)' })
    const withPassword = { REDIS_URL: server.url.replace('//', `//:${encodeURIComponent(password)}@`), REDIS_CLIENT }
    const connected = await startService(t, withPassword)
    t.equal((await connected.post('alice', '/api/analyze', text)).status, 200)
    t.notMatch(connected.log.join(''), 'the shared server does not answer')
    await server.kill()
    const alone = await startService(t, withPassword)
    t.equal(alone.log.join('').match(/the shared server does not answer; until it does, each instance counts for itself/g)?.length, 1)
    t.equal((await alone.post('alice', '/api/analyze', text)).status, 200)
  })
}

t.test('a session is valid on every instance that has the same secret and a shared store', async (t) => {
  const server = await RedisServer.start()
  const environment = { REDIS_URL: server.url, JWT_SECRET: 'a secret that both instances know of', SERVICE_RATE_LIMIT_PER_MINUTE: '3' }
  const [here, elsewhere] = (await startTwo(t, server, environment)).map(({ address }) => new Visitor(address))
  await here?.signInWithOpenId('Mira Lindqvist')
  if (elsewhere !== undefined) elsewhere.cookies = String(here?.cookies)
  const statuses = []
  for (const visitor of [here, here, elsewhere, elsewhere, here]) statuses.push((await visitor?.send('/api/analyze', { method: 'POST', headers: json, body: JSON.stringify(text) }))?.status)
  t.same(statuses, [200, 200, 200, 429, 429])
})

t.test('start-up fails if REDIS_CLIENT is unknown', async (t) => {
  await t.rejects(startService(t, { REDIS_CLIENT: 'hiredis' }), { message: /REDIS_CLIENT must be equal to one of the allowed values/ })
})
