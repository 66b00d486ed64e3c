import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { FastifyInstance } from 'fastify'
import { insuredStoreChanges, InsuredQuotaStore, InsuredQuotaStoreChange } from './insured-store.js'
import type { QuotaStore } from './store.js'

/** Logs each change of an insured store as long as the server runs. Other stores have none. */
export function logStoreChanges (fastify: FastifyInstance, store: QuotaStore): void {
  if (!(store instanceof InsuredQuotaStore)) return
  const log = (message: unknown): void => {
    if (!(message instanceof InsuredQuotaStoreChange) || message.store !== store) return
    if (message.state === 'fallback') fastify.log.warn({ err: message.error }, 'the quota\'s primary store fails; its fallback answers')
    else fastify.log.warn('the quota\'s primary store answers again')
  }
  subscribe(insuredStoreChanges.name, log)
  fastify.addHook('onClose', async () => { unsubscribe(insuredStoreChanges.name, log) })
}
