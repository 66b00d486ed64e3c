// docs/rules.md, "Caller".
import { createHash } from 'node:crypto'
import Fastify from 'fastify'
import t from 'tap'
import quotaPlugin, { anonymousAuthentication, callerKey, localAuthentication, tokenAuthentication, type Authentication } from '../../lib/index.js'
import { alice, analyze, bearer, bob, createService, issuer } from '../support/service.js'

const nobodies: [string, unknown][] = [
  ['missing', undefined], ['null', null], ['true', true], ['false', false], ['a number', 5], ['zero', 0], ['an array', ['alice']],
  ['an object', { toString: () => 'alice' }], ['empty', ''], ['a space', ' '], ['white space', ' \t\r\n\u00a0\u2003\ufeff'],
  ['with NUL', 'al\0ice'], ['a lone high surrogate', 'al\ud83e'], ['a lone low surrogate', '\udd8aice']
]

t.test('a request without an authentication, or with an unauthenticated or anonymous one, has no caller', async (t) => {
  const none: [string, Authentication | null | undefined][] = [
    ['null', null],
    ['undefined', undefined],
    ['a token not marked authenticated', tokenAuthentication(alice, { authenticated: false })],
    ['a local account not marked authenticated', localAuthentication('alice', { authenticated: false })],
    ['anonymous', anonymousAuthentication()]
  ]
  for (const [what, authentication] of none) {
    t.equal(callerKey(authentication), null, what)
    const app = await createService({ authentication: () => authentication })
    t.equal((await analyze(app, alice)).statusCode, 401, what)
  }
})

t.test('the issuer and the subject of a token determine its key', async (t) => {
  t.equal(callerKey(tokenAuthentication({ iss: issuer, sub: '550e8400-e29b-41d4-a716-446655440000' })),
    '3dd015944d16e52cf8dfcb5094d51cf2b23d34a80c16deced40ea4d685fd8f52')
  const keys = [alice, bob, { ...alice, iss: 'https://other.example' }].map((claims) => callerKey(tokenAuthentication(claims)))
  t.equal(new Set(keys).size, 3)
})

t.test('a browser login and a bearer token with the same issuer and subject share a counter', async (t) => {
  const app = await createService({ perMinute: 1 })
  app.addHook('preValidation', async (request) => {
    if (request.headers['x-session'] === 'alice') request.user = tokenAuthentication({ ...alice, nonce: 'of the login' })
  })
  t.equal((await analyze(app, alice)).statusCode, 200)
  t.equal((await analyze(app, null, { headers: { 'x-session': 'alice' } })).statusCode, 429)
})

t.test('a token has no caller key if its issuer or subject is missing, blank or not a valid string', async (t) => {
  for (const [what, value] of nobodies) {
    t.equal(callerKey(tokenAuthentication({ iss: issuer, sub: value })), null, `sub ${what}`)
    t.equal(callerKey(tokenAuthentication({ iss: value, sub: 'alice' })), null, `iss ${what}`)
  }
  t.equal(callerKey(tokenAuthentication({ sub: 'alice' })), null)
  t.equal(callerKey(tokenAuthentication({ iss: issuer })), null)
})

t.test('claims that are not an object with an issuer and a subject have no caller key', async (t) => {
  for (const claims of [null, undefined, true, 5, 'alice', [], [issuer, 'alice'], {}, Object.assign(() => {}, alice)]) {
    t.equal(callerKey(tokenAuthentication(claims)), null, JSON.stringify(claims))
  }
})

t.test('inherited claims are not used', async (t) => {
  t.equal(callerKey(tokenAuthentication(Object.create(alice))), null)
  t.equal(callerKey(tokenAuthentication(JSON.parse(`{ "__proto__": ${JSON.stringify(alice)} }`))), null)
  t.equal(callerKey(tokenAuthentication(Object.assign(Object.create({ iss: issuer }), { sub: 'alice' }))), null)
  t.ok(callerKey(tokenAuthentication(Object.assign(Object.create(null), alice))), 'the own claims of an object without a prototype are used')
})

t.test('a request whose token has no valid issuer or subject is answered with 401', async (t) => {
  const app = await createService()
  for (const claims of [{ sub: 'alice' }, { iss: issuer }, { iss: '', sub: 'alice' }, { iss: issuer, sub: '  ' }, { iss: issuer, sub: 'a\0b' }, { preferred_username: 'alice' }]) {
    t.equal((await analyze(app, claims)).statusCode, 401, JSON.stringify(claims))
  }
  t.same(app.quotaStore.inspect?.(), { trackedCallers: 0, sweeps: 0 })
})

t.test('a request whose user is not an object has no caller', async (t) => {
  for (const user of [true, 5, 'alice', Symbol('alice'), Object.assign(() => {}, alice)]) {
    const app = Fastify()
    app.decorateRequest('user')
    app.addHook('onRequest', async (request) => { Reflect.set(request, 'user', user) })
    await app.register(quotaPlugin)
    app.post('/api/analyze', async () => 'ran')
    t.equal((await app.inject({ method: 'POST', url: '/api/analyze' })).statusCode, 401, String(user))
  }
})

t.test('the claim preferred_username is never used', async (t) => {
  const app = await createService({ perMinute: 2 })
  const answers = []
  for (const name of ['alice', 'alice the second', 'nobody']) answers.push((await analyze(app, { ...alice, preferred_username: name })).statusCode)
  t.same(answers, [200, 200, 429])
})

