import type { FastifyRequest } from 'fastify'
import { quotasOf, type Named } from './mark.js'
import type { Operation } from './operation.js'
import { isLiteral, type Paths } from './paths.js'
import { containingLastSegment, fullyDecoded, plainPath } from './spelling.js'

/** A quota that a request is subject to, and the operation that the request reaches. */
export interface Match<Each> {
  readonly quota: Each
  readonly operation: Operation
}

/**
 * A listed operation: the form of its path, and an expression for the fully decoded texts in which
 * anyone could read it.
 */
interface Listed<Each> extends Match<Each> {
  readonly form: string
  readonly expression: RegExp
}

/** Returns the matches of a request for a certain route and with a certain method. */
type RouteMatcher<Each> = (request: FastifyRequest) => readonly Match<Each>[]

/** Finds the quotas that a request is subject to (docs/rules.md, "Subject"). */
export class RequestMatcher<Each extends { readonly operations: readonly Operation[] }> {
  readonly #listed: readonly Listed<Each>[]
  // By `config`, which Fastify creates for each route, and by method.
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
        expression: containingLastSegment(path)
      }))
    )
  }

  /**
   * Returns the matches of a request, in the order of the quotas. Throws if the mark of its route
   * fails.
   */
  match (request: FastifyRequest): readonly Match<Each>[] {
    // Read once, because Fastify creates this object each time it is read.
    const {
      method,
      routeOptions: { config, url: pattern }
    } = request
    const known = this.#routes.get(config)?.get(method)
    if (known !== undefined) return known(request)
    const [marked, listed] = [
      this.#matchMark(config.quota, method, pattern),
      this.#matchPattern(method, pattern)
    ]
    const matcher: RouteMatcher<Each> = (request) => this.#inOrder(marked(request), listed(request))
    this.#routes.set(
      config,
      (this.#routes.get(config) ?? new Map<string, RouteMatcher<Each>>()).set(method, matcher)
    )
    return matcher(request)
  }

  #matchMark (mark: unknown, method: string, pattern: string | undefined): RouteMatcher<Each> {
    const { named } = this
    if (mark === undefined || pattern === undefined || named === undefined) return () => []
    const operation = Object.freeze({ method, path: this.paths.withoutPrefix(pattern) })
    const matchNames = (mark: unknown) =>
      quotasOf(mark, `${method} ${pattern}`, named).map((quota) => ({ quota, operation }))
    if (typeof mark === 'function') return (request) => matchNames(mark(request))
    const matches = matchNames(mark)
    return () => matches
  }

  #matchPattern (method: string, pattern: string | undefined): RouteMatcher<Each> {
    const operations = this.#listed.filter(({ operation }) => operation.method === method)
    if (operations.length === 0) return () => []
    if (pattern !== undefined && isLiteral(pattern)) {
      // The route `/` of a scope with a prefix also serves the path that ends with a slash.
      const [form, ending] = [pattern, `${pattern}/`].map((each) =>
        this.paths.ofRequest(each.replaceAll('::', ':'))
      )
      const served = operations.filter((listed) => listed.form === form || listed.form === ending)
      if (served.every((listed) => listed.form === form)) return () => served
    }
    return ({ url, raw: { headers } }) => {
      // HTTP/2 has the one instead of the other.
      const host = [headers.host, headers[':authority']].join('')
      const path = plainPath(url, host, this.paths.options.ignoreTrailingSlash)
      const form = path === null ? null : this.paths.ofRequest(path)
      if (path !== null) return operations.filter((listed) => listed.form === form)
      const text = fullyDecoded(url, host)
      return operations.filter(({ expression }) => expression.test(text))
    }
  }

  /** Returns one match for each quota, in the order of the quotas. */
  #inOrder (marked: readonly Match<Each>[], listed: readonly Match<Each>[]): readonly Match<Each>[] {
    if (marked.length === 0 && listed.length < 2) return listed
    return this.quotas.flatMap(
      (quota) => [...marked, ...listed].find((match) => match.quota === quota) ?? []
    )
  }
}
