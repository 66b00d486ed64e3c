import { randomUUID } from 'node:crypto'
import { exportJWK, generateKeyPair, type JWTPayload, SignJWT } from 'jose'
import Fastify from 'fastify'
import type { Test } from 'tap'

type Algorithm = 'RS256' | 'EdDSA'

async function makeKeys () {
  return await Promise.all((['RS256', 'EdDSA'] as const).map(async (alg) => {
    const { privateKey, publicKey } = await generateKeyPair(alg, { extractable: true })
    const kid = randomUUID()
    return { alg, kid, privateKey, publicJwk: { ...await exportJWK(publicKey), kid, alg, use: 'sig' } }
  }))
}

/** An OpenID provider over real HTTP with its own keys. It signs anything for a test. */
export class TokenIssuer {
  /** Creates the ID token for the response of the token endpoint from the nonce that the client sent. */
  idToken: (nonce: string) => Promise<string> = async () => { throw new Error('no ID token was prepared') }
  readonly #app = Fastify()
  readonly #keys = makeKeys()
  readonly #otherKeys = makeKeys()
  #nonce = ''

  private constructor () {
    this.#app.addContentTypeParser('application/x-www-form-urlencoded', { parseAs: 'string' }, async (_request: unknown, body: unknown) => body)
    this.#app.get('/.well-known/openid-configuration', async () => ({
      issuer: this.url,
      jwks_uri: `${this.url}/keys`,
      authorization_endpoint: `${this.url}/authorize`,
      token_endpoint: `${this.url}/token`,
      response_types_supported: ['code'],
      subject_types_supported: ['public'],
      id_token_signing_alg_values_supported: ['RS256']
    }))
    this.#app.get('/keys', async () => ({ keys: (await this.#keys).map(({ publicJwk }) => publicJwk) }))
    this.#app.get<{ Querystring: { nonce: string, state: string, redirect_uri: string } }>('/authorize', async ({ query }, reply) => {
      this.#nonce = query.nonce
      return reply.redirect(`${query.redirect_uri}?${new URLSearchParams({ code: randomUUID(), state: query.state })}`)
    })
    this.#app.post('/token', async () => ({ access_token: randomUUID(), token_type: 'Bearer', expires_in: 3600, id_token: await this.idToken(this.#nonce) }))
  }

  /** Starts an issuer, and stops it after the test. */
  static async start (t: Test): Promise<TokenIssuer> {
    const issuer = new TokenIssuer()
    t.teardown(() => issuer.#app.close())
    await issuer.#app.listen({ host: '127.0.0.1', port: 0 })
    return issuer
  }

  get url (): string {
    return this.#app.listeningOrigin
  }

  /** Signs claims; `forged` with a key that is not published. */
  async sign (claims: JWTPayload, { algorithm = 'RS256', forged = false, kid, expired = false }: { algorithm?: Algorithm, forged?: boolean, kid?: string, expired?: boolean } = {}): Promise<string> {
    const index = algorithm === 'RS256' ? 0 : 1
    const [published, used] = [(await this.#keys)[index], (await (forged ? this.#otherKeys : this.#keys))[index]]
    if (published === undefined || used === undefined) throw new Error(`there is no ${algorithm} key`)
    const seconds = Math.floor(Date.now() / 1000)
    return await new SignJWT({ iat: seconds - 7200, ...claims }).setExpirationTime(expired ? seconds - 3600 : seconds + 3600)
      .setProtectedHeader({ alg: algorithm, kid: kid ?? published.kid }).sign(used.privateKey)
  }
}
