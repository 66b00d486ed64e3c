import type { FastifyContextConfig, FastifyRequest } from 'fastify'
import { quotasOf } from './mark.js'
import type { Operation } from './operation.js'
import { isLiteral, type Paths } from './paths.js'
import { containingLastSegment, fullyDecoded, plainPath } from './spelling.js'

/** A quota as far as it matters here: what it protects, with methods in upper case. */
export interface Protecting {
  readonly operations: readonly Operation[]
}

/** A quota that a request is subject to, and the operation that the request reaches. */
export interface Match<Each> {
  readonly quota: Each
  readonly operation: Operation
}

/** The matches of a route with a method: the same for each of its requests, or found for each request. */
type RouteMatch<Each> = readonly Match<Each>[] | ((request: FastifyRequest) => readonly Match<Each>[])

type NamedQuota<Each> = (name: unknown, where: string) => Each

const none: readonly never[] = Object.freeze([])

/** Finds the quotas that a request is subject to (docs/rules.md, "Subject"). */
export class RequestMatcher<Each extends Protecting> {
  readonly #quotas: readonly Each[]
  readonly #paths: Paths
  readonly #named: NamedQuota<Each> | undefined
  readonly #listed = new Map<string, ListedOperations<Each>>()
  // By `config`, which Fastify creates for each route, and by method.
  readonly #routes = new Map<object, Map<string, RouteMatch<Each>>>()

  /** @param named Returns the quota that a mark names. Without it, marks are ignored. */
  constructor (quotas: readonly Each[], paths: Paths, named?: NamedQuota<Each>) {
    this.#quotas = quotas
    this.#paths = paths
    this.#named = named
    for (const quota of quotas) for (const operation of quota.operations) this.#list(quota, operation)
  }

  /** Returns the matches of a request, in the order of the quotas. Throws if the mark of its route fails. */
  match (request: FastifyRequest): readonly Match<Each>[] {
    // Read once, because Fastify creates this object each time it is read.
    const { config, url: pattern } = request.routeOptions
    return matchesOf(this.#routes.get(config)?.get(request.method) ?? this.#resolve(config, request.method, pattern), request)
  }

  #list (quota: Each, { method, path }: Operation): void {
    const listed = this.#listed.get(method) ?? new ListedOperations<Each>()
    this.#listed.set(method, listed)
    listed.add(this.#paths.ofOperation(path), Object.freeze({ quota, operation: Object.freeze({ method, path }) }))
  }

  #resolve (config: FastifyContextConfig, method: string, pattern: string | undefined): RouteMatch<Each> {
    const route = this.#matchRoute(config.quota, method, pattern)
    const routes = this.#routes.get(config) ?? new Map<string, RouteMatch<Each>>()
    this.#routes.set(config, routes.set(method, route))
    return route
  }

  #matchRoute (mark: unknown, method: string, pattern: string | undefined): RouteMatch<Each> {
    const named = mark === undefined ? undefined : this.#named
    const marked = named === undefined || pattern === undefined ? none : this.#matchMark(named, mark, method, pattern)
    const listed = this.#matchListed(this.#listed.get(method), pattern)
    if (typeof marked !== 'function' && typeof listed !== 'function') return this.#inOrder(marked, listed)
    return (request) => this.#inOrder(matchesOf(marked, request), matchesOf(listed, request))
  }

  #matchListed (operations: ListedOperations<Each> | undefined, pattern: string | undefined): RouteMatch<Each> {
    if (operations === undefined) return none
    if (pattern !== undefined && isLiteral(pattern)) {
      const matches = operations.at(this.#paths.ofPattern(pattern))
      // The route `/` of a scope with a prefix also serves the path that ends with a slash.
      const ending = operations.at(this.#paths.ofPattern(`${pattern}/`))
      if (ending === none || ending === matches) return matches
    }
    return (request) => this.#matchPath(operations, request)
  }

  #matchMark (named: NamedQuota<Each>, mark: unknown, method: string, pattern: string): RouteMatch<Each> {
    const operation = Object.freeze({ method, path: this.#paths.withoutPrefix(pattern) })
    const matchNames = (mark: unknown) => quotasOf(mark, `${method} ${pattern}`, named).map((quota) => ({ quota, operation }))
    return typeof mark === 'function' ? (request) => matchNames(mark(request)) : matchNames(mark)
  }

  #matchPath (operations: ListedOperations<Each>, { url, raw }: FastifyRequest): readonly Match<Each>[] {
    // HTTP/2 has the one instead of the other.
    const host = [raw.headers.host, raw.headers[':authority']].join('')
    const path = plainPath(url, host, this.#paths.options.ignoreTrailingSlash)
    return path === null ? operations.possiblyAt(fullyDecoded(url, host)) : operations.at(this.#paths.ofRequest(path))
  }

  /** Returns one match for each quota, in the order of the quotas. */
  #inOrder (marked: readonly Match<Each>[], listed: readonly Match<Each>[]): readonly Match<Each>[] {
    if (marked.length === 0 && listed.length < 2) return listed
    const all = [...marked, ...listed]
    return this.#quotas.flatMap((quota) => all.find((match) => match.quota === quota) ?? [])
  }
}

function matchesOf<Each> (route: RouteMatch<Each>, request: FastifyRequest): readonly Match<Each>[] {
  return typeof route === 'function' ? route(request) : route
}

/** The operations that quotas list for one method. */
class ListedOperations<Each> {
  readonly #byPath = new Map<string, readonly Match<Each>[]>()
  readonly #byText: (readonly [expression: RegExp, match: Match<Each>])[] = []

  /** @param path The form of the operation's path. */
  add (path: string, match: Match<Each>): void {
    this.#byPath.set(path, [...this.at(path), match])
    this.#byText.push([containingLastSegment(match.operation.path), match])
  }

  at (path: string | null): readonly Match<Each>[] {
    return path === null ? none : this.#byPath.get(path) ?? none
  }

  /** Returns the matches of a request that is not plain, from its fully decoded text. */
  possiblyAt (text: string): readonly Match<Each>[] {
    return this.#byText.filter(([expression]) => expression.test(text)).map(([, match]) => match)
  }
}
