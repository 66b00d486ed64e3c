import createRouter from 'find-my-way'
import type { FastifyInstance } from 'fastify'
import type { Operation } from './operation.js'
import { type ListedRoute, listRoutes } from './route-listing.js'
import { readRouterOptions } from './router-options.js'

/**
 * Warns about protected routes that let callers past the quota: those with a `HEAD` twin, which runs the same handler
 * under a method that is not protected, and those with a `preHandler` that runs after the quota, where authentication
 * comes too late.
 *
 * @param hookName The name of the quota's own hook, after which others come too late.
 */
export function warnOfRoutes (fastify: FastifyInstance, operations: readonly Operation[], prefix: string, hookName: string): void {
  const routes = listRoutes(fastify).filter((route) => isReadable(fastify, route))
  for (const operation of operations) {
    const method = operation.method.toUpperCase()
    const path = prefix + operation.path
    const pattern = patternServing(fastify, routes, method, path)
    if (pattern === undefined) continue
    if (method === 'GET' && patternServing(fastify, routes, 'HEAD', path) === pattern) {
      fastify.log.warn({ operation }, `HEAD ${pattern} runs the handler of the protected GET and is not subject to the quota; declare the route with exposeHeadRoute: false`)
    }
    const late = routes.filter((route) => route.pattern === pattern && route.methods.includes(method))
      .flatMap(({ preHandlers }) => comingAfter(preHandlers, hookName))
    if (late.length > 0) {
      fastify.log.warn({ operation, preHandlers: late }, `${method} ${pattern} is protected and has a preHandler of its own, which runs after the quota; authenticate in onRequest or preValidation, there it comes too late`)
    }
  }
}

function patternServing (fastify: FastifyInstance, routes: readonly ListedRoute[], method: string, path: string): string | undefined {
  const router = createRouter(readRouterOptions(fastify.initialConfig))
  for (const pattern of new Set(routes.filter(({ methods }) => methods.includes(method)).map((route) => route.pattern))) {
    try {
      router.on('GET', pattern, () => {}, pattern)
    } catch {
      // A pattern of several lines is misread. That may cost a warning; it must not keep the server from starting.
    }
  }
  return router.find('GET', path)?.store
}

// The listing writes a literal colon like the one that begins a parameter; only the router knows which it is.
function isReadable (fastify: FastifyInstance, { methods: [method = ''], pattern }: ListedRoute): boolean {
  return !pattern.includes(':') || fastify.hasRoute({ method, url: pattern })
}

function comingAfter (names: readonly string[], hookName: string): readonly string[] {
  const position = names.indexOf(`${hookName}()`)
  return position === -1 ? [] : names.slice(position + 1)
}
