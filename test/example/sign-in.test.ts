// All ways to sign in to the example service, with real protocols over real HTTP: OpenID Connect, local accounts, sessions.
import { callerKey, localAuthentication, tokenAuthentication } from '../../lib/index.js'
import { calculatePKCECodeChallenge, randomPKCECodeVerifier } from 'openid-client'
import t from 'tap'
import { basic, statuses } from '../support/credentials.js'
import { analysis, startService } from '../support/example-service.js'
import { locationOf, Visitor } from '../support/visitor.js'

const mira = '550e8400-e29b-41d4-a716-446655440000'

async function accessToken (address: string, person: string): Promise<{ token: string, issuer: string }> {
  const visitor = new Visitor(address)
  const authorization = locationOf(await visitor.ask('/sign-in/openid'))
  if (authorization === undefined) throw new Error('there is no provider')
  // Another program on the same machine, with its own proof key.
  const codeVerifier = randomPKCECodeVerifier()
  const redirectUri = 'http://127.0.0.1:1/sign-in/openid/callback'
  authorization.searchParams.set('code_challenge', await calculatePKCECodeChallenge(codeVerifier))
  authorization.searchParams.set('redirect_uri', redirectUri)
  const code = locationOf(await visitor.goToProvider(person, undefined, authorization))?.searchParams.get('code') ?? ''
  const body = new URLSearchParams({ grant_type: 'authorization_code', client_id: 'language-service', code, code_verifier: codeVerifier, redirect_uri: redirectUri })
  const response = await fetch(`${authorization.origin}/token`, { method: 'POST', body })
  const { access_token: token } = await response.json() as { access_token: string }
  return { token, issuer: authorization.origin }
}

t.test('a visitor who signs in with OpenID Connect is a caller until signing out', async (t) => {
  const service = await startService(t, { SERVICE_RATE_LIMIT_PER_MINUTE: '3' })
  const visitor = new Visitor(service.address)
  t.equal((await visitor.send('/api/analyze', analysis)).status, 401)

  const landed = await visitor.signInWithOpenId('Mira Lindqvist')
  t.equal(landed.url, `${service.address}/`)
  const session = await visitor.session()
  t.match(session.signedIn, { by: 'openid', name: 'mira', administrator: false })
  t.same(await statuses(4, () => visitor.send('/api/analyze', analysis)), [200, 200, 200, 429])

  await t.test('a sign-in with another name and the same subject is the same caller', async (t) => {
    const again = new Visitor(service.address)
    await again.signInWithOpenId('Mira Lindqvist', 'somebody else')
    t.match(await again.session(), { signedIn: { name: 'somebody else' }, caller: session.caller })
    t.equal((await again.send('/api/analyze', analysis)).status, 429)
  })

  await t.test('a bearer token with the same subject shares the counter', async (t) => {
    const { token, issuer } = await accessToken(service.address, 'Mira Lindqvist')
    t.equal(session.caller, callerKey(tokenAuthentication({ iss: issuer, sub: mira }))?.slice(0, 8))
    t.equal((await service.analyze(`Bearer ${token}`)).status, 429)
    const another = await accessToken(service.address, 'Tomás Okafor')
    t.equal((await service.analyze(`Bearer ${another.token}`)).status, 200)
  })

  await t.test('the session cookie is encrypted, and no script of a page can read it', async (t) => {
    const fresh = new Visitor(service.address)
    const { headers } = await fresh.ask('/api/session')
    t.match(headers.get('set-cookie'), /^language-service-session=[^;]+; Max-Age=28800; Path=\/; HttpOnly; SameSite=Lax$/)
    const plain = decodeURIComponent(visitor.cookies) + Buffer.from(decodeURIComponent(visitor.cookies), 'base64').toString()
    t.notMatch(plain, new RegExp(`${mira}|mira|openid`))
    const forged = new Visitor(service.address)
    forged.cookies = visitor.cookies.replace(/(language-service-session=)(.{10})/, '$1AAAAAAAAAA')
    t.equal((await forged.session()).signedIn, null)
  })

  await t.test('signing out ends the sessions of the service and of the provider', async (t) => {
    const { location } = JSON.parse((await visitor.send('/sign-out', { method: 'POST' })).text)
    t.equal((await visitor.session()).signedIn, null)
    t.equal((await visitor.send('/api/analyze', analysis)).status, 401)
    const asked = await visitor.ask(location)
    const [, xsrf] = /name="xsrf" value="([^"]+)"/.exec(asked.text) ?? []
    const out = await visitor.ask(new URL('/session/end/confirm', location).href, { method: 'POST', body: new URLSearchParams({ xsrf: xsrf ?? '', logout: 'yes' }) })
    t.equal(locationOf(out)?.href, `${service.address}/`)
    t.match((await visitor.follow(await visitor.ask('/sign-in/openid'))).text, 'Sign in as Mira', 'the provider asks again')
  })
})

