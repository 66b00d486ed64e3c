import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { FastifyInstance } from 'fastify'
import { logLine, shownError } from '../log.js'
import { insuredStoreChanges, type InsuredQuotaStoreChange } from '../store/insured/changes.js'
import { InsuredQuotaStore } from '../store/insured/insured-store.js'
import type { QuotaStore } from '../store/store.js'

// The stores whose changes are already logged, by server: several scopes of one server can share a store.
const logged = new WeakMap<FastifyInstance['server'], readonly QuotaStore[]>()

/** Logs each change of an insured store, with the store that counts from then on. Returns a function that stops it. */
export function logStoreChanges ({ server, log }: FastifyInstance, stores: readonly QuotaStore[]): () => void {
  const known = logged.get(server) ?? []
  const added = stores.filter((store) => !known.includes(store))
  logged.set(server, [...known, ...added])
  const receive = (message: unknown): void => {
    const { store, state, error } = message as InsuredQuotaStoreChange
    if (!(store instanceof InsuredQuotaStore) || !added.includes(store)) return
    const { primary, fallback } = store.shards
    const properties = state === 'fallback' ? { err: shownError(error) } : {}
    if (fallback.length === 0) return logLine(log, 'warn', {}, 'the quota\'s primary store works again')
    if (primary.length === 0) return logLine(log, 'warn', properties, 'the quota\'s primary store fails; its fallback counts')
    const part = `fails for ${fallback.length} of ${primary.length + fallback.length} shards`
    logLine(log, 'warn', { ...properties, shards: fallback }, `the quota's primary store ${part}; the fallback counts their callers`)
  }
  subscribe(insuredStoreChanges.name, receive)
  return () => { unsubscribe(insuredStoreChanges.name, receive) }
}
