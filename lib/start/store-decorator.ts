import type { FastifyInstance } from 'fastify'
import { OptionError } from '../errors.js'
import { MemoryQuotaStore } from '../store/memory/memory-store.js'
import { assertStore, type QuotaStore } from '../store/store.js'

/** Returns the store of the Fastify instance: the option `store`, the host's decorator, or a new `MemoryQuotaStore`, in this order. */
export function decorateWithStore (fastify: FastifyInstance, given: QuotaStore | undefined): QuotaStore {
  if (!fastify.hasDecorator('quotaStore')) {
    const store = given ?? new MemoryQuotaStore()
    fastify.decorate('quotaStore', store)
    return store
  }
  if (given !== undefined) throw new OptionError('store', 'must not be set, because the host has decorated its own quotaStore', given)
  assertStore(fastify.quotaStore, 'quotaStore, as the host decorated it,')
  return fastify.quotaStore
}
