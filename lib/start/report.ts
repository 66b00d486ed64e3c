import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { FastifyBaseLogger, FastifyInstance } from 'fastify'
import { effectiveLimit } from '../limit/limit.js'
import { logLine, loggableError } from '../log.js'
import { insuredStoreChanges, type InsuredQuotaStoreChange } from '../store/insured/changes.js'
import { InsuredQuotaStore } from '../store/insured/insured-store.js'
import type { QuotaStore } from '../store/store.js'
import { quotasIn } from '../subject/mark.js'
import type { DefinedQuota } from './quotas.js'
import { markOf, type KnownRoute, type Routes } from './routes.js'

const advice =
  'Check the options prefix and operations, and the Fastify instance on which the plugin is registered: a plugin file that ' +
  'registers it must be wrapped with fastify-plugin, because the quota does not apply outside its own scope (encapsulation). ' +
  'Marked routes and routes with parameters, wildcards or constraints that are declared before the plugin cannot be checked'
const twinAdvice =
  'runs the handler of the protected GET and is not subject to the quota; declare the route with exposeHeadRoute: false'
const preHandlerAdvice =
  'is protected and has a preHandler of its own, which runs after the quota; ' +
  'authenticate in onRequest or preValidation instead'

/**
 * Logs one line that lists what each quota protects, and where a shared store keeps the counters;
 * and warns of probable mistakes.
 */
export function report (
  { log }: FastifyInstance,
  quotas: readonly DefinedQuota[],
  routes: Routes
): void {
  const store = quotas[0]?.store
  // Services with the same key prefix on one server share their counters.
  const { keyPrefix, shards, table } = Object(
    store instanceof InsuredQuotaStore ? store.primary : store
  )
  logLine(
    log,
    'info',
    { keyPrefix, shards, table },
    quotas.map((quota) => protectionOf(quota, routes)).join('; ')
  )
  for (const quota of quotas) if (!quota.isUnused) warnOfQuota(quota, routes, log)
  const listed = quotas.flatMap(({ operations }) =>
    operations.flatMap((operation) => routes.serving(operation))
  )
  const marked = routes.known.filter((route) => markOf(route) !== undefined)
  for (const route of new Set([...listed, ...marked])) warnOfRoute(route, routes, log)
}

function protectionOf (
  { name, period, configured, unit, isEnforced, operations }: DefinedQuota,
  routes: Routes
): string {
  const listed = operations.map(({ method, path }) => `${method} ${routes.paths.prefix}${path}`)
  const all = [
    ...new Set([...listed, ...routes.known.flatMap((route) => markedWith(name, route))])
  ].join(', ')
  const per = period === null ? '' : ` per ${period}`
  const verb =
    configured === 0 ? 'is disabled, and would protect' : isEnforced ? 'protects' : 'observes'
  // A marked route that is declared before the plugin is protected, but no public interface of
  // Fastify lists it.
  const none = 'no operation (marked routes that are declared before the plugin are not listed)'
  return `the quota "${name}" (${effectiveLimit(configured)} ${unit}${per}) ${verb} ${all || none}`
}

function markedWith (quota: string, route: KnownRoute): string[] {
  const mark = markOf(route)
  if (typeof mark === 'function') {
    return [`${route.method} ${route.pattern} (as its function decides)`]
  }
  return quotasIn(mark).includes(quota) ? [`${route.method} ${route.pattern}`] : []
}

/**
 * Warns of a quota that protects nothing, of operations of the host's own list that no route
 * serves, and of free requests.
 */
function warnOfQuota (
  { name, operations, unit, isListed, isFreeUnreported }: DefinedQuota,
  routes: Routes,
  log: FastifyBaseLogger
): void {
  const unserved = operations.filter((operation) => routes.serving(operation).length === 0)
  const list = unserved.map((operation) => routes.describe(operation)).join(', ')
  // A host that marks its routes for any quota does not need the default operations.
  const isMarked = routes.known.some((route) =>
    isListed ? markedWith(name, route).length > 0 : markOf(route) !== undefined
  )
  if (unserved.length === operations.length && !isMarked) {
    const unmarked =
      'that is declared after the plugin is marked with its name. If only fastify.quotaAcquire uses it, ignore this'
    const missing = operations.length === 0 ? unmarked : `serves ${list}`
    logLine(
      log,
      'warn',
      { quota: name, operations },
      `the quota "${name}" protects nothing: no route ${missing}. ${advice}`
    )
  } else if (isListed && unserved.length > 0) {
    logLine(
      log,
      'warn',
      { quota: name, operations: unserved },
      `no route serves ${list}. ${advice}`
    )
  }
  if (isFreeUnreported) {
    const message =
      `the quota "${name}" has neither cost nor unreported, so a request counts no ${unit} if its client disconnects ` +
      'before fastify.quotaCharge reports them; set cost to an estimate, or unreported to what such a request counts'
    logLine(log, 'warn', { quota: name, unit }, message)
  }
}

/**
 * Warns of a protected route whose `HEAD` twin runs the same handler uncounted, or that
 * authenticates after the quota.
 */
function warnOfRoute (
  { method, pattern, options }: KnownRoute,
  routes: Routes,
  log: FastifyBaseLogger
): void {
  const operation = { method, path: routes.paths.withoutPrefix(pattern) }
  // The HEAD route of a marked GET route usually has the same mark, so it is subject to the quota.
  const hasTwin =
    method === 'GET' &&
    routes.known.some(
      (head) =>
        head.method === 'HEAD' &&
        head.pattern === pattern &&
        head.options.handler === options.handler &&
        markOf(head) === undefined
    )
  if (hasTwin) logLine(log, 'warn', { operation }, `HEAD ${pattern} ${twinAdvice}`)
  const preHandlers = [options.preHandler ?? []]
    .flat()
    .map(({ name }) => `${name || 'anonymous'}()`)
  if (preHandlers.length === 0 || method === 'HEAD') return
  logLine(log, 'warn', { operation, preHandlers }, `${method} ${pattern} ${preHandlerAdvice}`)
}

// The stores whose changes are already logged, by server: several scopes of one server can share a
// store.
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
    const { primary, fallback } = store.shards
    const properties = state === 'fallback' ? { err: loggableError(error) } : {}
    if (fallback.length === 0) {
      return logLine(log, 'warn', {}, "the quota's primary store works again")
    }
    if (primary.length === 0) {
      return logLine(
        log,
        'warn',
        properties,
        "the quota's primary store fails; its fallback counts"
      )
    }
    const part = `fails for ${fallback.length} of ${primary.length + fallback.length} shards`
    logLine(
      log,
      'warn',
      { ...properties, shards: fallback },
      `the quota's primary store ${part}; the fallback counts their callers`
    )
  }
  subscribe(insuredStoreChanges.name, receive)
  return () => {
    unsubscribe(insuredStoreChanges.name, receive)
  }
}
