import type { FastifyInstance } from 'fastify'
import type { DefinedQuota } from './quotas.js'
import { logLine } from '../log.js'
import { quotasIn } from '../subject/mark.js'
import type { Operation } from '../subject/operation.js'
import type { Paths } from '../subject/paths.js'
import { markOf, type DeclaredRoute, type Routes } from './declared-routes.js'

const advice = 'Check the options prefix and operations, and the Fastify instance on which the plugin is registered: a plugin file that ' +
  'registers it must be wrapped with fastify-plugin, because the quota does not apply outside its own scope (encapsulation). ' +
  'Marked routes and routes with parameters, wildcards or constraints that are declared before the plugin cannot be checked'
const unmarked = 'that is declared after the plugin is marked with its name'
const preHandlerAdvice = 'is protected and has a preHandler of its own, which runs after the quota; ' +
  'authenticate in onRequest or preValidation instead'
const twinAdvice = 'runs the handler of the protected GET and is not subject to the quota; declare the route with exposeHeadRoute: false'

/** Warns of quotas that protect nothing, and of operations of the host's own list that no route serves. */
export function warnOfUnserved ({ log }: FastifyInstance, quotas: readonly DefinedQuota[], routes: Routes): void {
  const isServed = (operation: Operation): boolean => routes.isServedBefore(operation) || routes.serving(operation).length > 0
  const listOf = (operations: readonly Operation[]): string => operations.map((operation) => routes.describe(operation)).join(', ')
  const marks = routes.declared.map(markOf).filter((mark) => mark !== undefined)
  for (const { name, operations, isListed, isUnused } of quotas) {
    const unserved = operations.filter((operation) => !isServed(operation))
    // A mark with a function can stand for each quota. A host that marks its routes for any quota does not need the default operations.
    const isMarked = marks.some((mark) => !isListed || typeof mark === 'function' || quotasIn(mark).includes(name))
    if (isUnused) continue
    if (unserved.length === operations.length && !isMarked) {
      const exception = isListed && operations.length === 0 ? '. If only handlers use it, with fastify.quotaAcquire, ignore this' : ''
      const missing = operations.length === 0 ? unmarked : `serves ${listOf(unserved)}`
      logLine(log, 'warn', { quota: name, operations }, `the quota "${name}" protects nothing: no route ${missing}. ${advice}${exception}`)
    } else if (isListed && unserved.length > 0) {
      logLine(log, 'warn', { quota: name, operations: unserved }, `no route serves ${listOf(unserved)}. ${advice}`)
    }
  }
}

/** Warns of protected routes whose `HEAD` twin runs the same handler uncounted, and of those that authenticate after the quota. */
export function warnOfRoutes ({ log }: FastifyInstance, operations: readonly Operation[], routes: Routes, paths: Paths): void {
  const warn = (method: string, pattern: string, advice: string, properties: object): void => {
    const operation = { method: method === 'HEAD' ? 'GET' : method, path: paths.withoutPrefix(pattern) }
    logLine(log, 'warn', { operation, ...properties }, `${method} ${pattern} ${advice}`)
  }
  const listed = operations.flatMap((operation) => routes.serving(operation))
  for (const route of new Set([...listed, ...routes.declared.filter((route) => markOf(route) !== undefined)])) {
    const { method, pattern, options } = route
    if (method === 'GET' && routes.declared.some((head) => isTwin(head, route))) warn('HEAD', pattern, twinAdvice, {})
    const preHandlers = [options.preHandler ?? []].flat().map(({ name }) => `${name || 'anonymous'}()`)
    if (preHandlers.length > 0 && method !== 'HEAD') warn(method, pattern, preHandlerAdvice, { preHandlers })
  }
  for (const { path } of operations.filter((operation) => operation.method === 'GET' && routes.isServedBefore(operation))) {
    if (routes.has('HEAD', path)) warn('HEAD', paths.withPrefix(path), twinAdvice, {})
  }
}

// The HEAD route of a marked GET route usually has the same mark, so it is subject to the quota.
function isTwin (head: DeclaredRoute, { pattern, options: { handler } }: DeclaredRoute): boolean {
  return head.method === 'HEAD' && head.pattern === pattern && head.options.handler === handler && markOf(head) === undefined
}

/** Warns of quotas in another unit for which a request whose client disconnects early counts nothing. */
export function warnOfFreeRequests ({ log }: FastifyInstance, quotas: readonly DefinedQuota[]): void {
  for (const { name, unit } of quotas.filter(({ isFreeUnreported }) => isFreeUnreported)) {
    logLine(log, 'warn', { quota: name, unit }, `the quota "${name}" has neither cost nor unreported, so a request counts no ${unit} if ` +
      'its client disconnects before fastify.quotaCharge reports them; set cost to an estimate, or unreported to what such a request ' +
      'counts')
  }
}
