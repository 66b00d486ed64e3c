import type { FastifyInstance } from 'fastify'
import type { OperationMatch } from '../subject/operation-matcher.js'
import type { SimilarRoutes } from './similar-routes.js'

const unseen = 'Marked routes and routes with parameters, wildcards or constraints that are declared before the plugin cannot be checked.'

/** Logs one warning with all operations that no route serves and, for each, a route that the host may have meant. */
export function warnOfUnservedOperations (fastify: FastifyInstance, unserved: readonly OperationMatch[], prefix: string, similar: SimilarRoutes): void {
  if (unserved.length === 0) return
  const operations = unserved.map(({ operation }) => operation)
  const list = operations.map(({ method, path }) => `${method} ${prefix}${path}${similar.hintFor(method, path)}`).join(', ')
  fastify.log.warn({ operations }, `no route serves ${list}. Check the options prefix and operations, and the Fastify instance on which the plugin is registered. ${unseen}`)
}
