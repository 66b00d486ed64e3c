import type { FastifyInstance } from 'fastify'
import type { MarkedRoutes } from '../subject/marked-routes.js'
import type { OperationMatch, OperationMatcher } from '../subject/operation-matcher.js'
import { readRouterOptions } from '../subject/router-options.js'
import { collectRoutes, type DeclaredRoute } from './declared-routes.js'
import { warnOfHeadTwin } from './head-twins.js'
import { warnOfLatePreHandlers } from './late-pre-handlers.js'
import { assertMark, markedIn, type Marked } from './marks.js'
import { logProtections } from './protection-summary.js'
import { ServingRoutes } from './serving-routes.js'
import { SimilarRoutes } from './similar-routes.js'
import { warnOfUnservedOperations } from './unserved-operations.js'

/** The properties of a quota that determine what is logged. */
export interface ReportedQuota {
  readonly name: string
  /** Whether the host has listed the operations of the quota; false if they are the default ones. */
  readonly isListed: boolean
  /** The configured limit. */
  readonly configured: number
}

/** Checks each route when it is declared. When the server is ready, logs what is protected, and warns of probable mistakes. */
export class RouteReport {
  readonly #fastify: FastifyInstance
  readonly #operations: OperationMatcher
  readonly #marked: MarkedRoutes
  readonly #prefix: string
  readonly #declaredBefore: ReadonlySet<OperationMatch>
  readonly #routes: readonly DeclaredRoute[]

  /**
   * Must be called while the plugin is being registered, to distinguish the routes declared before the plugin from those declared
   * after it.
   */
  constructor (fastify: FastifyInstance, operations: OperationMatcher, marked: MarkedRoutes, prefix: string) {
    this.#fastify = fastify
    this.#operations = operations
    this.#marked = marked
    this.#prefix = prefix
    this.#declaredBefore = new Set(operations.all().filter(({ operation: { method, path } }) => fastify.hasRoute({ method, url: prefix + path })))
    this.#routes = collectRoutes(fastify, (route) => { assertMark(route, marked, operations) })
  }

  log (quotas: readonly ReportedQuota[], mode: 'enforce' | 'shadow'): void {
    const marks = markedIn(this.#routes, this.#marked)
    const serving = new ServingRoutes(this.#routes, this.#operations, this.#prefix, readRouterOptions(this.#fastify.initialConfig))
    const protections = quotas.map(({ name, configured }) => ({ quota: name, perMinute: configured, operations: this.#protectedBy(name, marks) }))
    logProtections(this.#fastify, protections, mode)
    const unserved = this.#operations.all().filter((match) => serving.of(match).length === 0 && !this.#declaredBefore.has(match))
    warnOfUnservedOperations(this.#fastify, this.#mistakesAmong(unserved, quotas, marks), this.#prefix, new SimilarRoutes(this.#fastify, this.#prefix, this.#routes))
    for (const match of this.#operations.all()) {
      const { operation } = match
      const routes = serving.of(match)
      warnOfHeadTwin(this.#fastify, operation, this.#prefix + operation.path, routes, this.#routes)
      warnOfLatePreHandlers(this.#fastify, operation, routes)
    }
    for (const { route, match: { operation } } of marks) {
      const isListed = this.#operations.matchPattern(route.method, route.pattern) !== null
      if (!isListed && route.method !== 'HEAD') warnOfLatePreHandlers(this.#fastify, operation, [route])
    }
  }

  #protectedBy (quota: string, marks: readonly Marked[]): string[] {
    const listed = this.#operations.all().filter((match) => match.quota === quota).map(({ operation: { method, path } }) => `${method} ${this.#prefix}${path}`)
    const marked = marks.filter(({ match }) => match.quota === quota).map(({ route: { method, pattern } }) => `${method} ${pattern}`)
    return [...new Set([...listed, ...marked])]
  }

  // A host that serves only some of the default operations, or that marks its routes instead, has made no mistake.
  #mistakesAmong (unserved: readonly OperationMatch[], quotas: readonly ReportedQuota[], marks: readonly Marked[]): readonly OperationMatch[] {
    const isDefault = ({ quota }: OperationMatch): boolean => quotas.some(({ name, isListed }) => name === quota && !isListed)
    const servesSome = this.#operations.all().filter(isDefault).length > unserved.filter(isDefault).length
    return servesSome || marks.length > 0 ? unserved.filter((match) => !isDefault(match)) : unserved
  }
}
