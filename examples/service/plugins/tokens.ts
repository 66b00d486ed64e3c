import fastifyJwt from '@fastify/jwt'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import createPlugin from 'fastify-plugin'
import { serviceSecret } from '../secret.js'

/** The issuer of the tokens that this service gives out itself. */
export const ownIssuer = 'urn:example:language-service'

declare module '@fastify/jwt' {
  interface FastifyJWT {
    payload: object
    user: unknown
  }
}

/** Verifies the bearer token of every request that has one. A request without one passes on as nobody's. */
export const tokens = createPlugin(async function tokens (app: FastifyInstance) {
  await app.register(fastifyJwt, {
    secret: serviceSecret(app.config.JWT_SECRET),
    sign: { algorithm: 'HS256', expiresIn: '1h' },
    verify: { algorithms: ['HS256'], allowedIss: ownIssuer }
  })
  app.addHook('onRequest', async function verifyToken (request) {
    if (request.headers.authorization !== undefined) await request.jwtVerify()
  })
}, { name: 'tokens', dependencies: ['configuration'] })

/** Lets only administrators pass. */
export async function requireAdministrator (request: FastifyRequest, reply: FastifyReply): Promise<void> {
  const user: unknown = request.user
  if (user == null) return reply.code(401).send({ error: 'Sign in first.', status: 401 })
  if (typeof user !== 'object' || !('role' in user) || user.role !== 'admin') {
    return reply.code(403).send({ error: 'Only an administrator may do this.', status: 403 })
  }
}
