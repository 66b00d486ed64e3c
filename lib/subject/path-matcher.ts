import createRouter from 'find-my-way'
import { DecodedPathMatcher } from './decoded-path-matcher.js'
import type { PathEntry } from './path-entry.js'
import type { RouterOptions } from './router-options.js'

// A route whose pattern contains no other characters matches only this one path, however a request spells it.
const staticPattern = /^[\w\-.~/]*$/
// In a pattern, two colons stand for a literal colon.
const literalPattern = /^(?:[^:*]|::)*$/

const readPath = Symbol('compare the path as the router reads it')
const readInFull = Symbol('compare the path as the router, a handler or a proxy can read it')

/**
 * What the pattern of a route determines for its requests: the entry that they reach, that they reach none, or how to read their
 * paths.
 */
type Verdict<Value> = Value | null | typeof readPath | typeof readInFull

/**
 * Finds the entry whose path a request reaches, among the entries of one method. Paths are matched with the router that Fastify
 * uses and with the host's router options, so every spelling that the host's router accepts is also accepted here.
 */
export class PathMatcher<Value extends object> {
  readonly #router
  readonly #patterns = new Map<string, Value>()
  readonly #plainPaths = new Map<string, Value>()
  readonly #verdicts = new Map<string, Verdict<Value>>()
  readonly #decoded: DecodedPathMatcher<Value>

  /** @param entries Entries whose paths the router accepts and distinguishes. */
  constructor (entries: readonly PathEntry<Value>[], prefix: string, options: RouterOptions) {
    this.#decoded = new DecodedPathMatcher(entries, prefix, options)
    // A parameter in the prefix can be longer than the host's router allows in its own parameters, for example behind a wildcard.
    this.#router = createRouter({ ...options, maxParamLength: Infinity, querystringParser: empty })
    for (const { path: applicationPath, value } of entries) {
      const path = prefix + applicationPath
      this.#router.on('GET', path, empty, value)
      this.#patterns.set(path, value)
      if (staticPattern.test(path)) this.#plainPaths.set(path, value)
    }
  }

  /**
   * Returns the entry that a request reaches, even if the pattern is not the one that the host's router uses.
   *
   * @param pattern The pattern of the route that Fastify matched; undefined if no route matched.
   * @param target The request target as received (RFC 9112, section 3.2).
   */
  match (pattern: string | undefined, target: string): Value | null {
    if (pattern === undefined) return this.#valueInFullAt(target)
    const verdict = this.#verdictOn(pattern)
    if (verdict === readInFull) return this.#valueInFullAt(target)
    return verdict === readPath || verdict === null ? this.#valueAt(target) : verdict
  }

  /** Returns the entry that all requests to a route with this pattern reach; null if there is none or if it depends on the request. */
  matchPattern (pattern: string): Value | null {
    const verdict = this.#verdictOn(pattern)
    if (verdict === readInFull) return null
    return verdict === readPath ? this.#valueAt(pattern) ?? this.#valueAt(`${pattern}/`) : verdict
  }

  /** Whether all requests that the host's router matches with this pattern have the same match. */
  isDecidedByPattern (pattern: string): boolean {
    return typeof this.#verdictOn(pattern) === 'object'
  }

  #verdictOn (pattern: string): Verdict<Value> {
    const known = this.#verdicts.get(pattern)
    if (known !== undefined) return known
    const verdict = this.#judge(pattern)
    this.#verdicts.set(pattern, verdict)
    return verdict
  }

  #judge (pattern: string): Verdict<Value> {
    const value = this.#patterns.get(pattern)
    if (value !== undefined) return value
    if (!literalPattern.test(pattern)) return readInFull
    if (!staticPattern.test(pattern)) return readPath
    // Fastify reports the same pattern for the route at a prefix and for the one at the prefix with a trailing slash.
    if (this.#valueAt(`${pattern}/`) !== null) return readPath
    return this.#valueAt(pattern)
  }

  #valueAt (target: string): Value | null {
    return this.#plainPaths.get(target) ?? this.#router.find('GET', target)?.store ?? null
  }

  #valueInFullAt (target: string): Value | null {
    return this.#valueAt(target) ?? this.#decoded.find(target)
  }
}

// Serves as the handler and as the parser of query strings, neither of which is needed here.
function empty (): object {
  return {}
}
