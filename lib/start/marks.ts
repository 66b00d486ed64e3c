import { UnknownQuotaError as QuotaConflictError, shown } from '../errors.js'
import type { MarkedRoutes } from '../subject/marked-routes.js'
import type { OperationMatch, OperationMatcher } from '../subject/operation-matcher.js'
import { markOf, type DeclaredRoute } from './declared-routes.js'

/** A route that is marked with a quota. */
export interface Marked {
  readonly route: DeclaredRoute
  readonly match: OperationMatch
}

/** Returns the routes that are marked with a quota. */
export function markedIn (routes: readonly DeclaredRoute[], marked: MarkedRoutes): Marked[] {
  return routes.flatMap((route) => {
    const mark = markOf(route)
    return mark === undefined ? [] : [{ route, match: marked.match(mark, route.method, route.pattern) }]
  })
}

/**
 * Throws if a route is marked with a quota that does not exist, or if it is also an operation of another quota.
 *
 * @throws {UnknownQuotaError}
 * @throws {QuotaConflictError}
 */
export function assertMark (route: DeclaredRoute, marked: MarkedRoutes, operations: OperationMatcher): void {
  const { method, pattern } = route
  for (const { match: { quota } } of markedIn([route], marked)) {
    const listed = operations.matchPattern(method, pattern)
    if (listed !== null && listed.quota !== quota) throw new QuotaConflictError(`${method} ${pattern}`, shown(quota), shown(listed.quota))
  }
}
