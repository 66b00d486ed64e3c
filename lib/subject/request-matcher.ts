import type { FastifyContextConfig, FastifyRequest } from 'fastify'
import type { MarkedRoutes } from './marked-routes.js'
import type { Operation } from './operation.js'
import type { OperationMatch, OperationMatcher } from './operation-matcher.js'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The quota of the route: `true` for the default quota, or the name of another quota. */
    quota?: true | string
  }
}

/** The operation that a request reaches, and the quota that it is subject to. */
export interface RequestMatch<Quota> {
  readonly quota: Quota
  readonly operation: Operation
}

/** A route as a request reaches it. */
interface ReachedRoute<Quota> {
  readonly method: string
  /** The pattern; undefined if no route matched. */
  readonly pattern: string | undefined
  /** The value of `config.quota`. */
  readonly mark: unknown
  /** The match of all requests to the route with this method, pattern and mark; undefined if it depends on the path. */
  readonly match: RequestMatch<Quota> | null | undefined
}

/** The methods of a route, as it declares them. */
export type Methods = string | readonly string[]

/** Finds the protected operation that a request reaches, and the quota that protects it. */
export class RequestMatcher<Quota> {
  readonly #operations: OperationMatcher
  readonly #marked: MarkedRoutes
  readonly #quotas: ReadonlyMap<string, Quota>
  // By `config`, which Fastify creates for each route. A `WeakMap` costs more, and so does a look-up of each method and pattern.
  readonly #routes = new Map<object, ReachedRoute<Quota>>()

  /** @param quotas The quotas by name. */
  constructor (operations: OperationMatcher, marked: MarkedRoutes, quotas: ReadonlyMap<string, Quota>) {
    this.#operations = operations
    this.#marked = marked
    this.#quotas = quotas
  }

  /**
   * Returns the match of a request to a route that an earlier request has reached.
   *
   * @param config The configuration of the route.
   * @param pattern The pattern of the route; undefined if no route matched.
   * @returns The match; null if the request is not subject to any quota; undefined if only `match` can find it.
   */
  known ({ method }: FastifyRequest, config: FastifyContextConfig, pattern: string | undefined): RequestMatch<Quota> | null | undefined {
    const route = this.#routes.get(config)
    // A hook of the host can change the method after routing, and the pattern and the mark in the configuration.
    return route !== undefined && route.method === method && route.pattern === pattern && route.mark === config.quota ? route.match : undefined
  }

  /**
   * Finds the match of a request.
   *
   * @param config The configuration of the route.
   * @param pattern The pattern of the route; undefined if no route matched.
   * @param declared The methods of the route.
   * @returns The match; null if the request is not subject to any quota.
   * @throws {UnknownQuotaError} If the route is marked with a quota that does not exist.
   */
  match (request: FastifyRequest, config: FastifyContextConfig, pattern: string | undefined, declared: Methods): RequestMatch<Quota> | null {
    const { method } = request
    const { quota: mark } = config
    let route = this.#routes.get(config)
    if (route === undefined || route.method !== method || route.pattern !== pattern || route.mark !== mark) {
      route = { method, pattern, mark, match: this.#matchRoute(declared, pattern, mark, request) }
      this.#routes.set(config, route)
    }
    return route.match === undefined ? this.#matchTarget(declared, method, pattern, request.url) : route.match
  }

  #matchRoute (declared: Methods, pattern: string | undefined, mark: unknown, { method, url }: FastifyRequest): RequestMatch<Quota> | null | undefined {
    if (pattern === undefined) return undefined
    if (mark !== undefined) return this.#withQuota(this.#marked.match(mark, declaredMethod(declared, method), pattern))
    if (!methodsOf(declared, method).every((each) => this.#operations.isDecidedByPattern(each, pattern))) return undefined
    const match = this.#matchTarget(declared, method, pattern, pattern)
    // If an `onRoute` hook of the host changes the URL of a route, Fastify still reports the pattern from before.
    const isPatternOfRouter = match?.operation === this.#matchTarget(declared, method, pattern, url)?.operation
    return isPatternOfRouter ? match : undefined
  }

  #matchTarget (declared: Methods, method: string, pattern: string | undefined, target: string): RequestMatch<Quota> | null {
    let match: OperationMatch | null = null
    for (const each of methodsOf(declared, method)) match ??= this.#operations.match(each, pattern, target)
    return this.#withQuota(match)
  }

  #withQuota (match: OperationMatch | null): RequestMatch<Quota> | null {
    const quota = match === null ? undefined : this.#quotas.get(match.quota)
    return match === null || quota === undefined ? null : { quota, operation: match.operation }
  }
}

/**
 * Returns the methods whose operations a request can reach: its own, and if a hook of the host has changed it to one that the route does
 * not have, also the route's.
 */
function methodsOf (declared: Methods, method: string): readonly string[] {
  const all = [declared].flat()
  return all.includes(method) ? [method] : [method.toUpperCase(), ...all]
}

/** Returns the method of a route that a request has; if a hook of the host has changed it to another one, the route's first. */
function declaredMethod (declared: Methods, method: string): string {
  return methodsOf(declared, method)[1] ?? method
}
