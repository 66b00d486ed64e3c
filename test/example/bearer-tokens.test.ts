// The example service with an issuer that publishes its keys: RS256 and EdDSA tokens, and every kind of invalid token.
import { createHmac, createPublicKey } from 'node:crypto'
import t from 'tap'
import { startExample } from '../support/example.js'
import { startService } from '../support/example-service.js'
import { TokenIssuer } from '../support/token-issuer.js'
import { locationOf, Visitor } from '../support/visitor.js'

const audience = 'urn:example:language-service'
const post = { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"businessText":"Invoices are late."}' }

async function analyze (address: string, token: string): Promise<number> {
  return (await fetch(`${address}/api/analyze`, { ...post, headers: { ...post.headers, authorization: `Bearer ${token}` } })).status
}

async function trackedCallers (address: string): Promise<string | undefined> {
  return /^llm_quota_tracked_callers\{quota="default"\} (\d+)$/m.exec(await (await fetch(`${address}/metrics`)).text())?.[1]
}

for (const keysFrom of ['the URL that is configured', 'the discovery document']) {
  t.test(`only valid tokens of the issuer are accepted, with keys from ${keysFrom}`, async (t) => {
    const issuer = await TokenIssuer.start()
    const service = await startExample('service/main.js', {
      JWT_ISSUER: issuer.url, JWT_AUDIENCE: audience, METRICS: 'true', ...(keysFrom.includes('URL') && { JWT_JWKS_URL: issuer.jwksUrl })
    })
    t.teardown(async () => {
      await service.stop()
      await issuer.stop()
    })
    const claims = { iss: issuer.url, aud: audience, sub: '550e8400-e29b-41d4-a716-446655440000' }
    const unsigned = (header: object, payload: object) => [header, payload].map((part) => Buffer.from(JSON.stringify(part)).toString('base64url')).join('.')
    const expiring = { ...claims, exp: Math.floor(Date.now() / 1000) + 3600 }
    const { kid, publicJwk } = issuer.key('RS256')
    const pem = createPublicKey({ key: { ...publicJwk }, format: 'jwk' }).export({ type: 'spki', format: 'pem' })
    const confused = unsigned({ alg: 'HS256', kid }, expiring)
    const invalid: Record<string, string> = {
      forged: await issuer.sign(claims, { forged: true }),
      expired: await issuer.sign(claims, { expired: true }),
      'for another audience': await issuer.sign({ ...claims, aud: 'another service' }),
      'for no audience': await issuer.sign({ iss: claims.iss, sub: claims.sub }),
      'of another issuer': await issuer.sign({ ...claims, iss: 'https://identity.example' }),
      'of no issuer': await issuer.sign({ aud: claims.aud, sub: claims.sub }),
      'signed with a key that is not published': await issuer.sign(claims, { kid: 'another' }),
      unsigned: `${unsigned({ alg: 'none', kid }, expiring)}.`,
      'signed with the public key as a secret': `${confused}.${createHmac('sha256', pem).update(confused).digest('base64url')}`,
      'without a key ID': `${unsigned({ alg: 'RS256' }, expiring)}.AAAA`
    }
    for (const [what, token] of Object.entries(invalid)) t.equal(await analyze(service.address, token), 401, what)
    t.equal(await trackedCallers(service.address), '0', 'nothing is counted')

    for (let request = 0; request < 5; request++) {
      t.equal(await analyze(service.address, await issuer.sign(claims)), 200)
      t.equal(await analyze(service.address, await issuer.sign({ ...claims, preferred_username: `name ${request}` }, { algorithm: 'EdDSA' })), 200)
    }
    t.equal(await analyze(service.address, await issuer.sign(claims, { algorithm: 'EdDSA' })), 429, 'tokens with the same subject share a counter, whichever key signed them')
    t.equal(await analyze(service.address, await issuer.sign({ ...claims, sub: ' ' })), 401, 'a token with a blank subject has no caller')
    t.equal(await trackedCallers(service.address), '1')
    t.ok(issuer.keysAsked <= 6, 'the keys are cached')

    const administrator = await fetch(`${service.address}/api/preferences`, { headers: { authorization: `Bearer ${await issuer.sign({ ...claims, role: 'admin' })}` } })
    t.equal(administrator.status, 403, 'a claim of another issuer does not make a caller an administrator')
  })
}

t.test('tokens of an unreachable issuer are answered with 503', async (t) => {
  const issuer = await TokenIssuer.start()
  const token = await issuer.sign({ iss: issuer.url, aud: audience, sub: 'mira' })
  const service = await startExample('service/main.js', { JWT_ISSUER: issuer.url, JWT_AUDIENCE: audience })
  await issuer.stop()
  t.teardown(() => service.stop())
  t.equal(await analyze(service.address, token), 503)
})

