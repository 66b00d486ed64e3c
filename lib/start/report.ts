import type { FastifyInstance } from 'fastify'
import { effectiveLimit, limitKinds } from '../limit/limit.js'
import { InsuredQuotaStore } from '../store/insured/insured-store.js'
import type { QuotaStore } from '../store/store.js'
import { quotasIn } from '../subject/mark.js'
import type { Paths } from '../subject/paths.js'
import { markOf, type Routes } from './declared-routes.js'
import type { DefinedQuota } from './quotas.js'

// A marked route that is declared before the plugin is protected, but no public interface of Fastify lists it.
const none = 'no operation (marked routes that are declared before the plugin are not listed)'

/** Logs one line that lists what each quota protects, and where a shared store keeps the counters. */
export function logProtections (fastify: FastifyInstance, quotas: readonly DefinedQuota[], routes: Routes, paths: Paths, store: QuotaStore): void {
  const protections = quotas.map(({ name, limitName, configured, isEnforced, operations }) => {
    const listed = operations.map(({ method, path }) => `${method} ${paths.withPrefix(path)}`)
    return { quota: name, limit: limitKinds[limitName].key, configured, isEnforced, operations: [...new Set([...listed, ...markedWith(name, routes)])] }
  })
  const sentences = protections.map(({ quota, limit, configured, isEnforced, operations }) => {
    const verb = configured === 0 ? 'is disabled, and would protect' : isEnforced ? 'protects' : 'observes'
    return `the quota "${quota}" (${limit} ${effectiveLimit(configured)}) ${verb} ${operations.join(', ') || none}`
  })
  fastify.log.info({ protections, ...placeOf(store) }, sentences.join('; '))
}

function markedWith (quota: string, routes: Routes): string[] {
  return routes.declared.flatMap((route) => {
    const mark = markOf(route)
    if (typeof mark === 'function') return [`${route.method} ${route.pattern} (as its function decides)`]
    return quotasIn(mark).includes(quota) ? [`${route.method} ${route.pattern}`] : []
  })
}

/** Services with the same key prefix on one server share their counters. */
function placeOf (store: QuotaStore): object {
  const shared = store instanceof InsuredQuotaStore ? store.primary : store
  const { keyPrefix, shards, table } = Object(shared)
  return { keyPrefix, shards, table }
}
