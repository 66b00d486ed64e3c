import type { FastifyRequest } from 'fastify'
import { quotasOf, type Named } from './mark.js'
import type { Operation } from './operation.js'
import { isLiteral, type Paths } from './paths.js'
import { lastSegment, oddSegments, plainPath } from './request-target.js'

/** A quota that a request is subject to, and the operation that the request reaches. */
export interface Match<Each> {
  readonly quota: Each
  readonly operation: Operation
}

/** An operation that a quota lists. */
interface ListedOperation<Each> extends Match<Each> {
  /** The form of its path. */
  readonly form: string
  /** The last segment of its path; null if it has none. */
  readonly lastSegment: string | null
}

/** Returns the matches of a request for a certain route and with a certain method. */
type RouteMatcher<Each> = (request: FastifyRequest) => readonly Match<Each>[]

/** Finds the quotas that a request is subject to (docs/rules.md, "Subject"). */
export class RequestMatcher<Each extends { readonly operations: readonly Operation[] }> {
  readonly #listed: readonly ListedOperation<Each>[]

  /** By `config`, which Fastify creates for each route, and by method. */
  readonly #routes = new Map<object, Map<string, RouteMatcher<Each>>>()

  /** @param named Returns the quota that a mark names. Without it, marks are ignored. */
  constructor (
    readonly quotas: readonly Each[],
    readonly paths: Paths,
    readonly named?: Named<Each>
  ) {
    this.#listed = quotas.flatMap((quota) =>
      quota.operations.map(({ method, path }) => ({
        quota,
        operation: Object.freeze({ method, path }),
        form: paths.formOf(path),
        lastSegment: lastSegment(path)
      }))
    )
  }

  /**
   * Returns the matches of a request, in the order of the quotas. Throws if the mark of its route
   * fails.
   */
  match (request: FastifyRequest): readonly Match<Each>[] {
    const { method } = request
    // Read once, because Fastify creates this object each time it is read.
    const { config, url: pattern } = request.routeOptions
    const known = this.#routes.get(config)?.get(method)
    if (known !== undefined) return known(request)
    const matcher = this.#matcherOf(config.quota, method, pattern)
    const ofRoute = this.#routes.get(config) ?? new Map<string, RouteMatcher<Each>>()
    this.#routes.set(config, ofRoute.set(method, matcher))
    return matcher(request)
  }

  #matcherOf (mark: unknown, method: string, pattern: string | undefined): RouteMatcher<Each> {
    const marked = this.#matcherOfMark(mark, method, pattern)
    const listed = this.#matcherOfList(method, pattern)
    return (request) => this.#inOrder(marked(request), listed(request))
  }

  #matcherOfMark (mark: unknown, method: string, pattern: string | undefined): RouteMatcher<Each> {
    const { named } = this
    if (mark === undefined || pattern === undefined || named === undefined) return matchNothing
    const route = `${method} ${pattern}`
    const operation = Object.freeze({ method, path: this.paths.withoutPrefix(pattern) })
    const matchesOf = (names: unknown): Match<Each>[] =>
      quotasOf(names, route, named).map((quota) => ({ quota, operation }))
    if (typeof mark === 'function') return (request) => matchesOf(mark(request))
    const matches = matchesOf(mark)
    return () => matches
  }

  #matcherOfList (method: string, pattern: string | undefined): RouteMatcher<Each> {
    const operations = this.#listed.filter(({ operation }) => operation.method === method)
    if (operations.length === 0) return matchNothing
    if (pattern === undefined || !isLiteral(pattern)) return this.#matcherOfTarget(operations)
    const path = pattern.replaceAll('::', ':')
    const form = this.paths.ofRequest(path)
    // The route `/` of a scope with a prefix also serves the path that ends with a slash.
    const formWithSlash = this.paths.ofRequest(`${path}/`)
    const served = operations.filter((listed) => listed.form === form)
    const isServedWithSlash = operations.some(
      (listed) => listed.form === formWithSlash && listed.form !== form
    )
    return isServedWithSlash ? this.#matcherOfTarget(operations) : () => served
  }

  /** Matches the path of each request. */
  #matcherOfTarget (operations: readonly ListedOperation<Each>[]): RouteMatcher<Each> {
    return (request) => {
      const { url } = request
      const { headers } = request.raw
      // HTTP/2 has the one instead of the other.
      const host = `${headers.host ?? ''}${headers[':authority'] ?? ''}`
      const path = plainPath(url, host, this.paths.options.ignoreTrailingSlash)
      if (path !== null) {
        const form = this.paths.ofRequest(path)
        return operations.filter((listed) => listed.form === form)
      }
      const odd = oddSegments(url, host)
      if (odd === null) return operations
      const segments = new Set(odd)
      return operations.filter(
        (listed) => listed.lastSegment === null || segments.has(listed.lastSegment)
      )
    }
  }

  /** Returns one match for each quota, in the order of the quotas. */
  #inOrder (
    marked: readonly Match<Each>[],
    listed: readonly Match<Each>[]
  ): readonly Match<Each>[] {
    if (marked.length === 0 && listed.length < 2) return listed
    const matches: Match<Each>[] = []
    for (const quota of this.quotas) {
      const isOfQuota = (match: Match<Each>): boolean => match.quota === quota
      const match = marked.find(isOfQuota) ?? listed.find(isOfQuota)
      if (match !== undefined) matches.push(match)
    }
    return matches
  }
}

function matchNothing (): readonly [] {
  return []
}
