import fastifyJwt from '@fastify/jwt'
import Fastify, { type FastifyInstance, type FastifyServerOptions, type InjectOptions } from 'fastify'
import { Writable } from 'node:stream'
import { protectedOperations, quotaPlugin, type QuotaOptions } from '../../lib/index.js'

export const issuer = 'https://identity.example/realms/taxonomy'

/** A log that a test can read line by line. */
export function captureLog (level = 'info') {
  const lines: Record<string, unknown>[] = []
  const stream = new Writable({
    write (chunk, _encoding, done) {
      lines.push(JSON.parse(String(chunk)))
      done()
    }
  })
  const warnings = () => lines.filter((line) => line.level === 40).map((line) => String(line.msg))
  const errors = () => lines.filter((line) => line.level === 50).map((line) => String(line.msg))
  return { lines, warnings, errors, logger: { level, stream } }
}

/** Verifies bearer tokens, if present, as a host does with @fastify/jwt. */
async function verifyTokens (app: FastifyInstance): Promise<void> {
  await app.register(fastifyJwt, { secret: 'a secret for the tests alone, thirty-two bytes or more' })
  app.addHook('onRequest', async (request) => {
    if (request.headers.authorization !== undefined) await request.jwtVerify()
  })
}

function declareOperations (app: FastifyInstance): void {
  for (const { method, path } of protectedOperations) {
    app.route({ method, url: path, exposeHeadRoute: false, handler: async () => ({ ran: path }) })
  }
}

/** A service that verifies tokens and protects the four default operations. */
export async function createService (options: QuotaOptions = {}, server: FastifyServerOptions = {}): Promise<FastifyInstance> {
  const app: FastifyInstance = Fastify(server)
  await verifyTokens(app)
  await app.register(quotaPlugin, options)
  declareOperations(app)
  return app
}

/** Returns the headers of a caller with a real token. */
export function bearer (app: FastifyInstance, claims: object): { authorization: string } {
  return { authorization: `Bearer ${app.jwt.sign(claims)}` }
}

export function analyze (app: FastifyInstance, claims: object | null, request: InjectOptions = {}) {
  const headers = claims === null ? {} : bearer(app, claims)
  return app.inject({ method: 'POST', url: '/api/analyze', ...request, headers: { ...headers, ...request.headers } })
}

export const alice = { iss: issuer, sub: 'alice' }
export const bob = { iss: issuer, sub: 'bob' }
