import createRouter from 'find-my-way'
import type { OperationMatch, OperationMatcher } from '../subject/operation-matcher.js'
import type { RouterOptions } from '../subject/router-options.js'
import type { DeclaredRoute } from './declared-routes.js'

type Router = ReturnType<typeof createRouter>

const parametric = /[:*]/

/** Finds the declared routes that serve a protected operation. */
export class ServingRoutes {
  readonly #literal = new Map<OperationMatch, DeclaredRoute[]>()
  readonly #others = new Map<string, DeclaredRoute[]>()
  readonly #routers = new Map<string, Router>()
  readonly #prefix: string
  readonly #options: RouterOptions

  constructor (routes: readonly DeclaredRoute[], operations: OperationMatcher, prefix: string, options: RouterOptions) {
    this.#prefix = prefix
    this.#options = options
    for (const route of routes) {
      const match = operations.matchPattern(route.method, route.pattern)
      if (match === null) push(this.#others, route.method, route)
      else push(this.#literal, match, route)
    }
  }

  /** Returns the routes that serve an operation. They have the same pattern and differ in their constraints. */
  of (match: OperationMatch): readonly DeclaredRoute[] {
    return this.#literal.get(match) ?? this.#parametric(match)
  }

  #parametric ({ operation: { method, path } }: OperationMatch): readonly DeclaredRoute[] {
    const routes = this.#others.get(method) ?? []
    const serving: unknown = this.#routerOf(method, routes).find('GET', this.#prefix + path)?.store
    return routes.filter(({ pattern }) => pattern === serving)
  }

  #routerOf (method: string, routes: readonly DeclaredRoute[]): Router {
    const known = this.#routers.get(method)
    if (known !== undefined) return known
    const router = createRouter(this.#options)
    for (const pattern of new Set(routes.map(({ pattern }) => pattern).filter((pattern) => parametric.test(pattern)))) {
      try {
        router.on('GET', pattern, () => {}, pattern)
      } catch {
        // The router treats two patterns as equal if only the names of their parameters differ. The first one represents both.
      }
    }
    this.#routers.set(method, router)
    return router
  }
}

function push<Key> (groups: Map<Key, DeclaredRoute[]>, key: Key, route: DeclaredRoute): void {
  const group = groups.get(key)
  if (group === undefined) groups.set(key, [route])
  else group.push(route)
}