t.test('the user name of a local account determines its key, and an invalid user name has no key', async (t) => {
  t.equal(callerKey(localAuthentication('alice')), 'fe8a67d0acb52eb7cc76f6caf3e1c8dac02ef079d711f65787903610c4f0ec05')
  t.equal(callerKey(localAuthentication('Zoë 🦊')), 'dfe30b24890847c35602eb1738d2a65530c80c3a319a6b46fb2edac888e18a81')
  for (const [what, value] of nobodies) t.equal(callerKey(Reflect.apply(localAuthentication, undefined, [value])), null, what)
})

t.test('identities are used unchanged: case matters, and white space is not removed', async (t) => {
  const keys = ['alice', ' alice', 'alice ', 'Alice', 'ali\u0301ce', 'alíce'].map((username) => callerKey(localAuthentication(username)))
  t.equal(new Set(keys).size, keys.length)
})

t.test('a local account never shares a counter with an issuer and subject', async (t) => {
  t.not(callerKey(localAuthentication('alice')), callerKey(tokenAuthentication(alice)))
  t.not(callerKey(localAuthentication(`${alice.iss} ${alice.sub}`)), callerKey(tokenAuthentication(alice)))
  t.equal(callerKey(localAuthentication(`${alice.iss}\0${alice.sub}`)), null)
  t.equal(callerKey(tokenAuthentication({ iss: `${alice.iss}\0a`, sub: 'b' })), null, 'a NUL character cannot move the boundary between issuer and subject')
})

t.test('the key is the SHA-256 digest of category and identity in lowercase hexadecimal', async (t) => {
  const sha256 = (text: string) => createHash('sha256').update(text, 'utf8').digest('hex')
  t.equal(callerKey(tokenAuthentication({ iss: 'é', sub: '🦊' })), sha256('oidc\0é\0🦊'))
  t.equal(callerKey(localAuthentication('é')), sha256('local\0é'))
})

t.test('identities are not stored in readable form', async (t) => {
  const app = await createService()
  await analyze(app, { ...alice, sub: 'a-subject-to-be-found' })
  const seen: string[] = []
  const store = app.quotaStore
  const acquire = store.acquire.bind(store)
  store.acquire = (callerKey, limit) => {
    seen.push(callerKey)
    return acquire(callerKey, limit)
  }
  await analyze(app, { ...alice, sub: 'a-subject-to-be-found' })
  t.match(seen, [/^[0-9a-f]{64}$/])
})

t.test('forwarding headers and network addresses are never identities', async (t) => {
  const app = await createService({ perMinute: 2 }, { trustProxy: true })
  const answers = []
  for (const address of ['192.0.2.1', '192.0.2.2', '192.0.2.3']) {
    const headers = { 'x-forwarded-for': address, forwarded: `for=${address}`, 'x-real-ip': address }
    t.equal((await analyze(app, null, { headers, remoteAddress: address })).statusCode, 401)
    answers.push((await analyze(app, alice, { headers, remoteAddress: address })).statusCode)
  }
  t.same(answers, [200, 200, 429], 'a different address is not a different caller')
  t.equal((await analyze(app, bob, { headers: { 'x-forwarded-for': '192.0.2.1' } })).statusCode, 200, 'two callers with the same address have separate counters')
})

t.test('the functions that create authentications return frozen objects', async (t) => {
  t.same(tokenAuthentication(alice), { kind: 'token', authenticated: true, claims: alice })
  t.same(localAuthentication('alice', { authenticated: false }), { kind: 'local', authenticated: false, username: 'alice' })
  t.same(anonymousAuthentication(), { kind: 'anonymous', authenticated: true })
  t.ok([tokenAuthentication(alice), localAuthentication('alice'), anonymousAuthentication()].every(Object.isFrozen))
})

t.test('request.user determines the caller by default', async (t) => {
  const users: [string, unknown, number][] = [
    ['undefined', undefined, 401], ['null', null, 401], ['a string', 'alice', 401], ['a number', 1, 401], ['an array', [], 401],
    ['verified claims', alice, 200], ['a token authentication', tokenAuthentication(alice), 200], ['a local account', localAuthentication('alice'), 200],
    ['anonymous', anonymousAuthentication(), 401], ['not authenticated', localAuthentication('alice', { authenticated: false }), 401],
    ['a copy of a local account', { ...localAuthentication('alice') }, 401]
  ]
  for (const [what, user, status] of users) {
    const app = Fastify()
    await app.register(quotaPlugin)
    app.addHook('preValidation', async (request) => { Object.assign(request, { user }) })
    app.post('/api/analyze', async () => 'ran')
    t.equal((await app.inject({ method: 'POST', url: '/api/analyze' })).statusCode, status, what)
  }
})

t.test('the option authentication determines the caller', async (t) => {
  t.test('the authentication function is used instead of request.user', async (t) => {
    const app = await createService({ perMinute: 1, authentication: ({ headers }) => localAuthentication(String(headers['x-account'])) })
    const by = (account: string) => analyze(app, alice, { headers: { 'x-account': account } })
    t.equal((await by('one')).statusCode, 200)
    t.equal((await by('one')).statusCode, 429)
    t.equal((await by('two')).statusCode, 200)
  })
})

t.test('a request with a forged token is answered before it reaches the quota', async (t) => {
  const app = await createService()
  const forged = `${bearer(app, alice).authorization.slice(0, -3)}AAA`
  t.equal((await analyze(app, null, { headers: { authorization: forged } })).statusCode, 401)
  t.same(app.quotaStore.inspect?.(), { trackedCallers: 0, sweeps: 0 })
})
