import type { FastifyInstance } from 'fastify'
import type { DeclaredRoute } from './declared-routes.js'

/** Finds the route that the host may have meant when no route serves an operation. */
export class SimilarRoutes {
  readonly #fastify: FastifyInstance
  readonly #prefix: string
  readonly #routes: readonly DeclaredRoute[]

  constructor (fastify: FastifyInstance, prefix: string, routes: readonly DeclaredRoute[]) {
    this.#fastify = fastify
    this.#prefix = prefix
    this.#routes = routes
  }

  /** Returns a hint about such a route, to append to the operation; an empty string if there is none. */
  hintFor (method: string, path: string): string {
    const url = this.#prefix + path
    if (this.#fastify.hasRoute({ method, url })) return ' (its route is outside the scope in which the plugin is registered)'
    const other = this.#withOtherPrefix(method, path)
    if (other !== undefined) return ` (the route ${method} ${other} has a different prefix)`
    const methods = this.#methodsOf(url)
    return methods.length > 0 ? ` (the path has a route with another method: ${methods.join(', ')})` : ''
  }

  #withOtherPrefix (method: string, path: string): string | undefined {
    const declared = this.#routes.filter((route) => route.method === method).map(({ pattern }) => pattern)
    return declared.find((pattern) => pattern.endsWith(path)) ??
      [path, this.#fastify.prefix + path].find((url) => this.#fastify.hasRoute({ method, url })) ??
      declared.find((pattern) => pattern !== '/' && (this.#prefix + path).endsWith(pattern))
  }

  #methodsOf (url: string): string[] {
    return this.#fastify.supportedMethods.filter((method) => this.#fastify.hasRoute({ method, url }))
  }
}
