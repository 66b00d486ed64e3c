import { createPublicKey } from 'node:crypto'
import createError from '@fastify/error'
import fastifyJwt, { type TokenOrHeader } from '@fastify/jwt'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import createPlugin from 'fastify-plugin'
import buildGetJwks from 'get-jwks'
import { serviceSecret } from '../secret.js'

/** The issuer of the tokens that this service gives out itself. */
export const ownIssuer = 'urn:example:language-service'

/** An issuer whose bearer tokens are accepted, and how its keys are found. */
export interface TrustedIssuer {
  readonly issuer: string
  readonly audience: string
  /** Blank where the issuer's discovery document tells. */
  readonly jwksUrl: string
}

declare module '@fastify/jwt' {
  interface FastifyJWT {
    payload: object
    user: unknown
  }
}

declare module 'fastify' {
  interface FastifyInstance {
    /** Gives the claims of a request's bearer token; rejects with 401 where the token is not to be trusted, 503 where no key can be had. */
    verifyToken (request: FastifyRequest): Promise<object>
  }
  interface FastifyRequest {
    foreignJwtVerify (): Promise<object>
  }
}

const UnknownKey = createError('UNKNOWN_KEY', 'The token is signed with a key that its issuer does not publish.', 401)
const KeysUnavailable = createError('KEYS_UNAVAILABLE', 'The keys of the token\'s issuer cannot be had. Please try again.', 503)

/** Signs and verifies the service's own tokens (HS256). */
export const ownTokens = createPlugin(async function ownTokens (app: FastifyInstance) {
  await app.register(fastifyJwt, {
    secret: serviceSecret(app.config.JWT_SECRET),
    sign: { algorithm: 'HS256', expiresIn: '1h' },
    verify: { algorithms: ['HS256'], allowedIss: ownIssuer, requiredClaims: ['iss', 'exp'] }
  })
}, { name: 'own-tokens', dependencies: ['configuration'] })

/** Verifies bearer tokens: the service's own, and those of another issuer with the keys that it publishes. */
export const tokens = createPlugin(async function tokens (app: FastifyInstance) {
  const { JWT_ISSUER, JWT_AUDIENCE, JWT_JWKS_URL } = app.config
  const configured = JWT_ISSUER === '' ? null : { issuer: JWT_ISSUER, audience: JWT_AUDIENCE, jwksUrl: JWT_JWKS_URL }
  const foreign: TrustedIssuer | null = configured ?? app.developmentProvider
  if (foreign !== null) {
    // A verifier of its own: no token can make one issuer's key pass for another's, nor a public key for a secret.
    await app.register(fastifyJwt, {
      namespace: 'foreign',
      decode: { complete: true },
      secret: keyOf(foreign),
      verify: { algorithms: ['RS256', 'EdDSA'], allowedIss: foreign.issuer, allowedAud: foreign.audience, requiredClaims: ['iss', 'aud', 'exp'] }
    })
  }

  app.decorate('verifyToken', async (request) => {
    const claimed = foreign === null ? undefined : unverifiedIssuer(request)
    if (configured !== null || claimed === foreign?.issuer) return await request.foreignJwtVerify()
    return await request.jwtVerify()
  })
}, { name: 'tokens', dependencies: ['own-tokens', 'development-provider'] })

function unverifiedIssuer (request: FastifyRequest): unknown {
  try {
    const claims: unknown = request.server.jwt.decode(request.server.jwt.lookupToken(request))
    return typeof claims === 'object' && claims !== null && 'iss' in claims ? claims.iss : undefined
  } catch {
    return undefined
  }
}

// Only the trusted issuer is ever asked, whoever the token says that it is from.
function keyOf ({ issuer, jwksUrl }: TrustedIssuer) {
  const published = jwksUrl === '' ? undefined : new URL(jwksUrl)
  const jwks = buildGetJwks(published === undefined ? { providerDiscovery: true } : { jwksPath: published.pathname + published.search })
  const domain = published?.origin ?? issuer
  return async (_request: FastifyRequest, token: TokenOrHeader): Promise<string> => {
    const { kid, alg } = 'header' in token ? token.header : token
    if (typeof kid !== 'string' || typeof alg !== 'string') throw new UnknownKey()
    try {
      const key = await jwks.getJwk({ domain, alg, kid })
      return createPublicKey({ key: { ...key }, format: 'jwk' }).export({ type: 'spki', format: 'pem' }).toString()
    } catch (error) {
      throw error instanceof Error && 'code' in error && error.code === 'JWK_NOT_FOUND' ? new UnknownKey() : new KeysUnavailable()
    }
  }
}
