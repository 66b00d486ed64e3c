import type { FastifyInstance } from 'fastify'
import { OptionError } from '../errors.js'

/** The options of a router that affect how it compares paths. */
interface RouterOptions {
  readonly caseSensitive: boolean
  readonly ignoreTrailingSlash: boolean
  readonly ignoreDuplicateSlashes: boolean
}

/**
 * Reads the options of the host's router. Fastify fills in its defaults both in `routerOptions` and
 * at the deprecated top level. If the two differ, the host has set the value that is not the
 * default.
 */
function readRouterOptions (config: FastifyInstance['initialConfig']): RouterOptions {
  const isSet = (name: keyof RouterOptions, value: boolean): boolean =>
    config[name] === value || config.routerOptions?.[name] === value
  return {
    caseSensitive: !isSet('caseSensitive', false),
    ignoreTrailingSlash: isSet('ignoreTrailingSlash', true),
    ignoreDuplicateSlashes: isSet('ignoreDuplicateSlashes', true)
  }
}

/** A pattern without a parameter, a wildcard and a regular expression. */
const literal = /^(?:[^:*]|::)*$/

/**
 * Whether only requests for one path reach a route with this pattern. Two colons stand for a
 * literal one.
 */
export function isLiteral (pattern: string): boolean {
  return literal.test(pattern)
}

/**
 * A parameter with a regular expression, in which slashes end no segment. It can contain groups,
 * without groups in them. After two colons, a parenthesis is text.
 */
const parameterWithExpression = /(?<!:):[^:/.(-]+\((?:\\.|[^\\()]|\((?:\\.|[^\\()])*\))*\)/g
const expressionBegins = /(?<!:):[^:/.(-]+\(/

/** Returns application paths in the form in which the host's router compares them. */
export class Paths {
  /** The options of the host's router that affect how it compares paths. */
  readonly options: RouterOptions
  /** The deployment context prefix, without a slash at its end. */
  readonly prefix: string

  /** Undefined in place of a segment with a parameter. */
  readonly #prefixSegments: readonly (string | undefined)[]

  /** @throws {OptionError} If a regular expression in the prefix has groups in groups. */
  constructor (prefix: string, initialConfig: FastifyInstance['initialConfig']) {
    this.options = readRouterOptions(initialConfig)
    this.prefix = prefix.replace(/\/$/, '')
    const simple = prefix.replace(parameterWithExpression, ':parameter')
    if (expressionBegins.test(simple)) {
      const rule = 'must have regular expressions whose groups contain no groups'
      throw new OptionError('prefix', rule, prefix)
    }
    this.#prefixSegments = this.#withSingleSlashes(simple)
      .replace(/\/$/, '')
      .split('/')
      .map((segment) =>
        isLiteral(segment) ? this.formOf(segment.replaceAll('::', ':')) : undefined
      )
  }

  /** Returns the path of an operation with the prefix, as it is written. */
  withPrefix (path: string): string {
    return path === '/' && this.prefix !== '' ? this.prefix : this.prefix + path
  }

  /**
   * Returns the form of the application path of a decoded request path, or of the pattern of a
   * route; null if it does not start with the prefix.
   */
  ofRequest (path: string): string | null {
    const segments = this.formOf(path).split('/')
    for (const [index, expected] of this.#prefixSegments.entries()) {
      const segment = segments[index]
      const isExpected = expected === undefined || segment === expected
      if (segment === undefined || !isExpected) return null
    }
    return `/${segments.slice(this.#prefixSegments.length).join('/')}`
  }

  /** Returns the form of an application path, such as that of an operation. */
  formOf (path: string): string {
    const { caseSensitive, ignoreTrailingSlash } = this.options
    const single = this.#withSingleSlashes(path)
    const trimmed = ignoreTrailingSlash && single.length > 1 ? single.replace(/\/$/, '') : single
    return caseSensitive ? trimmed : trimmed.toLowerCase()
  }

  /** Returns a path without duplicate slashes if the router ignores them. */
  #withSingleSlashes (path: string): string {
    return this.options.ignoreDuplicateSlashes ? path.replace(/\/{2,}/g, '/') : path
  }
}
