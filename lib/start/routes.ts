import type { FastifyInstance, RouteOptions } from 'fastify'
import { isObject } from '../option-checks.js'
import { namesIn } from '../subject/mark.js'
import type { Operation } from '../subject/operation.js'
import { isLiteral, withoutExpressions, type Paths } from '../subject/paths.js'
import { RoutePattern } from './route-pattern.js'

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

/** Whether a route was declared before the plugin. */
export function isDeclaredBefore ({ options }: KnownRoute): boolean {
  return options.handler === undefined
}

/** Returns the value of a route's `config.quota`; undefined if the route is not marked. */
export function markOf ({ options }: KnownRoute): unknown {
  // Requests have a copy of the config, without what it inherits.
  const { quota: mark } = { ...options.config }
  const isNone = typeof mark !== 'function' && mark !== undefined && namesIn(mark).length === 0
  return isNone ? undefined : mark
}

/** Whether a route is marked with the name of a quota. */
export function isMarkedWith (quota: string, route: KnownRoute): boolean {
  const mark = markOf(route)
  return mark !== undefined && typeof mark !== 'function' && namesIn(mark).includes(quota)
}

/** Whether a route is marked with a quota, or with a function that can return its name. */
export function mayBeMarkedWith (quota: string, route: KnownRoute): boolean {
  return typeof markOf(route) === 'function' || isMarkedWith(quota, route)
}

/** A known route that matches an operation. */
interface Candidate {
  readonly route: KnownRoute
  readonly parsed: RoutePattern
  /** A path of the operation that the route matches. */
  readonly path: string
}

/** The routes of a Fastify instance, as far as a plugin can know them. */
export class Routes {
  readonly known: KnownRoute[] = []
  readonly #parsed = new Map<KnownRoute, RoutePattern>()

  /**
   * Must be called while the plugin is being registered, to find the routes of operations that were
   * declared before it.
   */
  constructor (
    readonly fastify: FastifyInstance,
    readonly paths: Paths,
    operations: readonly Operation[]
  ) {
    for (const { method, path } of operations) {
      this.#addBefore(method, path)
      if (method === 'GET') this.#addBefore('HEAD', path)
    }
  }

  #addBefore (method: string, path: string): void {
    const pattern = this.#find(method, path)
    // Several quotas can list an operation.
    const isKnown = this.known.some((route) => route.method === method && route.pattern === pattern)
    if (pattern !== undefined && !isKnown) this.add({ method, pattern, options: {} })
  }

  add (route: KnownRoute): void {
    this.known.push(route)
    this.#parsed.set(route, new RoutePattern(route.pattern, this.paths))
  }

  /**
   * Whether routes that were declared before the plugin can be outside its scope: it is a scope
   * without a prefix of its own, by which they could be told. A scope inherits from its parent.
   */
  get canBeOutside (): boolean {
    const parent: unknown = Object.getPrototypeOf(this.fastify)
    return isObject(parent) && Reflect.get(parent, 'prefix') === this.fastify.prefix
  }

  /** Whether Fastify declares a `HEAD` route for each `GET` route that does not set it. */
  get exposesHeadRoutes (): boolean {
    return Reflect.get(this.fastify.initialConfig, 'exposeHeadRoutes') !== false
  }

  /** Whether one of the known routes is marked with a quota, or with a function. */
  areMarkedWith (quota: string): boolean {
    return this.known.some((route) => mayBeMarkedWith(quota, route))
  }

  /** Returns the known routes that serve an operation. */
  serving ({ method, path }: Operation): readonly KnownRoute[] {
    const candidates: Candidate[] = []
    for (const url of this.#urlsServed(method, path)) {
      for (const [route, parsed] of this.#parsed) {
        const candidatePath = pathOn(route.pattern, url)
        if (route.method === method && parsed.matches(candidatePath)) {
          candidates.push({ route, parsed, path: candidatePath })
        }
      }
    }
    const serving = new Set<KnownRoute>()
    for (const { route, parsed, path } of candidates) {
      const isPreceded = candidates.some(
        (other) => other.parsed.matches(path) && other.parsed.isPreferredTo(parsed)
      )
      if (!isPreceded) serving.add(route)
    }
    return [...serving]
  }

  /**
   * Whether the routes of the operations can be checked. Of literal routes below a prefix with a
   * parameter, only those that are declared after the plugin can be known.
   */
  get canBeChecked (): boolean {
    const { prefix } = this.paths
    if (isLiteral(prefix)) return true
    const below = new RoutePattern(`${prefix}/*`, this.paths)
    return this.known.some(({ pattern }) => below.matches(pattern))
  }

  /**
   * Returns an operation with a hint about the route that the host may have meant, if there is one.
   */
  describe (operation: Operation): string {
    const described = `${operation.method} ${this.paths.prefix}${operation.path}`
    const hint = this.#hintAt(operation)
    return hint === undefined ? described : `${described} (${hint})`
  }

  #hintAt ({ method, path }: Operation): string | undefined {
    if (this.#find(method, path) !== undefined) {
      return 'its route is outside the scope in which the plugin is registered'
    }
    for (const other of this.fastify.supportedMethods) {
      const pattern = this.#find(other, path)
      if (pattern !== undefined) return `the route ${other} ${pattern} has a different method`
    }
    const url = this.paths.prefix + path
    const pattern = this.#patternsOf(method, path).find(
      (each) => each !== '/' && (each.endsWith(path) || url.endsWith(each))
    )
    if (pattern === undefined) return undefined
    return `the route ${method} ${pattern} has a different prefix`
  }

  /** Returns the patterns of known routes, and those at which a host may declare the path. */
  #patternsOf (method: string, path: string): string[] {
    const patterns: string[] = []
    for (const route of this.known) if (route.method === method) patterns.push(route.pattern)
    for (const url of [path, this.fastify.prefix + path]) {
      if (this.fastify.hasRoute({ method, url })) patterns.push(url)
    }
    return patterns
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

  /**
   * Of the two paths of the route `/` in a scope with a prefix, Fastify reports only the one
   * without a slash at its end.
   */
  #urlsServed (method: string, path: string): string[] {
    const urls = this.#urlsOf(path)
    if (this.#find(method, path) === undefined) return urls
    return [...urls, ...urls.map((url) => url.replace(/\/$/, ''))]
  }
}

/**
 * Returns a path of an operation. In place of parameters of the prefix, requests have what the
 * pattern of the route has there.
 */
function pathOn (pattern: string, url: string): string {
  const ofPattern = withoutExpressions(pattern).split('/')
  const segments = withoutExpressions(url)
    .split('/')
    .map((segment, index) => (isLiteral(segment) ? segment : (ofPattern[index] ?? '')))
  // Two colons stand for a literal one.
  return segments.join('/').replaceAll('::', ':')
}
