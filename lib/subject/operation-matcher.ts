import type { PathEntry } from './path-entry.js'
import { PathMatcher } from './path-matcher.js'
import type { Operation } from './operation.js'
import type { RouterOptions } from './router-options.js'

/** A protected operation, and the quota that protects it. */
export interface OperationMatch {
  /** The name of the quota that the request is subject to. */
  readonly quota: string
  /** The operation that the request reaches. */
  readonly operation: Operation
}

/** The operations that one quota protects. */
export interface QuotaOperations {
  readonly name: string
  readonly operations: readonly Operation[]
}

/** Finds the protected operation that a request reaches, by method and application path. */
export class OperationMatcher {
  readonly #byMethod = new Map<string, PathMatcher<OperationMatch>>()
  readonly #matches: readonly OperationMatch[]

  /** @param quotas Quotas whose operations the router accepts and distinguishes. */
  constructor (quotas: readonly QuotaOperations[], prefix: string, options: RouterOptions) {
    const entries = quotas.flatMap(entriesOf)
    this.#matches = entries.map(({ value }) => value)
    for (const method of new Set(this.#matches.map(({ operation }) => operation.method))) {
      const sharing = entries.filter(({ value }) => value.operation.method === method)
      this.#byMethod.set(method, new PathMatcher(sharing, prefix, options))
    }
  }

  /** Returns all operations with their quotas, in the order of the options. */
  all (): readonly OperationMatch[] {
    return this.#matches
  }

  /** Returns the match of all requests to a route with this pattern; null if there is none or if it depends on the request. */
  matchPattern (method: string, pattern: string): OperationMatch | null {
    return this.#byMethod.get(method)?.matchPattern(pattern) ?? null
  }

  /** Whether all requests to a route with this pattern have the same match. */
  isDecidedByPattern (method: string, pattern: string): boolean {
    return this.#byMethod.get(method)?.isDecidedByPattern(pattern) ?? true
  }

  /**
   * @param method The request's method, which is case-sensitive (RFC 9110, section 9.1).
   * @param pattern The pattern of the route that Fastify matched; undefined if no route matched.
   * @param target The request target as received.
   */
  match (method: string, pattern: string | undefined, target: string): OperationMatch | null {
    return this.#byMethod.get(method)?.match(pattern, target) ?? null
  }
}

function entriesOf ({ name, operations }: QuotaOperations): PathEntry<OperationMatch>[] {
  return operations.map(({ method, path }) => {
    const operation = Object.freeze({ method: method.toUpperCase(), path })
    return { path, value: Object.freeze({ quota: name, operation }) }
  })
}
