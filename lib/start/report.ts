import type { FastifyBaseLogger, FastifyInstance } from 'fastify'
import { effectiveLimit } from '../limit/limit.js'
import { logLine } from '../log.js'
import { windowInWords } from '../refusal/refusal.js'
import { required } from '../required.js'
import { InsuredQuotaStore } from '../store/insured/insured-store.js'
import { ShardedQuotaStore } from '../store/sharded/sharded-store.js'
import type { QuotaStore } from '../store/store.js'
import { warnOfHeadRoutes } from './head-routes.js'
import type { DefinedQuota } from './quotas.js'
import { isMarkedWith, markOf, type KnownRoute, type Routes } from './routes.js'

/** What cannot be known at start-up. */
const notListed =
  'parametric routes that serve an operation, and marked routes that are declared before the ' +
  'plugin, are not listed'

const unservedAdvice =
  'This can be false: a parametric route, or one that is declared before the plugin, can serve ' +
  'it all the same. Otherwise, check the options prefix and operations, and the Fastify instance ' +
  'on which the plugin is registered: a plugin file that registers it must be wrapped with ' +
  'fastify-plugin, because the quota does not apply outside its own scope (encapsulation)'

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
  const reported = quotas.filter((quota) => !quota.isUnused || routes.areMarkedWith(quota.name))
  const parts = reported.map((quota) => protectionOf(quota, routes))
  if (reported.some((quota) => routes.protectedBy(quota).size === 0)) parts.push(notListed)
  const { store } = required(quotas[0], 'the first quota')
  logLine(log, 'info', locationOf(store), parts.join('; '))
  for (const quota of reported) {
    warnOfNoRoute(quota, routes, log)
    warnOfUnserved(quota, routes, log)
    warnOfFreeRequests(quota, routes, log)
  }
  warnOfHeadRoutes(quotas, routes, log)
  const protectedRoutes = new Set(quotas.flatMap((quota) => [...routes.protectedBy(quota)]))
  for (const route of protectedRoutes) warnOfPreHandlers(route, log)
}

/** Returns where a shared store keeps the counters: services with the same location share them. */
function locationOf (store: QuotaStore): object {
  if (store instanceof ShardedQuotaStore) return { shards: store.stores.map(locationOf) }
  const counting = store instanceof InsuredQuotaStore ? store.primary : store
  return { keyPrefix: Reflect.get(counting, 'keyPrefix'), table: Reflect.get(counting, 'table') }
}

function protectionOf (quota: DefinedQuota, routes: Routes): string {
  const { name, configured, isEnforced } = quota
  const described = `the quota "${name}" (${describeLimit(quota)})`
  const list = [...routes.protectedBy(quota)].map(describeRoute).join(', ')
  if (list === '') return `${described} protects no route declared after the plugin`
  if (configured === 0) return `${described} is disabled, and would protect ${list}`
  return `${described} ${isEnforced ? 'protects' : 'observes'} ${list}`
}

/** Returns a limit such as `20 requests per minute`. */
function describeLimit (quota: DefinedQuota): string {
  const { configured, unit } = quota
  const limit = typeof configured === 'number' ? shownLimit(configured) : 'for each caller, in'
  if (unit === 'concurrent-requests') return `${limit} concurrent requests`
  return `${limit} ${unit} per ${windowInWords(quota)}`
}

function shownLimit (configured: number): number {
  const limit = effectiveLimit(configured)
  return limit === 'disabled' ? 0 : limit
}

function describeRoute (route: KnownRoute): string {
  const described = `${route.method} ${route.pattern}`
  return typeof markOf(route) === 'function' ? `${described} (as its function decides)` : described
}

/** Warns of a default quota that should protect routes, none of which was found. */
function warnOfNoRoute (quota: DefinedQuota, routes: Routes, log: FastifyBaseLogger): void {
  const { name, operations, shouldProtect } = quota
  if (!shouldProtect || routes.protectedBy(quota).size > 0) return
  const list = operations.map(({ method, path }) => `${method} ${routes.paths.withPrefix(path)}`)
  const message =
    `the quota "${name}" protects no route that was found; the paths that were looked for are ` +
    `${list.join(', ')}. ${unservedAdvice}`
  logLine(log, 'warn', { quota: name, operations }, message)
}

/** Warns of operations of the host's own list without a known route of exactly their pattern. */
function warnOfUnserved (
  { name, operations, isListed }: DefinedQuota,
  routes: Routes,
  log: FastifyBaseLogger
): void {
  if (!isListed) return
  const unserved = operations.filter((operation) => routes.withPatternOf(operation).length === 0)
  if (unserved.length === 0) return
  const list = unserved.map(({ method, path }) => `${method} ${routes.paths.withPrefix(path)}`)
  const message =
    `no route with the exact pattern is known for ${list.join(', ')}, which the quota "${name}" ` +
    `lists. ${unservedAdvice}`
  logLine(log, 'warn', { quota: name, operations: unserved }, message)
}

/** Warns of a quota of a route whose requests count nothing if their clients disconnect early. */
function warnOfFreeRequests (
  { name, unit, operations, isFreeUnreported }: DefinedQuota,
  routes: Routes,
  log: FastifyBaseLogger
): void {
  const isMarked = routes.known.some((route) => isMarkedWith(name, route))
  if (!isFreeUnreported || (operations.length === 0 && !isMarked)) return
  const message =
    `the quota "${name}" has neither cost nor unreported, so a request counts no ${unit} if its ` +
    'client disconnects before they are reported; set cost to an estimate, or unreported to what ' +
    'such a request counts'
  logLine(log, 'warn', { quota: name, unit }, message)
}

/** Warns of a protected route that may authenticate after the quota. */
function warnOfPreHandlers (
  { method, pattern, options }: KnownRoute,
  log: FastifyBaseLogger
): void {
  const hooks = [options.preHandler ?? []].flat()
  if (hooks.length === 0 || method === 'HEAD') return
  const operation = { method, path: pattern }
  const preHandlers = hooks.map(({ name }) => `${name || 'anonymous'}()`)
  logLine(log, 'warn', { operation, preHandlers }, `${method} ${pattern} ${preHandlerAdvice}`)
}
