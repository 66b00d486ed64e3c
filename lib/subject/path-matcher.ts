import createRouter from 'find-my-way'
import { OptionError, shown } from './errors.js'
import type { Operation } from './operation.js'
import type { RouterOptions } from './router-options.js'

// A route whose pattern holds nothing else is reached by that one path, however the request spelled it.
const staticPattern = /^[\w\-.~/]*$/

/** What a matched route's pattern says about its requests: the operation, none, or that each one's path must be read. */
type Verdict = Operation | null | typeof readPath
const readPath = Symbol('read the path')

/**
 * Finds the operation, among those of one method, that a request reaches. Paths are read by the router that Fastify is
 * built on, with the host's options, so that every spelling the host's router accepts is read alike here.
 */
export class PathMatcher {
  readonly #router
  readonly #patterns = new Map<string, Operation>()
  readonly #plainPaths = new Map<string, Operation>()
  readonly #verdicts = new Map<string, Verdict>()

  constructor (operations: readonly Operation[], prefix: string, options: RouterOptions) {
    this.#router = createRouter({ ...options, querystringParser: empty })
    for (const operation of operations) {
      const path = prefix + operation.path
      this.#route(path, operation)
      this.#patterns.set(path, operation)
      if (staticPattern.test(path)) this.#plainPaths.set(path, operation)
    }
  }

  /**
   * @param pattern The pattern of the route that Fastify matched; undefined where it matched none.
   * @param target The request target as it came (RFC 9112, section 3.2).
   */
  match (pattern: string | undefined, target: string): Operation | null {
    if (pattern === undefined) return this.#operationAt(target)
    let verdict = this.#verdicts.get(pattern)
    if (verdict === undefined) {
      verdict = this.#judge(pattern)
      this.#verdicts.set(pattern, verdict)
    }
    return verdict === readPath ? this.#operationAt(target) : verdict
  }

  #judge (pattern: string): Verdict {
    const operation = this.#patterns.get(pattern)
    if (operation !== undefined) return operation
    if (!staticPattern.test(pattern)) return readPath
    // Fastify gives the route at a prefix and the one at the prefix with a slash the same pattern.
    if (this.#operationAt(`${pattern}/`) !== null) return readPath
    return this.#operationAt(pattern)
  }

  #operationAt (target: string): Operation | null {
    return this.#plainPaths.get(target) ?? this.#router.find('GET', target)?.store ?? null
  }

  #route (path: string, operation: Operation): void {
    try {
      this.#router.on('GET', path, empty, operation)
    } catch (error) {
      throw new OptionError('operations', `must each have a path of its own that the router can read (${String(error)})`, shown(path))
    }
  }
}

// Neither the query nor a handler is of interest here.
function empty (): object {
  return {}
}
