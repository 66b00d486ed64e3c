import type { FastifyInstance } from 'fastify'
import { effectiveLimit, limitKinds } from '../limit/limit.js'
import { logLine } from '../log.js'
import { InsuredQuotaStore } from '../store/insured/insured-store.js'
import type { QuotaStore } from '../store/store.js'
import { quotasIn } from '../subject/mark.js'
import type { Paths } from '../subject/paths.js'
import { markOf, type Routes } from './declared-routes.js'
import type { DefinedQuota } from './quotas.js'

// A marked route that is declared before the plugin is protected, but no public interface of Fastify lists it.
const none = 'no operation (marked routes that are declared before the plugin are not listed)'

/** Logs one line that lists what each quota protects, and where a shared store keeps the counters. */
export function logProtections (fastify: FastifyInstance, quotas: readonly DefinedQuota[], routes: Routes, paths: Paths): void {
  const main = quotas[0]?.store
  const protections = quotas.map(({ name, limitName, configured, unit, isEnforced, operations, store }) => {
    const listed = operations.map(({ method, path }) => `${method} ${paths.withPrefix(path)}`)
    const location = store === main ? {} : locationOf(store)
    const served = [...new Set([...listed, ...markedWith(name, routes)])]
    return { quota: name, limit: limitKinds[limitName].key, unit, configured, isEnforced, operations: served, ...location }
  })
  const sentences = protections.map(({ quota, limit, unit, configured, isEnforced, operations }) => {
    const amount = [effectiveLimit(configured), unit, limit === 'in-flight' ? [] : limit.replace('-', ' ')].flat().join(' ')
    const verb = configured === 0 ? 'is disabled, and would protect' : isEnforced ? 'protects' : 'observes'
    return `the quota "${quota}" (${amount}) ${verb} ${operations.join(', ') || none}`
  })
  logLine(fastify.log, 'info', { protections, ...locationOf(main) }, sentences.join('; '))
}

function markedWith (quota: string, routes: Routes): string[] {
  return routes.declared.flatMap((route) => {
    const mark = markOf(route)
    if (typeof mark === 'function') return [`${route.method} ${route.pattern} (as its function decides)`]
    return quotasIn(mark).includes(quota) ? [`${route.method} ${route.pattern}`] : []
  })
}

/** Services with the same key prefix on one server share their counters. */
function locationOf (store: QuotaStore | undefined): object {
  const { keyPrefix, shards, table } = Object(store instanceof InsuredQuotaStore ? store.primary : store)
  return { keyPrefix, shards, table }
}
