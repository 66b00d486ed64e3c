import { isLiteral, withoutExpressions, type Paths } from '../subject/paths.js'

// How specific a segment of a pattern is. Of the patterns that match a path, a router prefers the
// one with the most specific first segment in which they differ.
const literal = 0
// A parameter with a regular expression, or beside other text.
const restricted = 1
const parameter = 2
const wildcard = 3

interface Segment {
  readonly specificity: number
  /** Undefined for a wildcard, which matches the rest of a path. */
  readonly expression: RegExp | undefined
}

// Of a segment: a literal colon, a parameter, and other text. Regular expressions are empty here.
const parts = /::|:[^-./(:?]+(?:\(\))?\??|:|[^:]+/g

/** The pattern of a route, as far as it is needed to tell which route serves a path. */
export class RoutePattern {
  readonly #paths: Paths
  readonly #segments: readonly Segment[]
  readonly #isLastOptional: boolean

  /** @param pattern The host's router has already accepted it. */
  constructor (pattern: string, paths: Paths) {
    this.#paths = paths
    const text = paths.formOf(withoutExpressions(pattern))
    this.#segments = text.split('/').map(segmentOf)
    this.#isLastOptional = !isLiteral(pattern) && text.endsWith('?')
  }

  /**
   * Whether the pattern matches a path. A parameter with a regular expression may match anything.
   */
  matches (path: string): boolean {
    const segments = this.#paths.formOf(path).split('/')
    for (const [index, { expression }] of this.#segments.entries()) {
      const segment = segments[index]
      if (segment !== undefined && expression === undefined) return true
      const isLast = index === this.#segments.length - 1
      if (segment === undefined) return isLast && this.#isLastOptional
      if (expression?.test(segment) !== true) return false
    }
    return segments.length === this.#segments.length
  }

  /** Whether a router prefers this pattern to another one, where both match a path. */
  isPreferredTo (other: RoutePattern): boolean {
    for (const [index, { specificity }] of this.#segments.entries()) {
      const ofOther = other.#segments[index]?.specificity
      if (ofOther === undefined || ofOther === specificity) continue
      return specificity < ofOther
    }
    return false
  }
}

function segmentOf (text: string): Segment {
  if (text.endsWith('*')) return { specificity: wildcard, expression: undefined }
  const found = text.match(parts) ?? []
  const expression = new RegExp(`^${found.map(expressionOf).join('')}$`, 's')
  return { specificity: specificityOf(text, found), expression }
}

function specificityOf (text: string, found: readonly string[]): number {
  if (!found.some(isParameter)) return literal
  const isAlone = found.length === 1 && !text.includes('()')
  return isAlone ? parameter : restricted
}

function expressionOf (part: string): string {
  if (isParameter(part)) return '.+'
  // Two colons stand for a literal one.
  const text = part === '::' ? ':' : part
  return text.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&')
}

function isParameter (part: string): boolean {
  return /^:[^:]/.test(part)
}
