import { isAuthentication, type Authentication } from '../caller/authentication.js'
import { callerKey } from '../caller/caller-key.js'
import { formatType } from '../errors.js'
import { isCallerKey } from '../store/argument-checks.js'
import type { QuotaList } from './quota-list.js'

/**
 * Removes a caller's own counter in one quota, or in every one. The next request of the caller
 * opens a new window.
 *
 * @param caller The caller's digest, as returned by `callerKey`, or its authentication.
 * @param name The name of the quota. Default: every quota.
 * @returns A promise. It rejects with a `TypeError` if the value identifies no caller or a store
 *   has no `forget`, and with the store's own error if one fails; the other stores have forgotten
 *   the caller by then.
 * @throws {UnknownQuotaError} `FST_ERR_LLM_QUOTA_UNKNOWN_QUOTA`, if there is no quota with that
 *   name.
 */
export type QuotaForgetter = (caller: string | Authentication, name?: string) => Promise<void>

/** Creates the function for the decorator `fastify.quotaForget`. */
export function createForgetter (quotas: QuotaList): QuotaForgetter {
  return async function quotaForget (caller, name) {
    const named = name === undefined ? quotas.all : [quotas.named(name, 'quotaForget')]
    const key = keyOf(caller)
    const forgotten = named.map(async ({ store, counters, lines }) => {
      if (store.forget === undefined) throw new TypeError('the quota store has no function forget')
      await store.forget(counters, key)
      lines?.freed(key)
    })
    for (const result of await Promise.allSettled(forgotten)) {
      if (result.status === 'rejected') throw result.reason
    }
  }
}

/** Returns the key of a caller. Throws a `TypeError` if there is none. */
function keyOf (caller: unknown): string {
  if (isCallerKey(caller)) return caller
  if (!isAuthentication(caller)) {
    const rule = 'must be a caller key, as callerKey() returns it, or an authentication'
    const got = formatType(caller)
    throw new TypeError(`fastify-llm-quota: the caller of quotaForget ${rule}; it got ${got}`)
  }
  const key = callerKey(caller)
  if (key !== null) return key
  throw new TypeError('fastify-llm-quota: the authentication identifies no caller')
}
