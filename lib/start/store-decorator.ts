import type { FastifyInstance } from 'fastify'
import { OptionError, shown } from './errors.js'
import { MemoryQuotaStore } from './memory-store.js'
import { assertStore, type QuotaStore } from './store.js'

/** The store of an instance: the one given, which must be the only one, else the host's own, else a new one in memory. */
export function decorateWithStore (fastify: FastifyInstance, given: QuotaStore | undefined): QuotaStore {
  if (!fastify.hasDecorator('quotaStore')) {
    const store = given ?? new MemoryQuotaStore()
    fastify.decorate('quotaStore', store)
    return store
  }
  if (given !== undefined) throw new OptionError('store', 'is given where the host has decorated its own quotaStore', shown(given))
  assertStore('quotaStore, as the host decorated it,', fastify.quotaStore)
  return fastify.quotaStore
}
