import type { FastifyBaseLogger } from 'fastify'
import { logLine } from '../log.js'
import type { DefinedQuota } from './quotas.js'
import { isDeclaredBefore, mayBeMarkedWith, type KnownRoute, type Routes } from './routes.js'

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
    const operation = { method: 'GET', path: routes.paths.withoutPrefix(pattern) }
    // No public interface of Fastify tells the handler of a route that was declared before.
    const unless = isDeclaredBefore(route) ? ', unless it has its own' : ''
    const message =
      `HEAD ${pattern} is not subject to the quota and runs the handler of the protected GET` +
      `${unless}; ${advice}`
    logLine(log, 'warn', { operation }, message)
  }
}

function uncountedBy ({ name, operations }: DefinedQuota, routes: Routes): KnownRoute[] {
  const { paths } = routes
  const counted = operations
    .filter(({ method }) => method === 'HEAD')
    .map(({ path }) => paths.formOf(path))
  const isCounted = (path: string): boolean => counted.includes(paths.formOf(path))
  const listed = operations
    .filter(({ method, path }) => method === 'GET' && !isCounted(path))
    .flatMap((operation) => routes.serving(operation))
  const marked = routes.known.filter(
    (route) => mayBeMarkedWith(name, route) && !isCounted(paths.withoutPrefix(route.pattern))
  )
  return [...listed, ...marked]
    .flatMap((route) => headRoutesOf(route, routes))
    .filter((head) => !mayBeMarkedWith(name, head))
}

/** Returns the `HEAD` routes that run, or may run, the handler of a `GET` route. */
function headRoutesOf (get: KnownRoute, { known, exposesHeadRoutes }: Routes): KnownRoute[] {
  if (get.method !== 'GET') return []
  const { handler, constraints, exposeHeadRoute = exposesHeadRoutes } = get.options
  // Fastify declares the HEAD route of a GET route right after it, if there is none. Other
  // `onRoute` hooks can have wrapped the handler of each in a function of its own.
  const isExposed = !isDeclaredBefore(get) && exposeHeadRoute
  const isLater = (route: KnownRoute): boolean => known.indexOf(route) > known.indexOf(get)
  return known.filter(
    (head) =>
      head.method === 'HEAD' &&
      head.pattern === get.pattern &&
      (head.options.handler === handler ||
        (isExposed && isLater(head) && head.options.constraints === constraints))
  )
}
