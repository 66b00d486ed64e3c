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
    return reportChanges(store, ({ state, shards: { primary, fallback }, error }) => {
      const err = shownError(error)
      if (state === 'primary') warn('works again')
      else if (state === 'fallback') warn('fails; its fallback counts', { err })
      else {
        const share = `${fallback.length} of ${fallback.length + primary.length} shards`
        warn(`fails for ${share}; the fallback counts their callers`, { err, shards: fallback })
      }
    })
  })
  return () => { for (const stop of stops) stop() }
}