t.test('start-up fails with an error that contains the invalid setting', async (t) => {
  for (const [environment, error] of [
    [{ JWT_ISSUER: 'https://identity.example' }, /JWT_AUDIENCE must be set if JWT_ISSUER is set/],
    [{ JWT_ISSUER: 'http://identity.example', JWT_AUDIENCE: audience }, /JWT_ISSUER must be an https URL, or an http one on loopback; it is "http:\/\/identity.example"/],
    [{ JWT_ISSUER: 'https://identity.example', JWT_AUDIENCE: audience, JWT_JWKS_URL: 'keys' }, /JWT_JWKS_URL must be an https URL/],
    [{ OIDC_ISSUER: 'https://identity.example' }, /OIDC_CLIENT_ID must be set if OIDC_ISSUER is set/],
    [{ OIDC_ISSUER: 'identity', OIDC_CLIENT_ID: 'a' }, /OIDC_ISSUER must be an https URL/],
    [{ PUBLIC_URL: 'ftp://service.example' }, /PUBLIC_URL must be an https URL/]
  ] as const) await t.rejects(startService(t, environment), { message: error })
})

t.test('a sign-in fails if the signature or a claim of the ID token is invalid', async (t) => {
  const issuer = await TokenIssuer.start()
  const service = await startExample('service/main.js', { OIDC_ISSUER: issuer.url, OIDC_CLIENT_ID: 'client', METRICS: 'true' })
  t.teardown(async () => {
    await service.stop()
    await issuer.stop()
  })
  const claims = (nonce: string) => ({ iss: issuer.url, aud: 'client', sub: 'mira', nonce })
  const signIn = async (idToken: typeof issuer.idToken) => {
    issuer.idToken = idToken
    const visitor = new Visitor(service.address)
    const back = await visitor.follow(await visitor.ask('/sign-in/openid'), ({ pathname }) => pathname !== '/')
    return { visitor, location: locationOf(back)?.href.slice(service.address.length) }
  }
  const invalid: Record<string, typeof issuer.idToken> = {
    'another nonce': (nonce) => issuer.sign({ ...claims(nonce), nonce: 'another' }),
    'no nonce': (nonce) => issuer.sign({ iss: issuer.url, aud: claims(nonce).aud, sub: 'mira' }),
    'another audience': (nonce) => issuer.sign({ ...claims(nonce), aud: 'another' }),
    'another issuer': (nonce) => issuer.sign({ ...claims(nonce), iss: 'https://identity.example' }),
    'no subject': (nonce) => issuer.sign({ iss: issuer.url, aud: 'client', nonce }),
    expired: (nonce) => issuer.sign(claims(nonce), { expired: true }),
    forged: (nonce) => issuer.sign(claims(nonce), { forged: true }),
    'an algorithm that is not expected': (nonce) => issuer.sign(claims(nonce), { algorithm: 'EdDSA' }),
    nonsense: async () => 'nonsense'
  }
  for (const [what, idToken] of Object.entries(invalid)) {
    const { visitor, location } = await signIn(idToken)
    t.equal(location, '/?sign-in=failed', what)
    t.equal((await visitor.session()).signedIn, null, what)
    t.equal((await visitor.send('/api/analyze', post)).status, 401, what)
  }
  t.equal(await trackedCallers(service.address), '0', 'nothing is counted')

  const { visitor, location } = await signIn((nonce) => issuer.sign(claims(nonce)))
  t.equal(location, '/')
  t.match(await visitor.session(), { signedIn: { by: 'openid' } })
  t.equal((await visitor.send('/api/analyze', post)).status, 200)
  const out = JSON.parse((await visitor.send('/sign-out', { method: 'POST' })).text)
  t.same(out, { location: '/' }, 'the provider has no end_session_endpoint')
})

t.test('an unreachable provider is reported, and the next sign-in tries it again', async (t) => {
  const issuer = await TokenIssuer.start()
  const address = issuer.url
  const service = await startExample('service/main.js', { OIDC_ISSUER: address, OIDC_CLIENT_ID: 'client' })
  await issuer.stop()
  t.teardown(() => service.stop())
  for (let attempt = 0; attempt < 2; attempt++) {
    const answer = await new Visitor(service.address).ask('/sign-in/openid')
    t.equal(locationOf(answer)?.href, `${service.address}/?sign-in=unavailable`)
  }
  await service.printed(/the OpenID provider cannot be reached/)
})
