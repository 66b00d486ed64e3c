import type { FastifyInstance } from 'fastify'

const defaults = {
  caseSensitive: true,
  ignoreTrailingSlash: false,
  ignoreDuplicateSlashes: false,
  useSemicolonDelimiter: false,
  allowUnsafeRegex: false,
  maxParamLength: 100
}

/** The options of the host's router that affect how it reads a path. */
export type RouterOptions = typeof defaults

/**
 * Reads the host's router options, either from `routerOptions` or from the top level, which Fastify has deprecated.
 *
 * Fastify fills in its defaults in both places, so a default value does not show whether the host has set the option. If the two
 * places differ, the value that is not the default is used, so that no spelling bypasses the quota.
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
