import type { FastifyInstance } from 'fastify'
import { shownError } from '../errors.js'
import { reportChanges } from '../store/insured/change-reports.js'
import { InsuredQuotaStore } from '../store/insured/insured-store.js'
import type { QuotaStore } from '../store/store.js'

// The stores whose changes are already logged, by server: several scopes of one server can share a store.
const logged = new WeakMap<FastifyInstance['server'], WeakSet<QuotaStore>>()

/** Logs which store of an insured store answers, after each change, until the server closes. */
export function logStoreChanges (fastify: FastifyInstance, store: QuotaStore): void {
  if (!(store instanceof InsuredQuotaStore) || !isNew(fastify, store)) return
  const end = reportChanges(store, ({ state, shards, error }) => {
    const all = shards.primary.length + shards.fallback.length
    const err = shownError(error)
    if (state === 'primary') fastify.log.warn('the quota\'s primary store answers again')
    else if (state === 'fallback') fastify.log.warn({ err }, 'the quota\'s primary store fails; its fallback answers')
    else fastify.log.warn({ err, shards: shards.fallback }, `the quota's primary store fails for ${shards.fallback.length} of ${all} shards; the fallback answers their callers`)
  })
  fastify.addHook('onClose', async () => { end() })
}

function isNew ({ server }: FastifyInstance, store: QuotaStore): boolean {
  const stores = logged.get(server) ?? new WeakSet()
  logged.set(server, stores)
  if (stores.has(store)) return false
  stores.add(store)
  return true
}
