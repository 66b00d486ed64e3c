import type { OfRequest } from '../any-request.js'
import { ignoreRejection } from '../promises.js'

/** The name of the default quota. */
export const defaultQuota = 'default'

/**
 * The quotas of a marked route: `true` or `'default'` for the default quota, a name, or an array of
 * names; `false` and null for none.
 */
export type QuotaNames = boolean | string | readonly string[] | null

/**
 * The value of a route's `config.quota`: its quotas, or a function of the request that returns
 * them. `false` is no mark.
 */
export type RouteMark = QuotaNames | OfRequest<QuotaNames>

/**
 * Returns a quota by its name, or throws an `UnknownQuotaError` that says where the name stands.
 */
export type QuotaByName<Each> = (name: unknown, where: string) => Each

/**
 * Returns the names in a mark that is not a function. They are not checked: one can be unknown, or
 * not a string.
 */
export function namesIn (mark: unknown): readonly unknown[] {
  if (mark === null || mark === false) return []
  if (mark === true) return [defaultQuota]
  return Array.isArray(mark) ? mark : [mark]
}

/** Returns the quotas in a mark that is not a function. Throws if one of them does not exist. */
export function quotasOf<Each> (mark: unknown, route: string, named: QuotaByName<Each>): Each[] {
  return namesIn(mark).map((name) => {
    // A mark that is an async function returns a promise, which names no quota.
    if (typeof name !== 'string') ignoreRejection(name)
    return named(name, `config.quota of the route ${route}`)
  })
}
