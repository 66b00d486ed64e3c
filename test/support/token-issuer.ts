import { randomUUID } from 'node:crypto'
import { createServer } from 'node:http'
import { exportJWK, generateKeyPair, type JWK, type JWTPayload, SignJWT, type CryptoKey } from 'jose'
import type { Test } from 'tap'
import { listenOnLoopback, type Listening } from './loopback.js'

type Algorithm = 'RS256' | 'EdDSA'

interface Key { readonly kid: string, readonly algorithm: Algorithm, readonly privateKey: CryptoKey, readonly publicJwk: JWK }

// All issuers of a process have the same keys, because making them takes long. Nobody publishes the others.
const algorithms = ['RS256', 'EdDSA'] as const
const published = Promise.all(algorithms.map(makeKey))
const others = Promise.all(algorithms.map(makeKey))

/** An OpenID provider over real HTTP with its own keys. It signs anything for a test, and can misbehave. */
export class TokenIssuer {
  /** Creates the ID token for the answer of the token endpoint from the nonce that the client sent. */
  idToken: (nonce: string) => Promise<string> = async () => { throw new Error('no ID token was prepared') }
  /** The number of requests. */
  asked = 0
  /** Whether it leaves requests without a response. */
  hangs = false
  readonly url: string
  readonly stop: () => Promise<void>
  readonly #keys: readonly Key[]
  #nonce = ''

  private constructor (keys: readonly Key[], { port, stop }: Listening) {
    this.#keys = keys
    this.url = `http://127.0.0.1:${port}`
    this.stop = stop
  }

  /** Starts an issuer, and stops it after the test. */
  static async start (t: Test): Promise<TokenIssuer> {
    const http = createServer()
    const issuer = new TokenIssuer(await published, await listenOnLoopback(http))
    http.on('request', (request, response) => {
      issuer.asked++
      if (issuer.hangs) return
      issuer.#answer(new URL(request.url ?? '/', issuer.url)).then(
        ({ status = 200, location, body }) => { response.writeHead(status, { 'content-type': 'application/json', ...(location && { location }) }).end(JSON.stringify(body)) },
        (error: unknown) => { response.writeHead(500).end(String(error)) })
    })
    t.teardown(() => issuer.stop())
    return issuer
  }

  get jwksUrl (): string {
    return `${this.url}/keys?set=current`
  }

  /** Signs claims; `with` changes other properties of the token. */
  async sign (claims: JWTPayload, { algorithm = 'RS256', forged = false, kid, expired = false }: { algorithm?: Algorithm, forged?: boolean, kid?: string, expired?: boolean } = {}): Promise<string> {
    const key = this.key(algorithm)
    const { privateKey } = forged ? this.key(algorithm, await others) : key
    const seconds = Math.floor(Date.now() / 1000)
    return await new SignJWT({ iat: seconds - 7200, ...claims }).setExpirationTime(expired ? seconds - 3600 : seconds + 3600)
      .setProtectedHeader({ alg: algorithm, kid: kid ?? key.kid }).sign(privateKey)
  }

  key (algorithm: Algorithm, keys = this.#keys): Key {
    const key = keys.find((candidate) => candidate.algorithm === algorithm)
    if (key === undefined) throw new Error(`there is no ${algorithm} key`)
    return key
  }

  async #answer ({ pathname, searchParams, search }: URL): Promise<{ status?: number, location?: string, body?: unknown }> {
    if (pathname === '/.well-known/openid-configuration') {
      return {
        body: {
          issuer: this.url,
          jwks_uri: this.jwksUrl,
          authorization_endpoint: `${this.url}/authorize`,
          token_endpoint: `${this.url}/token`,
          response_types_supported: ['code'],
          subject_types_supported: ['public'],
          id_token_signing_alg_values_supported: ['RS256']
        }
      }
    }
    if (pathname + search === '/keys?set=current') return { body: { keys: this.#keys.map(({ publicJwk }) => publicJwk) } }
    if (pathname === '/authorize') {
      this.#nonce = searchParams.get('nonce') ?? ''
      const back = new URL(searchParams.get('redirect_uri') ?? '')
      back.search = new URLSearchParams({ code: randomUUID(), state: searchParams.get('state') ?? '' }).toString()
      return { status: 302, location: back.href }
    }
    if (pathname === '/token') return { body: { access_token: randomUUID(), token_type: 'Bearer', expires_in: 3600, id_token: await this.idToken(this.#nonce) } }
    return { status: 404 }
  }
}

async function makeKey (algorithm: Algorithm): Promise<Key> {
  const { privateKey, publicKey } = await generateKeyPair(algorithm, { extractable: true })
  const kid = randomUUID()
  return { kid, algorithm, privateKey, publicJwk: { ...await exportJWK(publicKey), kid, alg: algorithm, use: 'sig' } }
}
