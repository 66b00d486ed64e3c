import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { FastifyBaseLogger, FastifyInstance } from 'fastify'
import { insuredStoreChanges, type InsuredQuotaStoreChange } from '../channels.js'
import { logLine, loggableError } from '../log.js'
import { InsuredQuotaStore } from '../store/insured/insured-store.js'
import type { QuotaStore } from '../store/store.js'

/**
 * The stores whose changes are already logged, by server: several scopes of one server can share a
 * store.
 */
const logged = new WeakMap<FastifyInstance['server'], readonly QuotaStore[]>()

/**
 * Logs each change of an insured store, with the store that counts from then on. Returns a function
 * that stops it.
 */
export function logStoreChanges (
  { server, log }: FastifyInstance,
  stores: readonly QuotaStore[]
): () => void {
  const known = logged.get(server) ?? []
  const added = stores.filter((store) => !known.includes(store))
  logged.set(server, [...known, ...added])
  const receive = (message: unknown): void => {
    const { store, state, error } = message as InsuredQuotaStoreChange
    if (!(store instanceof InsuredQuotaStore) || !added.includes(store)) return
    logStoreChange(store, state, error, log)
  }
  subscribe(insuredStoreChanges.name, receive)
  return () => {
    unsubscribe(insuredStoreChanges.name, receive)
  }
}

function logStoreChange (
  { shards: { primary, fallback } }: InsuredQuotaStore,
  state: InsuredQuotaStoreChange['state'],
  error: unknown,
  log: FastifyBaseLogger
): void {
  const properties = state === 'fallback' ? { err: loggableError(error) } : {}
  if (fallback.length === 0) {
    return logLine(log, 'warn', {}, "the quota's primary store works again")
  }
  if (primary.length === 0) {
    const message = "the quota's primary store fails; its fallback counts"
    return logLine(log, 'warn', properties, message)
  }
  const fails = state === 'fallback' ? 'fails' : 'still fails'
  const part = `${fails} for ${fallback.length} of ${primary.length + fallback.length} shards`
  const message = `the quota's primary store ${part}; the fallback counts their callers`
  logLine(log, 'warn', { ...properties, shards: fallback }, message)
}
