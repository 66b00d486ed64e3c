import type { FastifyBaseLogger, FastifyInstance } from 'fastify'
import { effectiveLimit } from '../limit/limit.js'
import { logLine } from '../log.js'
import { required } from '../required.js'
import { InsuredQuotaStore } from '../store/insured/insured-store.js'
import type { QuotaStore } from '../store/store.js'
import { warnOfHeadRoutes } from './head-routes.js'
import type { DefinedQuota } from './quotas.js'
import {
  isDeclaredBefore,
  isMarkedWith,
  markOf,
  mayBeMarkedWith,
  type KnownRoute,
  type Routes
} from './routes.js'

const advice =
  'Check the options prefix and operations, and the Fastify instance on which the plugin is ' +
  'registered: a plugin file that registers it must be wrapped with fastify-plugin, because the ' +
  'quota does not apply outside its own scope (encapsulation). Marked routes and routes with ' +
  'parameters, wildcards or constraints that are declared before the plugin cannot be checked'

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
  const protections = reported.map((quota) => protectionOf(quota, routes))
  const { store } = required(quotas[0], 'the first quota')
  logLine(log, 'info', placeOf(store), protections.join('; '))
  for (const quota of reported) {
    warnOfOperations(quota, routes, log)
    warnOfScope(quota, routes, log)
    warnOfFreeRequests(quota, routes, log)
  }
  warnOfHeadRoutes(quotas, routes, log)
  for (const route of protectedRoutes(quotas, routes)) warnOfPreHandlers(route, routes, log)
}

/** Where a shared store keeps the counters: services with the same place share them. */
function placeOf (store: QuotaStore): object {
  const counting = store instanceof InsuredQuotaStore ? store.primary : store
  return {
    keyPrefix: Reflect.get(counting, 'keyPrefix'),
    shards: Reflect.get(counting, 'shards'),
    table: Reflect.get(counting, 'table')
  }
}

function protectionOf (quota: DefinedQuota, routes: Routes): string {
  const { name, period, configured, unit, isEnforced } = quota
  const per = period === null ? '' : ` per ${period}`
  const described = `the quota "${name}" (${effectiveLimit(configured)} ${unit}${per})`
  const operations = [...new Set(operationsOf(quota, routes))].join(', ')
  if (operations === '') {
    // A marked route that is declared before the plugin is protected, but no public interface of
    // Fastify lists it.
    const unseen =
      'marked routes are listed only if they are declared after the plugin, and in its scope'
    return quota.isNamed
      ? `${described} is for fastify.quotaAcquire (${unseen})`
      : `${described} protects no operation (${unseen})`
  }
  if (configured === 0) return `${described} is disabled, and would protect ${operations}`
  return `${described} ${isEnforced ? 'protects' : 'observes'} ${operations}`
}

function operationsOf ({ name, operations }: DefinedQuota, routes: Routes): string[] {
  const listed = operations.map(({ method, path }) => `${method} ${routes.paths.prefix}${path}`)
  const marked = routes.known.filter((route) => mayBeMarkedWith(name, route)).map(describeMarked)
  return [...listed, ...marked]
}

function describeMarked (route: KnownRoute): string {
  const operation = `${route.method} ${route.pattern}`
  return typeof markOf(route) === 'function' ? `${operation} (as its function decides)` : operation
}

/**
 * Warns of a quota whose operations no route serves, of operations of the host's own list that no
 * route serves, and of a default quota that protects nothing.
 */
function warnOfOperations (
  { name, operations, isListed, isNamed }: DefinedQuota,
  routes: Routes,
  log: FastifyBaseLogger
): void {
  // A host that marks its routes for any quota does not need the default operations.
  const isMarked = isListed
    ? routes.areMarkedWith(name)
    : routes.known.some((route) => markOf(route) !== undefined)
  if (operations.length === 0) {
    if (isNamed || isMarked) return
    const nothing =
      `the quota "${name}" protects nothing: ` +
      'no route that is declared after the plugin is marked with its name'
    return logLine(log, 'warn', { quota: name, operations }, `${nothing}. ${advice}`)
  }
  if (!routes.canBeChecked) return
  const unserved = operations.filter((operation) => routes.serving(operation).length === 0)
  const list = unserved.map((operation) => routes.describe(operation)).join(', ')
  if (unserved.length === operations.length && !isMarked) {
    const nothing = `the quota "${name}" protects nothing: no route serves ${list}`
    logLine(log, 'warn', { quota: name, operations }, `${nothing}. ${advice}`)
  } else if (isListed && unserved.length > 0) {
    const properties = { quota: name, operations: unserved }
    logLine(log, 'warn', properties, `no route serves ${list}. ${advice}`)
  }
}

/** Warns of operations whose routes can be outside the scope in which the plugin is registered. */
function warnOfScope (
  { name, operations }: DefinedQuota,
  routes: Routes,
  log: FastifyBaseLogger
): void {
  if (!routes.canBeOutside) return
  const unsure = operations.filter((operation) => {
    const serving = routes.serving(operation)
    return serving.length > 0 && serving.every(isDeclaredBefore)
  })
  if (unsure.length === 0) return
  const list = unsure.map(({ method, path }) => `${method} ${routes.paths.prefix}${path}`)
  const message =
    `the quota "${name}" protects ${list.join(', ')} only if the route is in the scope in which ` +
    'the plugin is registered, which cannot be checked because it was declared before the ' +
    'plugin; a plugin file that registers it must be wrapped with fastify-plugin'
  logLine(log, 'warn', { quota: name, operations: unsure }, message)
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
    'client disconnects before fastify.quotaCharge reports them; set cost to an estimate, or ' +
    'unreported to what such a request counts'
  logLine(log, 'warn', { quota: name, unit }, message)
}

/** Returns the known routes that serve an operation or are marked. */
function protectedRoutes (quotas: readonly DefinedQuota[], routes: Routes): Set<KnownRoute> {
  const found = new Set<KnownRoute>()
  for (const { operations } of quotas) {
    for (const operation of operations) {
      for (const route of routes.serving(operation)) found.add(route)
    }
  }
  for (const route of routes.known) if (markOf(route) !== undefined) found.add(route)
  return found
}

/** Warns of a protected route that may authenticate after the quota. */
function warnOfPreHandlers (
  { method, pattern, options }: KnownRoute,
  routes: Routes,
  log: FastifyBaseLogger
): void {
  const hooks = [options.preHandler ?? []].flat()
  if (hooks.length === 0 || method === 'HEAD') return
  const operation = { method, path: routes.paths.withoutPrefix(pattern) }
  const preHandlers = hooks.map(({ name }) => `${name || 'anonymous'}()`)
  logLine(log, 'warn', { operation, preHandlers }, `${method} ${pattern} ${preHandlerAdvice}`)
}
