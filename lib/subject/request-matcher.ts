import type { FastifyRequest } from 'fastify'
import type { MarkedRoutes } from './marked-routes.js'
import type { OperationMatch, OperationMatcher } from './operation-matcher.js'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The quota of the route: `true` for the default quota, or the name of another quota. */
    quota?: true | string
  }
}

/** Finds the protected operation that a request reaches, and the quota that protects it. */
export class RequestMatcher {
  readonly #operations: OperationMatcher
  readonly #marked: MarkedRoutes

  constructor (operations: OperationMatcher, marked: MarkedRoutes) {
    this.#operations = operations
    this.#marked = marked
  }

  /**
   * @returns The match; null if the request is not subject to any quota.
   * @throws {UnknownQuotaError} If the route is marked with a quota that does not exist.
   */
  match (request: FastifyRequest): OperationMatch | null {
    // Read once, because Fastify creates this object each time it is read.
    const { url: pattern, config, method: declared } = request.routeOptions
    const { method } = request
    const mark = config.quota
    if (mark !== undefined && pattern !== undefined) return this.#marked.match(mark, declaredMethod(declared, method), pattern)
    const match = this.#operations.match(method, pattern, request.url)
    if (match !== null || declared === method) return match
    return this.#matchDeclared(declared, method, pattern, request.url)
  }

  // A hook of the host can change the method after routing. The operation of the route's own method is then protected as well.
  #matchDeclared (declared: string | readonly string[], method: string, pattern: string | undefined, target: string): OperationMatch | null {
    const methods = [declared].flat()
    if (methods.includes(method)) return null
    for (const each of methods) {
      const match = this.#operations.match(each, pattern, target)
      if (match !== null) return match
    }
    return null
  }
}

/** Returns the method of a route that a request has; if a hook of the host has changed it to another one, the route's first. */
function declaredMethod (declared: string | readonly string[], method: string): string {
  if (declared === method) return method
  const methods = [declared].flat()
  const [first = method] = methods
  return methods.includes(method) ? method : first
}
