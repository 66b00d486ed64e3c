// An issuer that publishes its keys: RS256 and EdDSA tokens, sign-ins, and every kind of invalid token.
import { createPublicKey } from 'node:crypto'
import t, { type Test } from 'tap'
import { hs256 } from '../support/credentials.js'
import { analysis, startService } from '../support/example-service.js'
import { TokenIssuer } from '../support/token-issuer.js'
import { locationOf, Visitor } from '../support/visitor.js'

const audience = 'urn:example:language-service'

async function start (t: Test, settings: (issuer: TokenIssuer) => Record<string, string>) {
  const issuer = await TokenIssuer.start(t)
  const service = await startService(t, settings(issuer))
  const bearer = async (...token: Parameters<TokenIssuer['sign']>) => (await service.analyze(`Bearer ${await issuer.sign(...token)}`)).status
  return { issuer, ...service, bearer }
}

for (const [keysFrom, settings] of Object.entries({
  'the URL that is configured': ({ url, jwksUrl }: TokenIssuer) => ({ JWT_ISSUER: url, JWT_AUDIENCE: audience, JWT_JWKS_URL: jwksUrl }),
  'the discovery document': ({ url }: TokenIssuer) => ({ JWT_ISSUER: url, JWT_AUDIENCE: audience })
})) {
  t.test(`only valid tokens of the issuer are accepted, with keys from ${keysFrom}`, async (t) => {
    const { issuer, analyze, bearer, as, address, trackedCallers } = await start(t, settings)
    const claims = { iss: issuer.url, aud: audience, sub: '550e8400-e29b-41d4-a716-446655440000' }
    const { kid, publicJwk } = issuer.key('RS256')
    const pem = createPublicKey({ key: { ...publicJwk }, format: 'jwk' }).export({ type: 'spki', format: 'pem' }).toString()
    const invalid: Record<string, string> = {
      forged: await issuer.sign(claims, { forged: true }),
      expired: await issuer.sign(claims, { expired: true }),
      'for another audience': await issuer.sign({ ...claims, aud: 'another service' }),
      'for no audience': await issuer.sign({ iss: claims.iss, sub: claims.sub }),
      'of another issuer': await issuer.sign({ ...claims, iss: 'https://identity.example' }),
      'of no issuer': await issuer.sign({ aud: claims.aud, sub: claims.sub }),
      'signed with a key that is not published': await issuer.sign(claims, { kid: 'another' }),
      unsigned: hs256(claims, '', { alg: 'none', kid }).replace(/[^.]+$/, ''),
      'signed with the public key as a secret': hs256(claims, pem, { kid }),
      'without a key ID': hs256(claims, pem, { alg: 'RS256' })
    }
    for (const [what, token] of Object.entries(invalid)) t.equal((await analyze(`Bearer ${token}`)).status, 401, what)
    t.equal((await as('alice', '/api/quota')).status, 401, 'a token of the service itself')
    t.equal(await trackedCallers(), 0, 'nothing is counted')

    for (let request = 0; request < 5; request++) {
      t.equal(await bearer(claims), 200)
      t.equal(await bearer({ ...claims, preferred_username: `name ${request}` }, { algorithm: 'EdDSA' }), 200)
    }
    t.equal(await bearer(claims, { algorithm: 'EdDSA' }), 429, 'tokens with the same subject share a counter, whichever key signed them')
    t.equal(await bearer({ ...claims, sub: ' ' }), 401, 'a token with a blank subject has no caller')
    t.equal(await trackedCallers(), 1)
    t.ok(issuer.asked <= 6, 'the keys are cached')

    const administrator = await fetch(`${address}/api/preferences`, { headers: { authorization: `Bearer ${await issuer.sign({ ...claims, role: 'admin' })}` } })
    t.equal(administrator.status, 403, 'a claim of another issuer does not make a caller an administrator')
  })
}

