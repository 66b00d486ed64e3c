import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { FastifyInstance } from 'fastify'
import { shownError } from '../errors.js'
import { InsuredQuotaStoreChange, insuredStoreChanges } from '../store/insured/changes.js'
import type { QuotaStore } from '../store/store.js'

// The stores whose changes are already logged, by server: several scopes of one server can share a store.
const logged = new WeakMap<FastifyInstance['server'], Set<QuotaStore>>()

/**
 * Logs each change of an insured store once.
 *
 * @returns A function that stops it.
 */
export function logStoreChanges (fastify: FastifyInstance, store: QuotaStore): () => void {
  const stores = logged.get(fastify.server) ?? new Set()
  logged.set(fastify.server, stores)
  if (stores.has(store)) return () => {}
  stores.add(store)

  function log (message: unknown): void {
    if (!(message instanceof InsuredQuotaStoreChange) || message.store !== store) return
    if (message.state === 'fallback') fastify.log.warn({ err: shownError(message.error) }, 'the quota\'s primary store fails; its fallback counts')
    else fastify.log.warn('the quota\'s primary store works again')
  }
  subscribe(insuredStoreChanges.name, log)
  return () => { unsubscribe(insuredStoreChanges.name, log) }
}
