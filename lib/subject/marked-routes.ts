import { shown, UnknownQuotaError } from '../errors.js'
import type { OperationMatch } from './operation-matcher.js'
import { applicationPath } from './prefix.js'
import { defaultQuota } from './quota-name.js'

/** Finds the quota of a route that is declared with `config: { quota: true }` or `config: { quota: 'name' }`. */
export class MarkedRoutes {
  readonly #names: ReadonlySet<unknown>
  readonly #prefix: string
  readonly #matches = new Map<string, OperationMatch>()

  /**
   * @param names The names of all quotas, including the default quota.
   * @param prefix The deployment context prefix.
   */
  constructor (names: readonly string[], prefix: string) {
    this.#names = new Set(names)
    this.#prefix = prefix
  }

  /**
   * @param mark The value of `config.quota`.
   * @returns The name of the quota.
   * @throws {UnknownQuotaError} If the quota does not exist.
   */
  nameOf (mark: unknown, method: string, pattern: string): string {
    const name = mark === true ? defaultQuota : mark
    if (typeof name === 'string' && this.#names.has(name)) return name
    throw new UnknownQuotaError(`${method} ${pattern}`, [...this.#names].join(', '), shown(mark))
  }

  /**
   * @param mark The value of `config.quota`.
   * @param method The request's method.
   * @param pattern The pattern of the route that Fastify matched.
   * @throws {UnknownQuotaError} If the quota does not exist.
   */
  match (mark: unknown, method: string, pattern: string): OperationMatch {
    const quota = this.nameOf(mark, method, pattern)
    const key = `${quota} ${method} ${pattern}`
    const known = this.#matches.get(key)
    if (known !== undefined) return known
    const operation = Object.freeze({ method, path: applicationPath(pattern, this.#prefix) })
    const match = Object.freeze({ quota, operation })
    this.#matches.set(key, match)
    return match
  }
}
