// Input that the example rejects: invalid limits, invalid tokens, unknown host names, frames, short secrets.
import { createSecretKey } from 'node:crypto'
import { cpSync } from 'node:fs'
import { get } from 'node:http'
import { join } from 'node:path'
import { type JWTPayload, SignJWT } from 'jose'
import t, { type Test } from 'tap'
import { startService } from '../support/example-service.js'
import { locationOf, Visitor } from '../support/visitor.js'

const perMinute = 'rate-limit.per-minute'
const secret = 'a secret that the test knows as well'

async function sign (claims: JWTPayload, header: object = {}): Promise<string> {
  return await new SignJWT({ iss: 'urn:example:language-service', sub: 'alice', exp: Math.floor(Date.now() / 1000) + 60, ...claims }).setProtectedHeader({ alg: 'HS256', ...header })
    .sign(createSecretKey(secret, 'utf8'), { crit: { 'x-unknown': true } })
}

const { address, analyze, app, as, log, post } = await startService(t, { JWT_SECRET: secret })

t.test('only a safe integer or null is accepted as a limit', async (t) => {
  const put = async (body: unknown, subject = 'root') => (await post(subject, '/api/preferences', body, 'PUT')).status
  t.equal((await fetch(`${address}/api/preferences`, { method: 'PUT' })).status, 401)
  t.equal(await put({ [perMinute]: 7 }, 'alice'), 403, 'only administrators can change a limit')
  t.equal(await put({ [perMinute]: 7 }), 200)
  for (const value of ['false', 'true', '" "', '""', '"0"', '"5"', '1e308', '-1e308', '9007199254740992', '1.5', '[]', '[0]', '{}', 'NaN', '']) t.equal(await put(`{"${perMinute}":${value}}`), 400, value)
  for (const body of ['{}', '[]', 'null', '0', '"x"', '']) t.equal(await put(body), 400, body)
  t.match(await (await as('root', '/api/preferences', { claims: { role: 'admin' } })).json(), { [perMinute]: 7 }, 'nothing has changed')
  for (const value of [0, -5, 9007199254740991, null]) {
    t.equal(await put({ [perMinute]: value }), 200)
    t.match(await (await as('root', '/api/preferences', { claims: { role: 'admin' } })).json(), { [perMinute]: value })
  }
})

t.test('every error of the service has the format of a refusal and the header Cache-Control: no-store', async (t) => {
  const { address, as } = await startService(t, { PUBLIC_URL: 'https://service.example' })
  const errors: [number, string, Promise<Response>][] = [
    [400, 'querystring/parentCode must be a code of the taxonomy', as('alice', '/api/analyze-node?parentCode=none&businessText=late')],
    [401, 'Authentication is required for this LLM operation.', fetch(`${address}/api/analyze-stream?businessText=late`)],
    [401, 'The token is not valid.', fetch(`${address}/api/quota`, { headers: { authorization: 'Bearer none' } })],
    [401, 'Send a bearer token, or a user name and a password.', fetch(`${address}/api/quota`, { headers: { authorization: 'Digest none' } })],
    [401, 'The user name or the password is wrong.', fetch(`${address}/api/quota`, { headers: { authorization: `Basic ${btoa('alice:none')}` } })],
    [401, 'Sign in first.', fetch(`${address}/api/quota`)],
    [401, 'Sign in first.', fetch(`${address}/api/preferences`)],
    [403, 'This requires an administrator.', as('alice', '/api/preferences')],
    [404, 'Not found. GET /about describes the service.', fetch(`${address}/none`)],
    [404, 'No OpenID provider is configured.', fetch(`${address}/sign-in/openid`)],
    [406, 'This operation answers only with text/event-stream.', as('alice', '/api/analyze-stream?businessText=late', { headers: { accept: 'application/json' } })]
  ]
  for (const [status, error, response] of errors) {
    const answer = await response
    t.same([answer.status, answer.headers.get('cache-control'), await answer.json()], [status, 'no-store', { error, status }], error)
  }
})

