import { PathMatcher } from './path-matcher.js'
import type { Operation } from './operation.js'
import type { RouterOptions } from './router-options.js'

/** Tells which protected operation a request reaches, by method and application path (specification, sections 1 and 4). */
export class OperationMatcher {
  readonly #byMethod = new Map<string, PathMatcher>()

  constructor (operations: readonly Operation[], prefix: string, options: RouterOptions) {
    for (const [method, sharing] of groupByMethod(operations)) {
      this.#byMethod.set(method, new PathMatcher(sharing, prefix, options))
    }
  }

  /**
   * @param method The request's method, which tells upper case from lower (RFC 9110, section 9.1).
   * @param pattern The pattern of the route that Fastify matched; undefined where it matched none.
   * @param target The request target as it came.
   */
  match (method: string, pattern: string | undefined, target: string): Operation | null {
    return this.#byMethod.get(method)?.match(pattern, target) ?? null
  }
}

function groupByMethod (operations: readonly Operation[]): Map<string, Operation[]> {
  const groups = new Map<string, Operation[]>()
  for (const { method, path } of operations) {
    const name = method.toUpperCase()
    const group = groups.get(name) ?? []
    group.push(Object.freeze({ method: name, path }))
    groups.set(name, group)
  }
  return groups
}
