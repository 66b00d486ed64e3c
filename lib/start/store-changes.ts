import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { FastifyBaseLogger, FastifyInstance } from 'fastify'
import { insuredStoreChanges, type InsuredQuotaStoreChange } from '../channels.js'
import { logLine, loggableError } from '../log.js'
import { shardsOf } from '../store/sharded/sharded-store.js'
import type { QuotaStore } from '../store/store.js'

/**
 * The stores whose changes are already logged, by server: several scopes of one server can share a
 * store.
 */
const logged = new WeakMap<FastifyInstance['server'], readonly QuotaStore[]>()

/**
 * Logs each change of an insured store, also of one that is a shard, with the store that counts
 * from then on. Returns a function that stops it.
 */
export function logStoreChanges (
  { server, log }: FastifyInstance,
  stores: readonly QuotaStore[]
): () => void {
  const known = logged.get(server) ?? []
  const added = stores.flatMap(shardsOf).filter((store) => !known.includes(store))
  logged.set(server, [...known, ...added])
  const receive = (message: unknown): void => {
    const { store, state, error } = message as InsuredQuotaStoreChange
    if (added.includes(store)) logStoreChange(state, error, log)
  }
  subscribe(insuredStoreChanges.name, receive)
  return () => {
    unsubscribe(insuredStoreChanges.name, receive)
  }
}

function logStoreChange (
  state: InsuredQuotaStoreChange['state'],
  error: unknown,
  log: FastifyBaseLogger
): void {
  if (state === 'primary') {
    return logLine(log, 'warn', {}, "the quota's primary store works again")
  }
  const properties = { err: loggableError(error) }
  logLine(log, 'warn', properties, "the quota's primary store fails; its fallback counts")
}
