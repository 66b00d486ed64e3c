import type { FastifyContextConfig, FastifyRequest } from 'fastify'
import { quotasOf } from './mark.js'
import type { Operation } from './operation.js'
import { isLiteral, type Paths } from './paths.js'
import { containingLastSegment, fullyDecoded, plainPath } from './spelling.js'

/** A quota that a request is subject to, and the operation that the request reaches. */
export interface Match<Each> {
  readonly quota: Each
  readonly operation: Operation
}

/** A listed operation: the form of its path, and an expression for the fully decoded texts in which anyone could read it. */
interface Listed<Each> extends Match<Each> {
  readonly form: string
  readonly expression: RegExp
}

/** The matches of a route with a method: the same for each of its requests, or found for each request. */
type RouteMatch<Each> = readonly Match<Each>[] | ((request: FastifyRequest) => readonly Match<Each>[])

/** Finds the quotas that a request is subject to (docs/rules.md, "Subject"). */
export class RequestMatcher<Each extends { readonly operations: readonly Operation[] }> {
  readonly #quotas: readonly Each[]
  readonly #paths: Paths
  readonly #named: ((name: unknown, where: string) => Each) | undefined
  readonly #listed: readonly Listed<Each>[]
  // By `config`, which Fastify creates for each route, and by method.
  readonly #routes = new Map<object, Map<string, RouteMatch<Each>>>()

  /** @param named Returns the quota that a mark names. Without it, marks are ignored. */
  constructor (quotas: readonly Each[], paths: Paths, named?: (name: unknown, where: string) => Each) {
    this.#quotas = quotas
    this.#paths = paths
    this.#named = named
    this.#listed = quotas.flatMap((quota) => quota.operations.map((operation) => {
      return { quota, operation: Object.freeze({ ...operation }), form: paths.formOf(operation.path), expression: containingLastSegment(operation.path) }
    }))
  }

  /** Returns the matches of a request, in the order of the quotas. Throws if the mark of its route fails. */
  match (request: FastifyRequest): readonly Match<Each>[] {
    // Read once, because Fastify creates this object each time it is read.
    const { config, url: pattern } = request.routeOptions
    return matchesOf(this.#routes.get(config)?.get(request.method) ?? this.#resolve(config, request.method, pattern), request)
  }

  #resolve (config: FastifyContextConfig, method: string, pattern: string | undefined): RouteMatch<Each> {
    const marked = this.#matchMark(config.quota, method, pattern)
    const listed = this.#matchPattern(method, pattern)
    const route = typeof marked !== 'function' && typeof listed !== 'function'
      ? this.#inOrder(marked, listed)
      : (request: FastifyRequest) => this.#inOrder(matchesOf(marked, request), matchesOf(listed, request))
    this.#routes.set(config, (this.#routes.get(config) ?? new Map<string, RouteMatch<Each>>()).set(method, route))
    return route
  }

  #matchMark (mark: unknown, method: string, pattern: string | undefined): RouteMatch<Each> {
    const named = this.#named
    if (mark === undefined || pattern === undefined || named === undefined) return []
    const operation = Object.freeze({ method, path: this.#paths.withoutPrefix(pattern) })
    const matchNames = (mark: unknown) => quotasOf(mark, `${method} ${pattern}`, named).map((quota) => ({ quota, operation }))
    return typeof mark === 'function' ? (request) => matchNames(mark(request)) : matchNames(mark)
  }

  #matchPattern (method: string, pattern: string | undefined): RouteMatch<Each> {
    const operations = this.#listed.filter(({ operation }) => operation.method === method)
    if (operations.length === 0) return operations
    if (pattern !== undefined && isLiteral(pattern)) {
      // The route `/` of a scope with a prefix also serves the path that ends with a slash.
      const [form, ending] = [this.#paths.ofPattern(pattern), this.#paths.ofPattern(`${pattern}/`)]
      const served = operations.filter((listed) => listed.form === form || listed.form === ending)
      if (served.every((listed) => listed.form === form)) return served
    }
    return (request) => this.#matchPath(operations, request)
  }

  #matchPath (operations: readonly Listed<Each>[], { url, raw }: FastifyRequest): readonly Match<Each>[] {
    // HTTP/2 has the one instead of the other.
    const host = [raw.headers.host, raw.headers[':authority']].join('')
    const path = plainPath(url, host, this.#paths.options.ignoreTrailingSlash)
    if (path === null) {
      const text = fullyDecoded(url, host)
      return operations.filter(({ expression }) => expression.test(text))
    }
    const form = this.#paths.ofRequest(path)
    return operations.filter((listed) => listed.form === form)
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
