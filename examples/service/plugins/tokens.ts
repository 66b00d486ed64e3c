import { createSecretKey } from 'node:crypto'
import fastifyJwt from '@fastify/jwt'
import type { FastifyInstance } from 'fastify'
import createPlugin from 'fastify-plugin'
import { decodeJwt, errors, type JWTPayload, type JWTVerifyGetKey, jwtVerify } from 'jose'
import { publishedKeys, type TrustedIssuer } from '../published-keys.js'
import { serviceSecret } from '../secret.js'
import { ServiceError } from '../service-error.js'

/** The issuer of the tokens that this service signs itself. */
export const ownIssuer = 'urn:example:language-service'

declare module '@fastify/jwt' {
  interface FastifyJWT {
    payload: object
    user: unknown
  }
}

declare module 'fastify' {
  interface FastifyInstance {
    /** Returns the claims of a request's bearer token. Rejects with 401 if the token is invalid, or with 503 if its issuer's keys are not available. */
    verifyToken (request: FastifyRequest): Promise<JWTPayload>
  }
}

/** Signs the service's own tokens (HS256). */
export const ownTokens = createPlugin(async function ownTokens (app: FastifyInstance) {
  await app.register(fastifyJwt, { secret: serviceSecret(app.config.JWT_SECRET), sign: { algorithm: 'HS256', expiresIn: '1h' } })
}, { name: 'own-tokens', dependencies: ['configuration'] })

/** Verifies bearer tokens: the service's own, and those of another issuer with the keys that it publishes. */
export const tokens = createPlugin(async function tokens (app: FastifyInstance) {
  const { JWT_ISSUER, JWT_AUDIENCE, JWT_JWKS_URL, JWT_SECRET } = app.config
  const secret = createSecretKey(serviceSecret(JWT_SECRET), 'utf8')
  const keys = new Map<string, JWTVerifyGetKey>()

  const verifyOwn = async (token: string) => await jwtVerify(token, secret, { algorithms: ['HS256'], issuer: ownIssuer, requiredClaims: ['exp'] })
  // Each kind of token has its own algorithms, so that a public key cannot be used as a secret.
  const verifyForeign = async (token: string, trusted: TrustedIssuer) => {
    const { issuer, audience } = trusted
    const published = keys.get(issuer) ?? publishedKeys(trusted)
    keys.set(issuer, published)
    return await jwtVerify(token, published, { algorithms: ['RS256', 'EdDSA'], issuer, audience, requiredClaims: ['exp'] })
  }
  const verify = async (token: string) => {
    if (JWT_ISSUER !== '') return await verifyForeign(token, { issuer: JWT_ISSUER, audience: JWT_AUDIENCE, jwksUrl: JWT_JWKS_URL })
    const development = app.developmentProvider?.issuer() ?? null
    return development !== null && decodeJwt(token).iss === development.issuer ? await verifyForeign(token, development) : await verifyOwn(token)
  }

  app.decorate('verifyToken', async ({ headers }) => {
    const [, token] = /^bearer +(\S+)$/i.exec(headers.authorization ?? '') ?? []
    if (token === undefined) throw new ServiceError(401, 'UNKNOWN_CREDENTIALS', 'Send a bearer token, or a user name and a password.')
    try {
      return (await verify(token)).payload
    } catch (error) {
      if (error instanceof errors.JOSEError) throw new ServiceError(401, error.code, 'The token is not valid.')
      throw error
    }
  })
}, { name: 'tokens', dependencies: ['own-tokens', 'development-provider'] })
