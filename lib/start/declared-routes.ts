import createRouter from 'find-my-way'
import type { FastifyInstance, RouteOptions } from 'fastify'
import type { Operation } from '../subject/operation.js'
import { isLiteral, type Paths } from '../subject/paths.js'

/** A route that is declared after the plugin, in the plugin's scope. */
export interface DeclaredRoute {
  readonly method: string
  readonly pattern: string
  /** Fastify's options object, which other `onRoute` hooks can still modify until the server is ready. */
  readonly options: RouteOptions
}

/** Returns the routes that the options of an `onRoute` hook declare, one for each method. */
export function declaredRoutes (options: RouteOptions): DeclaredRoute[] {
  return [options.method].flat().map((method) => ({ method, pattern: options.url, options }))
}

/** Returns the value of a route's `config.quota`; undefined if the route is not marked. */
export function markOf ({ options }: DeclaredRoute): unknown {
  const mark = options.config?.quota
  return mark === false ? undefined : mark
}

/** The routes of a Fastify instance, as far as a plugin can know them. */
export class Routes {
  /** The routes that are declared after the plugin. */
  readonly declared: DeclaredRoute[] = []
  readonly #fastify: FastifyInstance
  readonly #paths: Paths
  readonly #servedBefore: readonly Operation[]

  /** Must be called while the plugin is being registered, to find the operations that routes declared before it serve. */
  constructor (fastify: FastifyInstance, paths: Paths, operations: readonly Operation[]) {
    this.#fastify = fastify
    this.#paths = paths
    this.#servedBefore = operations.filter(({ method, path }) => this.has(method, path))
  }

  /** Whether a literal route anywhere on the server serves the operation. */
  has (method: string, path: string): boolean {
    return this.#urlsOf(path).some((url) => this.#fastify.hasRoute({ method, url }))
  }

  isServedBefore (operation: Operation): boolean {
    return this.#servedBefore.includes(operation)
  }

  /** Returns the declared routes that serve an operation. They have the same pattern and differ in their constraints. */
  serving ({ method, path }: Operation): readonly DeclaredRoute[] {
    const routes = this.declared.filter((route) => route.method === method)
    const form = this.#paths.formOf(path)
    // Of the two paths of the route `/` in a scope with a prefix, Fastify reports only the one without a slash at its end.
    const endings = this.has(method, path) ? ['', '/'] : ['']
    const isServedBy = (pattern: string): boolean => endings.some((ending) => this.#paths.ofPattern(pattern + ending) === form)
    const literal = routes.filter(({ pattern }) => isLiteral(pattern) && isServedBy(pattern))
    return literal.length > 0 ? literal : this.#parametric(routes, path)
  }

  /** Returns an operation with a hint about the route that the host may have meant, if there is one. */
  describe ({ method, path }: Operation): string {
    return `${method} ${this.#paths.withPrefix(path)}${this.#hint(method, path)}`
  }

  #hint (method: string, path: string): string {
    if (this.has(method, path)) return ' (its route is outside the scope in which the plugin is registered)'
    const patterns = this.declared.filter((route) => route.method === method).map(({ pattern }) => pattern)
    const other = patterns.find((pattern) => pattern.endsWith(path)) ??
      [path, this.#fastify.prefix + path].find((url) => this.#fastify.hasRoute({ method, url })) ??
      patterns.find((pattern) => pattern !== '/' && this.#paths.withPrefix(path).endsWith(pattern))
    if (other !== undefined) return ` (the route ${method} ${other} has a different prefix)`
    const methods = this.#fastify.supportedMethods.filter((method) => this.has(method, path))
    return methods.length > 0 ? ` (the path has a route with another method: ${methods.join(', ')})` : ''
  }

  #parametric (routes: readonly DeclaredRoute[], path: string): readonly DeclaredRoute[] {
    // The host's router has already accepted the patterns.
    const router = createRouter({ ...this.#paths.options, allowUnsafeRegex: true })
    for (const pattern of new Set(routes.map(({ pattern }) => pattern).filter((pattern) => !isLiteral(pattern)))) {
      try {
        router.on('GET', pattern, () => {}, pattern)
      } catch {
        // The router treats two patterns as equal if only the names of their parameters differ. The first one represents both.
      }
    }
    const found = this.#urlsOf(path).map((url): unknown => router.find('GET', url)?.store)
    return routes.filter(({ pattern }) => found.includes(pattern))
  }

  /** The application path `/` is also the prefix itself. */
  #urlsOf (path: string): string[] {
    const url = this.#paths.withPrefix(path)
    return path === '/' && url !== '/' ? [url, url.slice(0, -1)] : [url]
  }
}
