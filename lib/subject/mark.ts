import type { OfRequest } from '../any-request.js'
import { shown, UnknownQuotaError } from '../errors.js'
import { ignoreRejection } from '../promises.js'

/** The name of the default quota. */
export const defaultQuota = 'default'

/** The quotas of a marked route: `true` for the default quota, a name, or an array of names; `false` and null for none. */
export type QuotaNames = boolean | string | readonly string[] | null

/** The value of a route's `config.quota`. */
export type RouteMark = QuotaNames | OfRequest<QuotaNames>

/** Returns the names of quotas in a mark that is not a function. They may not exist. */
export function quotasIn (mark: unknown): readonly unknown[] {
  return [mark === true ? defaultQuota : mark].flat()
}

/** Reads the marks of the routes of a server with these quotas. */
export class Marks {
  readonly #names: readonly string[]

  /** @param names The names of all quotas, including the default quota. */
  constructor (names: readonly string[]) {
    this.#names = names
  }

  /** Throws an `UnknownQuotaError` if a mark names a quota that does not exist. What a function returns is checked for each request. */
  assert (mark: unknown, route: string): void {
    if (typeof mark !== 'function' && mark !== undefined) this.namesIn(mark, route)
  }

  /** Returns the names of the quotas in a mark, or in what its function returned. Throws an `UnknownQuotaError` if one does not exist. */
  namesIn (mark: unknown, route: string): readonly string[] {
    if (mark === null || mark === false) return []
    return quotasIn(mark).map((name) => {
      const known = this.#names.find((each) => each === name)
      if (known !== undefined) return known
      ignoreRejection(name)
      throw new UnknownQuotaError(`config.quota of the route ${route}`, this.#names.join(', '), shown(name))
    })
  }
}
