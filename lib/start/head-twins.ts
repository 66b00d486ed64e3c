import type { FastifyInstance } from 'fastify'
import type { Operation } from '../subject/operation.js'
import { markOf, type DeclaredRoute } from './declared-routes.js'

/**
 * Warns if a protected `GET` operation has a `HEAD` route with the same handler, which is not subject to the quota.
 *
 * @param serving The routes that serve the operation; none if they are declared before the plugin.
 * @param path The operation's path with the prefix.
 */
export function warnOfHeadTwin (fastify: FastifyInstance, operation: Operation, path: string, serving: readonly DeclaredRoute[], routes: readonly DeclaredRoute[]): void {
  if (operation.method !== 'GET') return
  const [route] = serving
  const pattern = route?.pattern ?? path
  const hasTwin = route === undefined
    ? fastify.hasRoute({ method: 'HEAD', url: path }) && fastify.hasRoute({ method: 'GET', url: path })
    : serving.some((get) => routes.some((head) => isTwin(head, get)))
  if (!hasTwin) return
  fastify.log.warn({ operation }, `HEAD ${pattern} runs the handler of the protected GET and is not subject to the quota; declare the route with exposeHeadRoute: false`)
}

// The HEAD route of a marked GET route has the same mark, so it is subject to the quota.
function isTwin (head: DeclaredRoute, get: DeclaredRoute): boolean {
  return head.method === 'HEAD' && head.pattern === get.pattern && head.options.handler === get.options.handler && markOf(head) === undefined
}
