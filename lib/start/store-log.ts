import type { FastifyInstance } from 'fastify'
import { logLine, shownError } from '../log.js'
import { reportChanges } from '../store/insured/change-reports.js'
import { InsuredQuotaStore } from '../store/insured/insured-store.js'
import type { QuotaStore } from '../store/store.js'

// The stores whose changes are already logged, by server: several scopes of one server can share a store.
const logged = new WeakMap<FastifyInstance['server'], Set<QuotaStore>>()

/** Logs which store of each insured store counts, after each change. Returns a function that stops it. */
export function logStoreChanges ({ server, log }: FastifyInstance, stores: readonly QuotaStore[]): () => void {
  const known = logged.get(server) ?? new Set()
  logged.set(server, known)
  const stops = [...new Set(stores)].flatMap((store) => {
    if (!(store instanceof InsuredQuotaStore) || known.has(store)) return []
    known.add(store)
    return reportChanges(store, ({ state, shards, error }) => {
      const { length: down } = shards.fallback
      const err = shownError(error)
      if (state === 'primary') return logLine(log, 'warn', {}, 'the quota\'s primary store works again')
      if (state === 'fallback') return logLine(log, 'warn', { err }, 'the quota\'s primary store fails; its fallback counts')
      const all = down + shards.primary.length
      const message = `the quota's primary store fails for ${down} of ${all} shards; the fallback counts their callers`
      logLine(log, 'warn', { err, shards: shards.fallback }, message)
    })
  })
  return () => { for (const stop of stops) stop() }
}