t.test('tokens with invented key IDs cause no requests to the issuer, and the valid key is still accepted', async (t) => {
  const { issuer, bearer } = await start(t, ({ url }) => ({ JWT_ISSUER: url, JWT_AUDIENCE: audience, SERVICE_RATE_LIMIT_PER_MINUTE: '1000' }))
  const claims = { iss: issuer.url, aud: audience, sub: 'mira' }
  t.equal(await bearer(claims), 200)
  const before = issuer.asked
  const statuses = await Promise.all(Array.from({ length: 200 }, (_, index) => bearer(claims, { algorithm: 'EdDSA', kid: `made up ${index}` })))
  t.same([...new Set(statuses)], [401])
  t.equal(issuer.asked, before, 'the keys were requested a moment ago')
  t.equal(await bearer(claims), 200)
})

t.test('an issuer that hangs delays requests only briefly, and gets no further request for a while', async (t) => {
  const { issuer, analyze, address } = await start(t, ({ url }) => ({ JWT_ISSUER: url, JWT_AUDIENCE: audience }))
  issuer.hangs = true
  const token = `Bearer ${await issuer.sign({ iss: issuer.url, aud: audience, sub: 'mira' })}`
  const responses = await Promise.all(Array.from({ length: 50 }, () => analyze(token)))
  t.same([...new Set(responses.map(({ status, headers }) => `${status} ${headers.get('retry-after')}`))], ['503 5'])
  t.equal(issuer.asked, 1, 'the requests share one request to the issuer')
  for (let request = 0; request < 20; request++) t.equal((await analyze(token)).status, 503)
  t.equal(issuer.asked, 1, 'the issuer gets no request during the pause')
  t.equal((await fetch(`${address}/health`)).status, 200)
})

t.test('a sign-in fails if the signature or a claim of the ID token is invalid', async (t) => {
  const { issuer, address, trackedCallers } = await start(t, ({ url }) => ({ OIDC_ISSUER: url, OIDC_CLIENT_ID: 'client' }))
  const claims = (nonce: string) => ({ iss: issuer.url, aud: 'client', sub: 'mira', nonce })
  const signIn = async (idToken: typeof issuer.idToken) => {
    issuer.idToken = idToken
    const visitor = new Visitor(address)
    const back = await visitor.follow(await visitor.ask('/sign-in/openid'), ({ pathname }) => pathname !== '/')
    return { visitor, location: locationOf(back)?.href.slice(address.length) }
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
    t.equal((await visitor.send('/api/analyze', analysis)).status, 401, what)
  }
  t.equal(await trackedCallers(), 0, 'nothing is counted')

  const { visitor, location } = await signIn((nonce) => issuer.sign(claims(nonce)))
  t.equal(location, '/')
  t.match(await visitor.session(), { signedIn: { by: 'openid' } })
  t.equal((await visitor.send('/api/analyze', analysis)).status, 200)
  t.same(JSON.parse((await visitor.send('/sign-out', { method: 'POST' })).text), { location: '/' }, 'the provider has no end_session_endpoint')
})

t.test('an unreachable provider is reported, and the next sign-in tries it again', async (t) => {
  const { issuer, address, log } = await start(t, ({ url }) => ({ OIDC_ISSUER: url, OIDC_CLIENT_ID: 'client' }))
  await issuer.stop()
  for (let attempt = 0; attempt < 2; attempt++) t.equal(locationOf(await new Visitor(address).ask('/sign-in/openid'))?.href, `${address}/?sign-in=unavailable`)
  t.match(log.join(''), /the OpenID provider cannot be reached/)
})

t.test('the cookie is secure behind TLS, and the provider redirects browsers to the https URL', async (t) => {
  const { address } = await start(t, ({ url }) => ({ PUBLIC_URL: 'https://service.example/', OIDC_ISSUER: url, OIDC_CLIENT_ID: 'client' }))
  const { headers } = await new Visitor(address).ask('/sign-in/openid')
  t.match(headers.get('set-cookie'), /; Secure; SameSite=Lax$/)
  t.equal(new URL(headers.get('location') ?? '').searchParams.get('redirect_uri'), 'https://service.example/sign-in/openid/callback')
})
