import type { FastifyInstance, RouteOptions } from 'fastify'
import { namesIn } from '../subject/mark.js'
import type { Operation } from '../subject/operation.js'
import type { Paths } from '../subject/paths.js'

/**
 * A route that the plugin can know: one that is declared after it in its scope, or that was
 * declared before with the exact pattern of an operation.
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

/** What protects a route: a quota's operations, or its name in a mark. */
interface Protection {
  readonly name: string
  readonly operations: readonly Operation[]
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
function mayBeMarkedWith (quota: string, route: KnownRoute): boolean {
  return typeof markOf(route) === 'function' || isMarkedWith(quota, route)
}

/**
 * The routes of a Fastify instance, as far as a plugin can know them, for hints at the start. Their
 * patterns are compared with those of operations. Which route the router would choose for a request
 * is not worked out.
 */
export class Routes {
  readonly known: KnownRoute[] = []
  readonly #fastify: FastifyInstance

  /**
   * Must be called while the plugin is being registered, to find the routes of operations that were
   * declared before it.
   */
  constructor (
    fastify: FastifyInstance,
    readonly paths: Paths,
    operations: readonly Operation[]
  ) {
    this.#fastify = fastify
    for (const { method, path } of operations) {
      this.#addBefore(method, path)
      if (method === 'GET') this.#addBefore('HEAD', path)
    }
  }

  #addBefore (method: string, path: string): void {
    for (const pattern of this.#patternsOf(path)) {
      // Several quotas can list an operation.
      const isKnown = this.known.some(
        (route) => route.method === method && route.pattern === pattern
      )
      const isDeclared = this.#fastify.hasRoute({ method, url: pattern })
      if (isDeclared && !isKnown) this.add({ method, pattern, options: {} })
    }
  }

  /** Returns the patterns of an operation. The application path `/` is also the prefix itself. */
  #patternsOf (path: string): string[] {
    const { prefix } = this.paths
    return path === '/' && prefix !== '' ? [`${prefix}/`, prefix] : [prefix + path]
  }

  add (route: KnownRoute): void {
    this.known.push(route)
  }

  /** Whether Fastify declares a `HEAD` route for each `GET` route that does not set it. */
  get exposesHeadRoutes (): boolean {
    return Reflect.get(this.#fastify.initialConfig, 'exposeHeadRoutes') !== false
  }

  /** Whether one of the known routes is marked with a quota, or with a function. */
  areMarkedWith (quota: string): boolean {
    return this.known.some((route) => mayBeMarkedWith(quota, route))
  }

  /** Returns the known routes with the exact pattern of an operation, as the router compares it. */
  withPatternOf ({ method, path }: Operation): KnownRoute[] {
    const forms = this.#patternsOf(path).map((pattern) => this.paths.formOf(pattern))
    return this.known.filter(
      (route) => route.method === method && forms.includes(this.paths.formOf(route.pattern))
    )
  }

  /** Returns the known routes that a quota protects, or may protect as a mark decides. */
  protectedBy ({ name, operations }: Protection): Set<KnownRoute> {
    const listed = operations.flatMap((operation) => this.withPatternOf(operation))
    const marked = this.known.filter((route) => mayBeMarkedWith(name, route))
    return new Set([...listed, ...marked])
  }
}
