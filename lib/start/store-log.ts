import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { FastifyInstance } from 'fastify'
import { shownError } from '../errors.js'
import { InsuredQuotaStoreChange, insuredStoreChanges } from '../store/insured/changes.js'
import { InsuredQuotaStore } from '../store/insured/insured-store.js'
import type { QuotaStore } from '../store/store.js'

// The stores whose changes are already logged, by server: several scopes of one server can share a store.
const logged = new WeakMap<FastifyInstance['server'], WeakSet<QuotaStore>>()

/** Logs each change of an insured store once, until the server closes. */
export function logStoreChanges (fastify: FastifyInstance, store: QuotaStore): void {
  if (!(store instanceof InsuredQuotaStore) || !isNew(fastify, store)) return
  const log = (message: unknown): void => {
    if (!(message instanceof InsuredQuotaStoreChange) || message.store !== store) return
    if (message.state === 'fallback') fastify.log.warn({ err: shownError(message.error) }, 'the quota\'s primary store fails; its fallback answers')
    else fastify.log.warn('the quota\'s primary store answers again')
  }
  subscribe(insuredStoreChanges.name, log)
  fastify.addHook('onClose', async () => { unsubscribe(insuredStoreChanges.name, log) })
}

function isNew ({ server }: FastifyInstance, store: QuotaStore): boolean {
  const stores = logged.get(server) ?? new WeakSet()
  logged.set(server, stores)
  if (stores.has(store)) return false
  stores.add(store)
  return true
}
