import { format } from '../errors.js'
import type { QuotaList } from './quota-list.js'

/**
 * Removes a caller's own counter in every quota. The next request of the caller opens new windows.
 *
 * @param callerKey The caller's digest, as returned by `callerKey`.
 * @returns A promise that rejects with a `TypeError` for anything but a caller key, and if a store
 *   fails or has no `forget`, after all others have forgotten the caller.
 */
export type QuotaForgetter = (callerKey: string) => Promise<void>

const callerKeyPattern = /^[0-9a-f]{64}$/

/** Creates the function for the decorator `fastify.quotaForget`. */
export function createForgetter (quotas: QuotaList): QuotaForgetter {
  return async function quotaForget (callerKey) {
    if (typeof callerKey !== 'string' || !callerKeyPattern.test(callerKey)) {
      const rule = 'must have 64 hexadecimal digits in lower case'
      throw new TypeError(`fastify-llm-quota: the caller key ${rule}; it got ${format(callerKey)}`)
    }
    const forgotten = quotas.all.map(async ({ store, counters }) => {
      if (store.forget === undefined) throw new TypeError('the quota store has no function forget')
      await store.forget(callerKey, counters)
    })
    for (const result of await Promise.allSettled(forgotten)) {
      if (result.status === 'rejected') throw result.reason
    }
  }
}
