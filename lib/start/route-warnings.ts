import type { FastifyInstance } from 'fastify'
import type { DefinedQuota } from './quotas.js'
import { logLine } from '../log.js'
import { quotasIn } from '../subject/mark.js'
import type { Operation } from '../subject/operation.js'
import type { Paths } from '../subject/paths.js'
import { markOf, type DeclaredRoute, type Routes } from './declared-routes.js'

const unseen = 'Marked routes and routes with parameters, wildcards or constraints that are declared before the plugin cannot be checked'
const scope = 'Check the options prefix and operations, and the Fastify instance on which the plugin is registered: a plugin file that registers it must be wrapped with fastify-plugin, because the quota does not apply outside its own scope (encapsulation)'

/** Warns of quotas that protect nothing, and of operations of the host's own list that no route serves. */
export function warnOfUnserved (fastify: FastifyInstance, quotas: readonly DefinedQuota[], routes: Routes, paths: Paths): void {
  const isServed = (operation: Operation): boolean => routes.isServedBefore(operation) || routes.serving(operation).length > 0
  const marks = routes.declared.map(markOf).filter((mark) => mark !== undefined)
  for (const { name, operations, isListed } of quotas.filter(({ isUnused }) => !isUnused)) {
    const unserved = operations.filter((operation) => !isServed(operation))
    if (unserved.length === operations.length && !isMarked(name, isListed, marks)) {
      logLine(fastify.log, 'warn', { quota: name, operations }, `the quota "${name}" protects nothing: no route ${operations.length === 0 ? 'that is declared after the plugin is marked with its name' : `serves ${listOf(unserved)}`}. ${scope}. ${unseen}${isListed && operations.length === 0 ? '. If only handlers use it, with fastify.quotaAcquire, ignore this' : ''}`)
    } else if (isListed && unserved.length > 0) {
      logLine(fastify.log, 'warn', { quota: name, operations: unserved }, `no route serves ${listOf(unserved)}. ${scope}. ${unseen}`)
    }
  }

  function listOf (operations: readonly Operation[]): string {
    return operations.map(({ method, path }) => `${method} ${paths.withPrefix(path)}${similarTo(fastify, routes, paths, method, path)}`).join(', ')
  }
}

/** Whether a mark can stand for the quota. A host that marks its routes for any quota does not need the default operations. */
function isMarked (quota: string, isListed: boolean, marks: readonly unknown[]): boolean {
  return marks.some((mark) => !isListed || typeof mark === 'function' || quotasIn(mark).includes(quota))
}

/** Returns a hint about the route that the host may have meant; an empty string if there is none. */
function similarTo (fastify: FastifyInstance, routes: Routes, paths: Paths, method: string, path: string): string {
  if (routes.has(method, path)) return ' (its route is outside the scope in which the plugin is registered)'
  const patterns = routes.declared.filter((route) => route.method === method).map(({ pattern }) => pattern)
  const other = patterns.find((pattern) => pattern.endsWith(path)) ??
    [path, fastify.prefix + path].find((url) => fastify.hasRoute({ method, url })) ??
    patterns.find((pattern) => pattern !== '/' && paths.withPrefix(path).endsWith(pattern))
  if (other !== undefined) return ` (the route ${method} ${other} has a different prefix)`
  const methods = fastify.supportedMethods.filter((method) => routes.has(method, path))
  return methods.length > 0 ? ` (the path has a route with another method: ${methods.join(', ')})` : ''
}

/** Warns of protected routes whose `HEAD` twin runs the same handler uncounted, and of those that authenticate after the quota. */
export function warnOfRoutes (fastify: FastifyInstance, operations: readonly Operation[], routes: Routes, paths: Paths): void {
  const listed = operations.flatMap((operation) => routes.serving(operation))
  for (const route of new Set([...listed, ...routes.declared.filter((route) => markOf(route) !== undefined)])) {
    if (route.method === 'GET' && routes.declared.some((head) => isTwin(head, route))) warnOfTwin(route.pattern)
    const preHandlers = [route.options.preHandler ?? []].flat().map(({ name }) => `${name || 'anonymous'}()`)
    if (preHandlers.length === 0 || route.method === 'HEAD') continue
    logLine(fastify.log, 'warn', { operation: { method: route.method, path: paths.withoutPrefix(route.pattern) }, preHandlers }, `${route.method} ${route.pattern} is protected and has a preHandler of its own, which runs after the quota; authenticate in onRequest or preValidation instead`)
  }
  for (const { method, path } of operations.filter((operation) => routes.isServedBefore(operation))) {
    if (method === 'GET' && routes.has('HEAD', path)) warnOfTwin(paths.withPrefix(path))
  }

  function warnOfTwin (pattern: string): void {
    logLine(fastify.log, 'warn', { operation: { method: 'GET', path: paths.withoutPrefix(pattern) } }, `HEAD ${pattern} runs the handler of the protected GET and is not subject to the quota; declare the route with exposeHeadRoute: false`)
  }
}

// The HEAD route of a marked GET route usually has the same mark, so it is subject to the quota.
function isTwin (head: DeclaredRoute, get: DeclaredRoute): boolean {
  return head.method === 'HEAD' && head.pattern === get.pattern && head.options.handler === get.options.handler && markOf(head) === undefined
}

/** Warns of quotas in another unit for which a request whose client disconnects early counts nothing. */
export function warnOfFreeRequests ({ log }: FastifyInstance, quotas: readonly DefinedQuota[]): void {
  for (const { name, unit, isFreeUnreported } of quotas) {
    if (isFreeUnreported) logLine(log, 'warn', { quota: name, unit }, `the quota "${name}" has neither cost nor unreported, so a request counts no ${unit} if its client disconnects before fastify.quotaCharge reports them; set cost to an estimate, or unreported to what such a request counts`)
  }
}
