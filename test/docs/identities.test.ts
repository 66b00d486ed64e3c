// The programs of docs/identities.md that need an issuer, run unchanged and tested over HTTP.
import t from 'tap'
import { hs256, statuses } from '../support/credentials.js'
import { Programs } from '../support/programs.js'
import { TokenIssuer } from '../support/token-issuer.js'

const programs = Programs.start(t)
const three = { SERVICE_RATE_LIMIT_PER_MINUTE: '3' }
const threeThenRejected = [200, 200, 200, 429]

t.test('a service that verifies tokens with the published keys of an issuer limits each caller', async (t) => {
  const issuer = await TokenIssuer.start(t)
  const address = await programs.run('identities/jwks.ts', { ...three, JWT_ISSUER: issuer.url, JWT_AUDIENCE: 'service' })
  const claims = { iss: issuer.url, aud: 'service', sub: 'mira' }
  const ask = async (token: string) => (await fetch(`${address}/api/analyze`, { method: 'POST', headers: { authorization: `Bearer ${token}` } })).status
  const signed = async (...token: Parameters<typeof issuer.sign>) => await ask(await issuer.sign(...token))
  for (const how of [{ forged: true }, { expired: true }, { kid: 'another' }]) t.equal(await signed(claims, how), 401)
  t.same([await signed({ ...claims, aud: 'another' }), await ask(hs256())], [401, 401])
  t.same([await signed(claims), await signed(claims, { algorithm: 'EdDSA' }), await signed(claims), await signed(claims)], threeThenRejected)
  await t.rejects(programs.run('identities/jwks.ts'), /JWT_ISSUER and JWT_AUDIENCE must be set/)
})

/** A minimal browser: keeps the cookies of a service, and follows redirects until one leads to its page. */
class Visitor {
  readonly #origin: string
  #cookie = ''

  constructor (origin: string) {
    this.#origin = origin
  }

  async ask (path: string): Promise<Response> {
    const url = new URL(path, this.#origin)
    const response = await fetch(url, { redirect: 'manual', headers: url.origin === this.#origin ? { cookie: this.#cookie } : {} })
    for (const cookie of response.headers.getSetCookie()) this.#cookie = cookie.replace(/;.*/, '')
    const location = response.headers.get('location')
    return location === null || location === '/' ? response : await this.ask(location)
  }
}

t.test('a service with an OpenID Connect login limits each caller', async (t) => {
  const issuer = await TokenIssuer.start(t)
  const visitor = new Visitor(await programs.run('identities/openid-connect.ts', { ...three, OIDC_ISSUER: issuer.url, OIDC_CLIENT_ID: 'client' }))
  const ask = () => visitor.ask('/api/analyze-node')
  const signIn = async (forged: boolean) => {
    issuer.idToken = (nonce) => issuer.sign({ iss: issuer.url, aud: 'client', sub: 'mira', nonce }, { forged })
    return await visitor.ask('/sign-in')
  }
  t.equal((await ask()).status, 401)
  t.equal((await signIn(true)).status, 401)
  t.equal((await ask()).status, 401)
  t.equal((await visitor.ask('/signed-in?code=invented&state=invented')).status, 400)
  t.equal((await signIn(false)).headers.get('location'), '/')
  t.same(await statuses(4, ask), threeThenRejected)
})
