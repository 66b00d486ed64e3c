import type { FastifyRequest } from 'fastify'
import { quotasOf, type QuotaByName } from './mark.js'
import type { Operation } from './operation.js'
import { isLiteral, type Paths } from './paths.js'
import { lastSegment, oddSegments, plainPath } from './request-target.js'

/** A quota that a request is subject to. */
export interface Match<Each> {
  readonly quota: Each
  /** The operation that the request reaches, its path with the prefix. */
  readonly operation: Operation
}

/** An operation that a quota lists. */
interface ListedOperation<Each> extends Match<Each> {
  readonly method: string
  /** The form of its application path. */
  readonly form: string
  /** The last segment of its path; null if it has none. */
  readonly lastSegment: string | null
}

/** Returns the matches of a request among the operations listed for its route and method. */
type ListMatcher<Each> = (request: FastifyRequest) => readonly Match<Each>[]

/** Finds the quotas that a request is subject to (docs/rules.md, "Subject"). */
export class RequestMatcher<Each extends { readonly operations: readonly Operation[] }> {
  readonly #listed: readonly ListedOperation<Each>[]

  /** By `config`, which Fastify creates for each route, and by method. */
  readonly #routes = new Map<object, Map<string, ListMatcher<Each>>>()

  readonly #paths: Paths
  readonly #named: QuotaByName<Each> | undefined

  /** @param named Returns the quota that a mark names. Without it, marks are ignored. */
  constructor (readonly quotas: readonly Each[], paths: Paths, named?: QuotaByName<Each>) {
    this.#paths = paths
    this.#named = named
    this.#listed = quotas.flatMap((quota) =>
      quota.operations.map(({ method, path }) => ({
        quota,
        operation: Object.freeze({ method, path: paths.withPrefix(path) }),
        method,
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
    const matcher = this.#routes.get(config)?.get(method) ?? this.#add(config, method, pattern)
    const listed = matcher(request)
    const { quota: mark } = config
    if (mark === undefined || pattern === undefined || this.#named === undefined) return listed
    const operation = Object.freeze({ method, path: pattern })
    const names: unknown = typeof mark === 'function' ? mark(request) : mark
    const marked = quotasOf(names, `${method} ${pattern}`, this.#named)
    return this.#inOrder(marked, operation, listed)
  }

  #add (config: object, method: string, pattern: string | undefined): ListMatcher<Each> {
    const matcher = this.#matcherOfList(method, pattern)
    const ofRoute = this.#routes.get(config) ?? new Map<string, ListMatcher<Each>>()
    this.#routes.set(config, ofRoute.set(method, matcher))
    return matcher
  }

  #matcherOfList (method: string, pattern: string | undefined): ListMatcher<Each> {
    const operations = this.#listed.filter((listed) => listed.method === method)
    if (operations.length === 0) return matchNothing
    if (pattern === undefined || !isLiteral(pattern)) return this.#matcherOfTarget(operations)
    const path = pattern.replaceAll('::', ':')
    const form = this.#paths.ofRequest(path)
    // The route `/` of a scope with a prefix also serves the path that ends with a slash, and has
    // the same pattern for it. If that path is an operation of its own, only the target of each
    // request tells the two apart.
    const formWithSlash = this.#paths.ofRequest(`${path}/`)
    const isServedWithSlash = operations.some(
      (listed) => listed.form === formWithSlash && listed.form !== form
    )
    if (isServedWithSlash) return this.#matcherOfTarget(operations)
    const served = this.#oneOfEach(operations.filter((listed) => listed.form === form))
    return () => served
  }

  /** Matches the path of each request. */
  #matcherOfTarget (operations: readonly ListedOperation<Each>[]): ListMatcher<Each> {
    return (request) => {
      const { url } = request
      const { headers } = request.raw
      const { host: ownHost = '', ':authority': authority } = headers
      // HTTP/2 can have both. A plain host can contain the separator, and is then still plain.
      const host = authority === undefined ? ownHost : [ownHost, authority].join(';')
      const path = plainPath(url, host, this.#paths.options.ignoreTrailingSlash)
      if (path !== null) {
        const form = this.#paths.ofRequest(path)
        return this.#oneOfEach(operations.filter((listed) => listed.form === form))
      }
      const odd = oddSegments(url, host)
      if (odd === null) return this.#oneOfEach(operations)
      const segments = new Set(odd)
      return this.#oneOfEach(
        operations.filter(
          (listed) => listed.lastSegment === null || segments.has(listed.lastSegment)
        )
      )
    }
  }

  /** Returns one match for each quota. The operations are in the order of the quotas. */
  #oneOfEach (operations: readonly ListedOperation<Each>[]): readonly Match<Each>[] {
    return operations.filter(({ quota }, index) => operations[index - 1]?.quota !== quota)
  }

  /** Returns one match for each quota that a mark names or that lists an operation, in order. */
  #inOrder (
    marked: readonly Each[],
    operation: Operation,
    listed: readonly Match<Each>[]
  ): readonly Match<Each>[] {
    const matches: Match<Each>[] = []
    for (const quota of this.quotas) {
      if (marked.includes(quota)) {
        matches.push({ quota, operation })
      } else {
        const match = listed.find((each) => each.quota === quota)
        if (match !== undefined) matches.push(match)
      }
    }
    return matches
  }
}

function matchNothing (): readonly [] {
  return []
}
