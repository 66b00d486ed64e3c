import type { FastifyInstance, RouteOptions } from 'fastify'

/** A route that is declared after the plugin, in the plugin's scope. */
export interface DeclaredRoute {
  readonly method: string
  readonly pattern: string
  /** Fastify's options object, which other `onRoute` hooks can still modify until the server is ready. */
  readonly options: RouteOptions
}

/**
 * Collects the routes that are declared from now on in a Fastify instance and in its child scopes.
 *
 * @param check Called with each route when it is declared. If it throws, the declaration fails.
 */
export function collectRoutes (fastify: FastifyInstance, check: (route: DeclaredRoute) => void): readonly DeclaredRoute[] {
  const routes: DeclaredRoute[] = []
  fastify.addHook('onRoute', (options) => {
    for (const method of [options.method].flat()) {
      const route = { method, pattern: options.url, options }
      check(route)
      routes.push(route)
    }
  })
  return routes
}

/** Returns the value of a route's `config.quota`; undefined if the route is not marked. */
export function markOf ({ options }: DeclaredRoute): unknown {
  return options.config?.quota
}