t.test('only a valid token of the service is accepted', async (t) => {
  const now = Math.floor(Date.now() / 1000)
  const forged = `${(await sign({})).slice(0, -4)}AAAA`
  const unsigned = `${btoa('{"alg":"none"}')}.${(await sign({})).split('.')[1]}.`
  t.equal((await analyze(`Bearer ${await sign({})}`)).status, 200)
  t.equal((await analyze(`bearer ${await sign({ nbf: now - 5 })}`)).status, 200)
  for (const [what, authorization] of Object.entries({
    nbf: `Bearer ${await sign({ nbf: now + 3600 })}`,
    crit: `Bearer ${await sign({}, { crit: ['x-unknown'], 'x-unknown': 1 })}`,
    exp: `Bearer ${await sign({ exp: now - 5 })}`,
    iss: `Bearer ${await sign({ iss: 'another' })}`,
    forged: `Bearer ${forged}`,
    unsigned: `Bearer ${unsigned}`,
    twice: `Bearer ${await sign({})} `.repeat(2),
    ...Object.fromEntries(['Bearer', 'Bearer ', 'Bearer a b', 'Bearer nonsense', 'Digest x', 'x'].map((text) => [text, text]))
  })) t.equal((await analyze(authorization)).status, 401, what)
})

async function statusFor (address: string, host: string, path = '/about'): Promise<number | undefined> {
  const url = new URL(address)
  return await new Promise((resolve, reject) => {
    get({ host: url.hostname, port: url.port, path, headers: { host } }, (response) => {
      response.resume()
      resolve(response.statusCode)
    }).on('error', reject)
  })
}

t.test('only configured host names are accepted', async (t) => {
  const check = async (environment: Record<string, string>, known: string[], unknown: string[]) => {
    const { address } = await startService(t, environment)
    for (const host of known) t.equal(await statusFor(address, host), 200, `${JSON.stringify(environment)} ${host}`)
    for (const host of unknown) for (const path of ['/about', '/', '/api/session', '/none']) t.equal(await statusFor(address, host, path), 421, `${JSON.stringify(environment)} ${host} ${path}`)
  }
  const own = ['127.0.0.1', '127.0.0.1:3000', 'localhost', 'LOCALHOST:80', '[::1]:3000']
  const others = ['evil.example', 'evil.example:3000', '127.0.0.1.evil.example', 'localhost.evil.example', 'localhost@evil.example', '10.0.0.1', '[::2]']
  await check({}, own, others)
  await check({ PUBLIC_URL: 'https://service.example' }, [...own, 'service.example', 'Service.Example:443', '10.0.0.1', '[fd00::1]:3000'], ['evil.example', 'a.service.example'])
  await check({ ALLOWED_HOSTS: 'one.example, Two.example' }, [...own, 'one.example', 'two.example:3000'], ['three.example'])
  await check({ HOST: '0.0.0.0', ALLOWED_HOSTS: 'one.example' }, [...own, 'one.example', '10.0.0.1'], ['evil.example'])
  await check({ HOST: '0.0.0.0' }, [...own, 'any.example'], [])
})

t.test('the development provider accepts only its own host name, and starts with the first sign-in', async (t) => {
  t.equal(app.developmentProvider?.issuer(), null, 'no visitor has signed in')
  t.notMatch(log.join(''), 'OpenID provider')
  const [one, two] = await Promise.all([new Visitor(address).ask('/sign-in/openid'), new Visitor(address).ask('/sign-in/openid')])
  const provider = locationOf(one)?.origin ?? ''
  t.equal(locationOf(two)?.origin, provider, 'it starts once')
  t.equal(app.developmentProvider?.issuer()?.issuer, provider)
  t.equal(log.filter((line) => line.includes('You can ignore its warnings that this is for development only')).length, 1, 'the log explains the warnings of the provider')
  t.equal(await statusFor(provider, 'evil.example', '/.well-known/openid-configuration'), 421)
  t.equal(await statusFor(provider, new URL(provider).host, '/.well-known/openid-configuration'), 200)
})

t.test('no other site can show the page in a frame', async (t) => {
  for (const path of ['/', '/documentation', '/documentation/', '/documentation/static/index.html', '/documentation/json']) {
    const { headers } = await fetch(address + path)
    t.match([headers.get('x-frame-options'), headers.get('content-security-policy')], [/DENY|SAMEORIGIN/, /frame-ancestors 'none'/], path)
  }
})

async function developmentSecret (t: Test, content?: string): Promise<string> {
  const folder = t.testdir({ 'package.json': '{"type":"module"}', ...(content !== undefined && { 'development-secret': content }) })
  const file = join(folder, 'examples/service/secret.js')
  cpSync('build/examples/service/secret.js', file)
  const { serviceSecret }: typeof import('../../examples/service/secret.js') = await import(file)
  return serviceSecret('')
}

t.test('a development secret that is too short is an error, and a missing one is generated', async (t) => {
  for (const content of ['x', '']) await t.rejects(developmentSecret(t, content), /development-secret must contain at least 32 characters; delete it/)
  t.equal(await developmentSecret(t, `${'x'.repeat(32)}\n`), 'x'.repeat(32))
  t.match(await developmentSecret(t), /^[\w-]{43}$/)
})
