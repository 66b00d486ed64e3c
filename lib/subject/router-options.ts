import type { FastifyInstance } from 'fastify'

const defaults = {
  caseSensitive: true,
  ignoreTrailingSlash: false,
  ignoreDuplicateSlashes: false,
  useSemicolonDelimiter: false,
  allowUnsafeRegex: false,
  maxParamLength: 100
}

/** The options of the host's router that change how it reads a path. */
export type RouterOptions = typeof defaults

/**
 * Reads the router's options as the host gave them: under `routerOptions`, or at the top level in the old way.
 *
 * Fastify fills in its defaults in both places, so a default in the one says nothing about the other. A host that
 * contradicts itself is read as the value that is not the default, which meters a spelling too many and never too few.
 */
export function readRouterOptions (initialConfig: FastifyInstance['initialConfig']): RouterOptions {
  const oldWay: RouterOptions = { ...defaults, ...initialConfig }
  const newWay: Partial<RouterOptions> = initialConfig.routerOptions ?? {}
  function given<Name extends keyof RouterOptions> (name: Name): RouterOptions[Name] {
    const value = newWay[name] ?? defaults[name]
    return value === defaults[name] ? oldWay[name] : value
  }
  return {
    caseSensitive: given('caseSensitive'),
    ignoreTrailingSlash: given('ignoreTrailingSlash'),
    ignoreDuplicateSlashes: given('ignoreDuplicateSlashes'),
    useSemicolonDelimiter: given('useSemicolonDelimiter'),
    allowUnsafeRegex: given('allowUnsafeRegex'),
    maxParamLength: given('maxParamLength')
  }
}
