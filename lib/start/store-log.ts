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
  const warn = (message: string, properties = {}): void => { logLine(log, 'warn', properties, `the quota's primary store ${message}`) }
  const stops = stores.flatMap((store) => {
    if (!(store instanceof InsuredQuotaStore) || known.has(store)) return []
    known.add(store)
    return reportChanges(store, ({ state, shards: { primary, fallback: { length }, fallback: shards }, error }) => {
      const err = shownError(error)
      if (state === 'primary') return warn('works again')
      if (state === 'fallback') return warn('fails; its fallback counts', { err })
      warn(`fails for ${length} of ${length + primary.length} shards; the fallback counts their callers`, { err, shards })
    })
  })
  return () => { for (const stop of stops) stop() }
}
