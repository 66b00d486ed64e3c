// The programs of docs/identities.md that need an issuer, run unchanged and tested over HTTP.
import { randomUUID } from 'node:crypto'
import Fastify from 'fastify'
import { exportJWK, generateKeyPair, type JWTPayload, SignJWT } from 'jose'
import t, { type Test } from 'tap'
import { hs256, statuses } from '../support/credentials.js'
import { Programs } from '../support/programs.js'

const programs = Programs.start(t)
const three = { SERVICE_RATE_LIMIT_PER_MINUTE: '3' }
const threeThenRejected = [200, 200, 200, 429]

/**
 * Starts an OpenID provider over real HTTP, which signs anything for a test; `forged` with a key
 * that is not published.
 */
async function startIssuer (t: Test) {
  const app = Fastify()
  const [{ privateKey, publicKey }, other] = [
    await generateKeyPair('RS256', { extractable: true }),
    await generateKeyPair('RS256')
  ]
  const key = {
    ...(await exportJWK(publicKey)),
    kid: String(randomUUID()),
    alg: 'RS256',
    use: 'sig'
  }
  // What the token endpoint returns for the nonce that the client has sent.
  const idToken = {
    sign: async (_nonce: string): Promise<string> => {
      throw new Error('no ID token was prepared')
    },
    nonce: ''
  }
  app.addContentTypeParser(
    'application/x-www-form-urlencoded',
    { parseAs: 'string' },
    async (_request: unknown, body: unknown) => body
  )
  app.get('/.well-known/openid-configuration', async () => ({
    issuer: url,
    jwks_uri: `${url}/keys`,
    authorization_endpoint: `${url}/authorize`,
    token_endpoint: `${url}/token`,
    response_types_supported: ['code'],
    subject_types_supported: ['public'],
    id_token_signing_alg_values_supported: ['RS256']
  }))
  app.get('/keys', async () => ({ keys: [key] }))
  app.get<{ Querystring: { nonce: string; state: string; redirect_uri: string } }>(
    '/authorize',
    async ({ query }, reply) => {
      idToken.nonce = query.nonce
      return reply.redirect(
        `${query.redirect_uri}?${new URLSearchParams({ code: randomUUID(), state: query.state })}`
      )
    }
  )
  app.post('/token', async () => ({
    access_token: 'any',
    token_type: 'Bearer',
    expires_in: 3600,
    id_token: await idToken.sign(idToken.nonce)
  }))
  t.teardown(() => app.close())
  const url = await app.listen({ host: '127.0.0.1', port: 0 })
  const sign = async (claims: JWTPayload, { forged = false, kid = key.kid, lasts = 3600 } = {}) =>
    new SignJWT(claims)
      .setIssuedAt()
      .setExpirationTime(Math.floor(Date.now() / 1000) + lasts)
      .setProtectedHeader({ alg: 'RS256', kid })
      .sign(forged ? other.privateKey : privateKey)
  return { url, idToken, sign }
}

t.test(
  'a service that verifies tokens with the published keys of an issuer limits each caller',
  async (t) => {
    const issuer = await startIssuer(t)
    const address = await programs.run('identities/jwks.ts', {
      ...three,
      JWT_ISSUER: issuer.url,
      JWT_AUDIENCE: 'service'
    })
    const claims = { iss: issuer.url, aud: 'service', sub: 'mira' }
    const ask = async (token: string) =>
      (
        await fetch(`${address}/api/analyze`, {
          method: 'POST',
          headers: { authorization: `Bearer ${token}` }
        })
      ).status
    const signed = async (...token: Parameters<typeof issuer.sign>) =>
      await ask(await issuer.sign(...token))
    for (const how of [{ forged: true }, { lasts: -60 }, { kid: 'another' }]) {
      t.equal(await signed(claims, how), 401)
    }
    t.same([await signed({ ...claims, aud: 'another' }), await ask(hs256())], [401, 401])
    t.same(
      [await signed(claims), await signed(claims), await signed(claims), await signed(claims)],
      threeThenRejected
    )
    await t.rejects(programs.run('identities/jwks.ts'), /JWT_ISSUER and JWT_AUDIENCE must be set/)
  }
)

/**
 * A minimal browser: keeps the cookies of a service, and follows redirects until one leads to its
 * page.
 */
class Visitor {
  readonly #origin: string
  #cookie = ''
  constructor (origin: string) {
    this.#origin = origin
  }

  async ask (path: string): Promise<Response> {
    const url = new URL(path, this.#origin)
    const response = await fetch(url, {
      redirect: 'manual',
      headers: url.origin === this.#origin ? { cookie: this.#cookie } : {}
    })
    for (const cookie of response.headers.getSetCookie()) this.#cookie = cookie.replace(/;.*/, '')
    const location = response.headers.get('location')
    return location === null || location === '/' ? response : await this.ask(location)
  }
}

t.test('a service with an OpenID Connect login limits each caller', async (t) => {
  const issuer = await startIssuer(t)
  const visitor = new Visitor(
    await programs.run('identities/openid-connect.ts', {
      ...three,
      OIDC_ISSUER: issuer.url,
      OIDC_CLIENT_ID: 'client'
    })
  )
  const ask = () => visitor.ask('/api/analyze-node')
  const signIn = async (forged: boolean) => {
    issuer.idToken.sign = (nonce) =>
      issuer.sign({ iss: issuer.url, aud: 'client', sub: 'mira', nonce }, { forged })
    return await visitor.ask('/sign-in')
  }
  t.equal((await ask()).status, 401)
  t.equal((await signIn(true)).status, 401)
  t.equal((await ask()).status, 401)
  t.equal((await visitor.ask('/signed-in?code=invented&state=invented')).status, 400)
  t.equal((await signIn(false)).headers.get('location'), '/')
  t.same(await statuses(4, ask), threeThenRejected)
})
