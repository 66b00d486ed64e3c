import createRouter from 'find-my-way'
import type { FastifyInstance, RouteOptions } from 'fastify'
import type { Operation } from '../subject/operation.js'
import { isLiteral, type Paths } from '../subject/paths.js'

/**
 * A route that the plugin can know: one that is declared after it in its scope, or that served an
 * operation before.
 */
export interface KnownRoute {
  readonly method: string
  readonly pattern: string
  /**
   * Fastify's object, which other `onRoute` hooks can still modify until the server is ready. Empty
   * if the route was declared before.
   */
  readonly options: Partial<RouteOptions>
}

/** Returns the value of a route's `config.quota`; undefined if the route is not marked. */
export function markOf ({ options }: KnownRoute): unknown {
  const mark = options.config?.quota
  return mark === false ? undefined : mark
}

/** The routes of a Fastify instance, as far as a plugin can know them. */
export class Routes {
  readonly known: KnownRoute[] = []
  // Its paths begin with the method. The host's router has already accepted the patterns.
  readonly #router: ReturnType<typeof createRouter>

  /**
   * Must be called while the plugin is being registered, to find the routes of operations that were
   * declared before it.
   */
  constructor (
    readonly fastify: FastifyInstance,
    readonly paths: Paths,
    operations: readonly Operation[]
  ) {
    this.#router = createRouter({ ...paths.options, allowUnsafeRegex: true })
    for (const { method, path } of operations) {
      for (const each of method === 'GET' ? ['GET', 'HEAD'] : [method]) {
        const pattern = this.#find(each, path)
        if (pattern !== undefined) this.add({ method: each, pattern, options: {} })
      }
    }
  }

  add (route: KnownRoute): void {
    this.known.push(route)
    try {
      this.#router.on('GET', `/${route.method}${route.pattern}`, () => {}, route.pattern)
    } catch {
      // For the router, patterns are equal if only their constraints or the names of their
      // parameters differ. The first represents them.
    }
  }

  /** Returns the known routes that serve an operation. */
  serving ({ method, path }: Operation): readonly KnownRoute[] {
    const urls = this.#urlsOf(path)
    // Of the two paths of the route `/` in a scope with a prefix, Fastify reports only the one
    // without a slash at its end.
    if (this.#find(method, path) !== undefined) {
      urls.push(...urls.map((url) => url.replace(/\/$/, '')))
    }
    const reaching = urls.map((url) => this.#reaching(method, url))
    return this.known.filter(
      (route) => route.method === method && reaching.some((isReached) => isReached(route.pattern))
    )
  }

  /**
   * Returns an operation with a hint about the route that the host may have meant, if there is one.
   */
  describe ({ method, path }: Operation): string {
    const url = this.paths.prefix + path
    if (this.#find(method, path) !== undefined) {
      return `${method} ${url} (its route is outside the scope in which the plugin is registered)`
    }
    const before = [path, this.fastify.prefix + path].filter((url) =>
      this.fastify.hasRoute({ method, url })
    )
    const patterns = [
      ...this.known.filter((route) => route.method === method).map(({ pattern }) => pattern),
      ...before
    ]
    const other = patterns.find(
      (pattern) => pattern !== '/' && (pattern.endsWith(path) || url.endsWith(pattern))
    )
    return `${method} ${url}${other === undefined ? '' : ` (the route ${method} ${other} has a different prefix)`}`
  }

  /** Returns a function that tells whether requests for a URL reach the route with a pattern. */
  #reaching (method: string, url: string): (pattern: string) => boolean {
    const patternAt = (path: string): unknown =>
      this.#router.find('GET', `/${method}${path.replaceAll('::', ':').replaceAll('%', '%25')}`)
        ?.store
    if (isLiteral(url)) {
      const found = patternAt(url)
      return (pattern) => pattern === url || pattern === found
    }
    const segments = url.split('/')
    return (pattern) => {
      // In place of parameters of the prefix, requests have what the pattern of the route has
      // there.
      const ofRoute = pattern.split('/')
      const path = segments
        .map((segment, index) => (isLiteral(segment) ? segment : ofRoute[index]))
        .join('/')
      return pattern === path || patternAt(path) === pattern
    }
  }

  /**
   * Returns the path of a literal route anywhere on the server that serves the operation, if there
   * is one.
   */
  #find (method: string, path: string): string | undefined {
    return this.#urlsOf(path).find((url) => this.fastify.hasRoute({ method, url }))
  }

  /** The application path `/` is also the prefix itself. */
  #urlsOf (path: string): string[] {
    const url = this.paths.prefix + path
    return path === '/' && url !== '/' ? [url, url.slice(0, -1)] : [url]
  }
}
