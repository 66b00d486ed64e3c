import type { FastifyInstance } from 'fastify'

const defaults = { caseSensitive: true, ignoreTrailingSlash: false, ignoreDuplicateSlashes: false }

/** The options of the host's router that affect how it compares paths. */
export type RouterOptions = Readonly<typeof defaults>

/**
 * Reads the host's router options, either from `routerOptions` or from the top level, which Fastify has deprecated.
 *
 * Fastify fills in its defaults in both places, so a default value does not show whether the host has set the option. If the two
 * places differ, the value that is not the default is used, so that no spelling bypasses the quota.
 */
export function readRouterOptions (initialConfig: FastifyInstance['initialConfig']): RouterOptions {
  const places: readonly Partial<RouterOptions>[] = [initialConfig, initialConfig.routerOptions ?? {}]
  const given = (name: keyof RouterOptions): boolean => places.some(({ [name]: value = defaults[name] }) => value !== defaults[name]) !== defaults[name]
  return { caseSensitive: given('caseSensitive'), ignoreTrailingSlash: given('ignoreTrailingSlash'), ignoreDuplicateSlashes: given('ignoreDuplicateSlashes') }
}
