import type { FastifyInstance } from 'fastify'

type RouterOptions = Readonly<
  Record<'caseSensitive' | 'ignoreTrailingSlash' | 'ignoreDuplicateSlashes', boolean>
>

// Fastify fills in its defaults both in `routerOptions` and at the deprecated top level. If the two
// differ, the host has set the value that is not the default.
function readRouterOptions (config: FastifyInstance['initialConfig']): RouterOptions {
  const isSet = (name: keyof RouterOptions, value: boolean): boolean =>
    [config, config.routerOptions].some((place) => place?.[name] === value)
  const [ignoreTrailingSlash, ignoreDuplicateSlashes] = [
    isSet('ignoreTrailingSlash', true),
    isSet('ignoreDuplicateSlashes', true)
  ]
  return {
    caseSensitive: !isSet('caseSensitive', false),
    ignoreTrailingSlash,
    ignoreDuplicateSlashes
  }
}

// Two colons stand for a literal colon.
/**
 * Whether only requests for one path reach a route with this pattern: it has no parameter, wildcard
 * or regular expression.
 */
export const isLiteral = (pattern: string): boolean => /^(?:[^:*]|::)*$/.test(pattern)

/** Returns application paths in the form in which the host's router compares them. */
export class Paths {
  /** The options of the host's router that affect how it compares paths. */
  readonly options: RouterOptions
  /** The deployment context prefix, without a slash at its end. */
  readonly prefix: string
  // Undefined in place of a segment with a parameter.
  readonly #prefixSegments: readonly (string | undefined)[]

  constructor (prefix: string, initialConfig: FastifyInstance['initialConfig']) {
    this.options = readRouterOptions(initialConfig)
    this.prefix = prefix.replace(/\/$/, '')
    const formOf = (segment: string) =>
      isLiteral(segment) ? this.formOf(segment.replaceAll('::', ':')) : undefined
    this.#prefixSegments = this.prefix.split('/').map(formOf)
  }

  /**
   * Returns the pattern of a route or the path of an operation without the prefix, as it is
   * written.
   */
  withoutPrefix (pattern: string): string {
    return pattern === this.prefix
      ? '/'
      : pattern.startsWith(`${this.prefix}/`)
        ? pattern.slice(this.prefix.length)
        : pattern
  }

  /**
   * Returns the form of the application path of a decoded request path; null if the path does not
   * start with the prefix.
   */
  ofRequest (path: string): string | null {
    const segments = this.formOf(path).split('/')
    const prefix = this.#prefixSegments
    const isPrefixed = prefix.every(
      (expected, index) =>
        index < segments.length && (expected ?? segments[index]) === segments[index]
    )
    return isPrefixed ? `/${segments.slice(prefix.length).join('/')}` : null
  }

  /** Returns the form of an application path, such as that of an operation. */
  formOf (path: string): string {
    const { caseSensitive, ignoreTrailingSlash, ignoreDuplicateSlashes } = this.options
    const single = ignoreDuplicateSlashes ? path.replace(/\/{2,}/g, '/') : path
    const trimmed = ignoreTrailingSlash && single.length > 1 ? single.replace(/\/$/, '') : single
    return caseSensitive ? trimmed : trimmed.toLowerCase()
  }
}
