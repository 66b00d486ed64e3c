import { ambiguous, normalize, readInFull } from './decoded-path.js'
import type { PathEntry } from './path-entry.js'
import type { RouterOptions } from './router-options.js'

const parameter = /[:*]/
const segment = /\/[^/]+/g

interface RankedValue<Value> {
  readonly rank: number
  readonly value: Value
}

/**
 * Finds the entry whose path a handler or a proxy behind a non-literal route could read from a request. One matching reading is enough, so
 * that no spelling bypasses the quota.
 */
export class DecodedPathMatcher<Value extends object> {
  readonly #byPath = new Map<string, RankedValue<Value>>()
  readonly #mostSegments: number = 0
  readonly #prefix: readonly string[]
  readonly #queryDelimiters: readonly RegExp[]
  readonly #readable: RegExp
  readonly #inCase: (path: string) => string

  constructor (entries: readonly PathEntry<Value>[], prefix: string, { caseSensitive, useSemicolonDelimiter }: RouterOptions) {
    this.#inCase = caseSensitive ? (path) => path : (path) => path.toLowerCase()
    for (const [rank, { path, value }] of entries.entries()) {
      const normalized = this.#normalize(path)
      if (!this.#byPath.has(normalized)) this.#byPath.set(normalized, { rank, value })
      this.#mostSegments = Math.max(this.#mostSegments, segmentsOf(normalized).length)
    }
    // If an operation's path ends with a slash, even a path that all handlers read alike can reach it without the slash.
    this.#readable = entries.every(({ path }) => normalize(path) === path) ? ambiguous : /^/
    this.#prefix = segmentsOf(parameter.test(prefix) ? this.#inCase(prefix) : this.#normalize(prefix))
    // With this option, the router ends the path at a semicolon. A handler or a proxy that reads the target itself does not.
    this.#queryDelimiters = useSemicolonDelimiter ? [/[?#;]/, /[?#]/] : [/[?#]/]
  }

  /**
   * Returns the value of the first entry that matches. The time does not depend on the number of entries.
   *
   * @param target The request target as received.
   */
  find (target: string): Value | null {
    const readings = this.#queryDelimiters.flatMap((delimiter) => readInFull(target, delimiter, this.#readable) ?? [])
    const paths = readings.flatMap(({ paths }) => paths).map(this.#inCase)
    const exact = this.#firstOf(paths.flatMap((path) => this.#withoutPrefix(path) ?? []))
    if (exact !== null || !readings.some(({ climbs }) => climbs)) return exact
    // Behind a proxy that forwards the part after its prefix, `..` can lead out of that prefix.
    return this.#firstOf(paths.flatMap((path) => lastSegments(path, this.#mostSegments)))
  }

  #firstOf (paths: readonly string[]): Value | null {
    let first: RankedValue<Value> | undefined
    for (const path of paths) {
      const entry = this.#byPath.get(path)
      if (entry !== undefined && (first === undefined || entry.rank < first.rank)) first = entry
    }
    return first?.value ?? null
  }

  #withoutPrefix (path: string): string | null {
    let start = 0
    for (const expected of this.#prefix) {
      if (start === path.length) return null
      const slash = path.indexOf('/', start + 1)
      const end = slash === -1 ? path.length : slash
      if (!parameter.test(expected) && path.slice(start, end) !== expected) return null
      start = end
    }
    return path.slice(start)
  }

  #normalize (path: string): string {
    return this.#inCase(normalize(path))
  }
}

function segmentsOf (path: string): readonly string[] {
  return path.match(segment) ?? []
}

/** Returns the last segment of a path, the last two, and so on up to a number of segments. */
function lastSegments (path: string, most: number): string[] {
  const ends: string[] = []
  for (let start = path.length; start > 0 && ends.length < most;) {
    start = path.lastIndexOf('/', start - 1)
    ends.push(path.slice(start))
  }
  return ends
}
