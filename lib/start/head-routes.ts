import type { FastifyBaseLogger } from 'fastify'
import { logLine } from '../log.js'
import type { DefinedQuota } from './quotas.js'
import { isDeclaredBefore, type KnownRoute, type Routes } from './routes.js'

const advice = 'declare the GET route with exposeHeadRoute: false, or protect HEAD, too'

/**
 * Warns of each `HEAD` route that runs, or may run, the handler of a protected `GET` route and is
 * not subject to the same quota.
 */
export function warnOfHeadRoutes (
  quotas: readonly DefinedQuota[],
  routes: Routes,
  log: FastifyBaseLogger
): void {
  const uncounted = new Set(quotas.flatMap((quota) => uncountedBy(quota, routes)))
  for (const route of uncounted) {
    const { pattern } = route
    const operation = { method: 'GET', path: pattern }
    const message =
      `HEAD ${pattern} is not subject to the quota and runs the handler of the protected GET, ` +
      `unless it has its own; ${advice}`
    logLine(log, 'warn', { operation }, message)
  }
}

function uncountedBy (quota: DefinedQuota, routes: Routes): KnownRoute[] {
  const counted = routes.protectedBy(quota)
  return [...counted]
    .filter(({ method }) => method === 'GET')
    .flatMap((route) => twinsOf(route, routes))
    .filter((head) => !counted.has(head))
}

/** Returns the `HEAD` routes that run, or may run, the handler of a `GET` route. */
function twinsOf (get: KnownRoute, { known, exposesHeadRoutes }: Routes): KnownRoute[] {
  const { handler, exposeHeadRoute = exposesHeadRoutes } = get.options
  // Another plugin's `onRoute` hook can have wrapped the handler of each in a function of its own.
  const isExposed = exposeHeadRoute && !isDeclaredBefore(get)
  return known.filter(
    (head) =>
      head.method === 'HEAD' &&
      head.pattern === get.pattern &&
      (isExposed || head.options.handler === handler)
  )
}