t.test('an answer of the provider is valid once, and only in the browser that started the sign-in', async (t) => {
  const service = await startService(t)
  const visitor = new Visitor(service.address)
  const callback = locationOf(await visitor.goToProvider('Mira Lindqvist'))
  if (callback === undefined) throw new Error('the provider does not send back')
  const cookiesBefore = visitor.cookies
  const fails = async (what: string, other: Visitor, href = callback.href) => {
    t.equal(locationOf(await other.ask(href))?.href, `${service.address}/?sign-in=failed`, what)
    t.equal((await other.session()).signedIn, null, what)
    t.equal((await other.send('/api/analyze', analysis)).status, 401, what)
  }

  await fails('in another browser', new Visitor(service.address))
  const other = new Visitor(service.address)
  await other.goToProvider('Tomás Okafor')
  await fails('with another state', other)

  t.equal(locationOf(await visitor.ask(callback.href))?.href, `${service.address}/`)
  t.match((await visitor.session()).signedIn, { name: 'mira' })
  const replay = new Visitor(service.address)
  replay.cookies = cookiesBefore
  await fails('a second time, even with the same cookies', replay)

  const invented = new Visitor(service.address)
  const state = locationOf(await invented.ask('/sign-in/openid'))?.searchParams.get('state') ?? ''
  const answer = new URLSearchParams({ code: 'invented', state, iss: callback.searchParams.get('iss') ?? '' })
  await fails('with an invented code', invented, `/sign-in/openid/callback?${answer.toString()}`)

  const cancelled = new Visitor(service.address)
  const asked = await cancelled.follow(await cancelled.ask('/sign-in/openid'))
  const back = await cancelled.follow(await cancelled.ask(`${asked.url}/abort`, { method: 'POST' }), ({ pathname }) => pathname !== '/sign-in/openid/callback')
  await fails('cancelled', cancelled, locationOf(back)?.href)
  t.equal((await new Visitor(service.address).ask(`${asked.url}/abort`, { method: 'POST' })).status, 400, 'a visitor cannot cancel the sign-in of another visitor')
  t.equal(await service.trackedCallers(), 0, 'nothing is counted')
})

t.test('a local account has one counter for the form and for basic authentication, and tokens with its name have another', async (t) => {
  const service = await startService(t, { SERVICE_RATE_LIMIT_PER_MINUTE: '3' })
  const visitor = new Visitor(service.address)
  for (const [username, password] of [['alice', 'looking-glass'], ['alice', 'wonderland '], ['Alice', 'wonderland'], ['nobody', 'wonderland'], ['__proto__', 'wonderland']] as const) {
    const answer = await visitor.signInLocally(username, password)
    t.same([answer.status, answer.text], [401, '{"error":"The user name or the password is wrong.","status":401}'], `${username} ${password}`)
    t.equal((await service.analyze(basic(username, password))).status, 401)
  }
  t.equal((await visitor.send('/sign-in/local', { method: 'POST', body: new URLSearchParams({ username: 'alice' }) })).status, 400)
  t.equal(await service.trackedCallers(), 0, 'nothing is counted')

  t.equal((await visitor.signInLocally('alice', 'wonderland')).status, 204)
  t.match(await visitor.session(), { signedIn: { by: 'local', name: 'alice' }, caller: callerKey(localAuthentication('alice'))?.slice(0, 8) })
  t.same(await statuses(2, () => visitor.send('/api/analyze', analysis)), [200, 200])
  t.same(await statuses(2, () => service.analyze(basic('alice', 'wonderland'))), [200, 429])
  const token = await service.token('alice')
  t.equal((await service.analyze(`Bearer ${token}`)).status, 200)
  t.equal((await service.analyze(`Bearer ${token.slice(0, -4)}AAAA`)).status, 401)

  const malformed = await service.analyze('Basic nonsense')
  t.equal(malformed.status, 401)
  t.equal(malformed.headers.get('www-authenticate'), null, 'browsers are not asked for a password')

  const administrator = new Visitor(service.address)
  await administrator.signInLocally('admin', 'looking-glass')
  t.equal((await administrator.ask('/api/preferences')).status, 200)
  t.equal((await visitor.ask('/api/preferences')).status, 403)
})

t.test('a forged request is answered with 403 and not counted', async (t) => {
  const service = await startService(t)
  const visitor = new Visitor(service.address)
  const stranger = await new Visitor(service.address).session()
  t.equal((await visitor.ask('/sign-in/local', { method: 'POST', body: new URLSearchParams({ username: 'alice', password: 'wonderland' }) })).status, 403, 'a forged sign-in is also answered with 403')
  await visitor.signInLocally('alice', 'wonderland')

  const forged = { 'without a token': {}, 'with another session\'s token': { 'csrf-token': stranger.csrfToken }, 'with nonsense': { 'csrf-token': 'nonsense' } }
  const node = '/api/analyze-node?parentCode=FIN&businessText=invoices'
  for (const [how, headers] of Object.entries(forged)) {
    t.equal((await visitor.ask('/api/analyze', { ...analysis, headers: { ...analysis.headers, ...headers } })).status, 403, `POST ${how}`)
    t.equal((await visitor.ask(node, { headers })).status, 403, `GET that spends ${how}`)
    t.equal((await visitor.ask('/sign-out', { method: 'POST', headers })).status, 403, `sign-out ${how}`)
  }
  t.equal(await service.trackedCallers(), 0, 'nothing is counted')
  t.equal((await visitor.send(node)).status, 200)
  t.equal((await service.analyze(basic('alice', 'wonderland'))).status, 200, 'basic authentication requires no CSRF token')
})

for (const [how, environment] of Object.entries({ directly: { HOST: '0.0.0.0' }, 'through a proxy': { PUBLIC_URL: 'https://service.example' } })) {
  t.test(`the demonstration accounts do not exist if other machines can reach the service ${how}`, async (t) => {
    const service = await startService(t, environment)
    const visitor = new Visitor(service.address)
    t.match(await visitor.session(), { signedIn: null, ways: { local: false, openId: false } })
    t.equal((await visitor.signInLocally('alice', 'wonderland')).status, 401)
    t.equal((await service.analyze(basic('alice', 'wonderland'))).status, 401)
    t.equal((await visitor.ask('/sign-in/openid')).status, 404)
  })
}
