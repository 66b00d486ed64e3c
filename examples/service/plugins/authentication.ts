import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import fastifyJwt from '@fastify/jwt'
import type { FastifyRequest } from 'fastify'
import { type Authentication, localAuthentication, tokenAuthentication } from 'fastify-llm-quota'
import createPlugin from 'fastify-plugin'
import { root } from '../root.js'
import { InvalidToken, NotAdministrator, NotSignedIn } from './errors.js'

/** The issuer of the tokens that this service signs. */
export const issuer = 'urn:example:language-service'

/**
 * The claims of a token beside `iss` and `exp`; `local` is set if `sub` is the name of a local
 * account.
 */
interface Claims {
  readonly sub: string
  readonly role?: 'admin'
  readonly local?: true
}

declare module 'fastify' {
  interface FastifyRequest {
    /** The claims of the request's token; null if it has none. */
    claims: Claims | null
  }
}

/**
 * Verifies the bearer token of each request that has one. Requests without one are unauthenticated.
 */
export default createPlugin(
  async function authentication (app) {
    await app.register(fastifyJwt, {
      secret: app.config.JWT_SECRET ?? storedSecret(),
      sign: { algorithm: 'HS256', iss: issuer, expiresIn: '8h' },
      verify: { algorithms: ['HS256'], allowedIss: issuer, requiredClaims: ['sub', 'exp'] }
    })
    app.decorateRequest('claims', null)
    app.addHook('onRequest', async (request) => {
      if (request.headers.authorization === undefined) return
      request.claims = await request.jwtVerify<Claims>().catch(() => {
        throw new InvalidToken()
      })
    })
  },
  { name: 'authentication', dependencies: ['environment'] }
)

/** Tells the quota who calls: a local account, or the subject of another token. */
export function authenticationOf ({ claims }: FastifyRequest): Authentication | null {
  if (claims === null) return null
  return claims.local === true ? localAuthentication(claims.sub) : tokenAuthentication(claims)
}

export async function requireUser ({ claims }: FastifyRequest): Promise<void> {
  if (claims === null) throw new NotSignedIn()
}

export async function requireAdministrator (request: FastifyRequest): Promise<void> {
  await requireUser(request)
  if (request.claims?.role !== 'admin') throw new NotAdministrator()
}

// Generated at the first start. Only the user that runs the service can read the file, and git
// ignores its folder.
function storedSecret (): string {
  const file = join(root, '.data', 'secret')
  mkdirSync(dirname(file), { recursive: true })
  if (!existsSync(file)) {
    writeFileSync(file, randomBytes(32).toString('base64url'), { mode: 0o600, flag: 'wx' })
  }
  return readFileSync(file, 'utf8')
}
