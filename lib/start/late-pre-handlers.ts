import type { FastifyInstance } from 'fastify'
import type { Operation } from '../subject/operation.js'
import type { DeclaredRoute } from './declared-routes.js'

/** Warns if a protected route has `preHandler` hooks of its own, which run after the quota. */
export function warnOfLatePreHandlers (fastify: FastifyInstance, operation: Operation, serving: readonly DeclaredRoute[]): void {
  const preHandlers = serving.flatMap(({ options }) => options.preHandler ?? []).map(({ name }) => `${name || 'anonymous'}()`)
  const [route] = serving
  if (route === undefined || preHandlers.length === 0) return
  fastify.log.warn({ operation, preHandlers }, `${route.method} ${route.pattern} is protected and has a preHandler of its own, which runs after the quota; authenticate in onRequest or preValidation instead`)
}
