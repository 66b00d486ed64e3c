import type { FastifyInstance } from 'fastify'
import createPlugin from 'fastify-plugin'
import { channelsOf } from './channels.js'
import { createQuotaAcquirer, type QuotaAcquirer } from './handler-permit.js'
import { createQuotaHook } from './hook.js'
import {
  configurationIn,
  limitVariables,
  readEnvironment,
  type QuotaConfig
} from './limit/configuration.js'
import { variableOf } from './limit/limit.js'
import { Preferences } from './limit/preferences.js'
import type { QuotaDecision } from './permit/decision.js'
import { createForgetter, type QuotaForgetter } from './permit/forget.js'
import { Closing } from './permit/closing.js'
import { QuotaList } from './permit/quota-list.js'
import { QuotaLog } from './permit/quota-log.js'
import type { Quota, QuotaInfo } from './permit/quota.js'
import {
  createQuotaCharger,
  quotaExtend,
  quotaGranted,
  type QuotaCharger,
  type QuotaExtender,
  type QuotaGrantReader
} from './permit/request-permit.js'
import { decisionsAccessor, quotaAccessor } from './permit/request-state.js'
import { createStandingReader, type QuotaStandingReader } from './permit/standing.js'
import { Responder } from './refusal/responder.js'
import { assertDecorators, chooseStore, preferencesOf, Registrations } from './start/host.js'
import type { QuotaOptions } from './start/options.js'
import { assertQuotaOptions } from './start/plugin-checks.js'
import { addMarkedDefault, defineQuotas, describeQuotas } from './start/quotas.js'
import { report } from './start/report.js'
import { markOf, Routes, type KnownRoute } from './start/routes.js'
import { logStoreChanges } from './start/store-changes.js'
import { noteVariables, warnOfUnreadVariables } from './start/variables.js'
import type { QuotaStore } from './store/store.js'
import { quotasOf, type Named, type RouteMark } from './subject/mark.js'
import { Paths } from './subject/paths.js'
import { RequestMatcher } from './subject/request-matcher.js'

declare module 'fastify' {
  interface FastifyInstance {
    /** The store that holds the quota's counters. */
    quotaStore: QuotaStore
    /** The configured limits, read at start-up. */
    quotaConfig: QuotaConfig
    /** The quotas, in their order. */
    readonly quotas: readonly QuotaInfo[]
    /** Decides on a request in the middle of its handler. */
    quotaAcquire: QuotaAcquirer
    /** Reports what a request has used. */
    quotaCharge: QuotaCharger
    /** Takes more for a request in progress. */
    quotaExtend: QuotaExtender
    /** Returns how much of a unit a request was granted. */
    quotaGranted: QuotaGrantReader
    /** Returns the standing of a request's caller without counting the request. */
    quotaStanding: QuotaStandingReader
    /** Removes a caller's own counter in every quota. */
    quotaForget: QuotaForgetter
  }
  interface FastifyRequest {
    /**
     * The decision that refuses this request, or else that of its first quota; null if the request
     * is subject to no quota.
     */
    quota: QuotaDecision | null
    /**
     * The decision of each quota on this request if it was admitted; the one that refuses it
     * otherwise.
     */
    readonly quotaDecisions: readonly QuotaDecision[]
  }
  interface FastifyContextConfig {
    /** The mark of the route: its quotas beside those that list its operation. */
    quota?: RouteMark
  }
}

const registrations = new Registrations()

async function plugin (fastify: FastifyInstance, options: QuotaOptions): Promise<void> {
  assertQuotaOptions(options)
  registrations.assertFirst(fastify)
  const store = chooseStore(fastify, options.store)
  const defined = defineQuotas(options, store)
  assertDecorators(fastify)
  const paths = new Paths(options.prefix ?? fastify.prefix, fastify.initialConfig)
  // Everything that can fail comes first, so that a registration that failed leaves nothing behind.
  const environment = await readEnvironment(fastify, options.dotenv)
  const variables = limitVariables(defined)
  const configuration = configurationIn(environment, variables)
  noteVariables(fastify, environment.keys(), Object.keys(variables.defaults))
  registrations.add(fastify)

  const settings = defined.map((quota) => ({
    ...quota,
    // There is no variable of a limit that is a function.
    configured: configuration[variableOf(quota.preference)] ?? quota.configured
  }))
  const channels = channelsOf(fastify.server)
  const preferences = new Preferences(fastify.log, channels, options.preferenceTimeout)
  const quotas = new QuotaList(settings, preferences)
  const named: Named<Quota> = (name, where) => quotas.named(name, where)
  const closing = new Closing()
  const quotaLog = new QuotaLog(fastify.log)
  const server = { quotaLog, channels, closing }
  const responder = new Responder(options)
  const handlerPermits = { log: fastify.log, quotas, server, responder }
  const requests = new RequestMatcher(quotas.all, paths, named)
  const routes = new Routes(
    fastify,
    paths,
    defined.flatMap(({ operations }) => operations)
  )
  // Accessors, because plain values would not reach the requests of scopes that existed before the
  // decoration.
  fastify.decorateRequest('quota', quotaAccessor)
  fastify.decorateRequest('quotaDecisions', decisionsAccessor)
  const { preferences: reader } = options
  if (!fastify.hasDecorator('quotaStore')) fastify.decorate('quotaStore', store)
  if (reader !== undefined && reader !== false && !fastify.hasDecorator('preferences')) {
    fastify.decorate('preferences', reader)
  }
  fastify.decorate('quotaConfig', configuration)
  const described = describeQuotas(settings)
  fastify.decorate('quotas', described)
  channels.quotas.add(described)
  fastify.decorate('quotaAcquire', createQuotaAcquirer(handlerPermits))
  fastify.decorate('quotaCharge', createQuotaCharger(quotaLog))
  fastify.decorate('quotaExtend', quotaExtend)
  fastify.decorate('quotaGranted', quotaGranted)
  fastify.decorate('quotaStanding', createStandingReader(quotas))
  fastify.decorate('quotaForget', createForgetter(quotas))
  fastify.addHook('onRoute', function quotaRoute (declared) {
    for (const method of [declared.method].flat()) {
      const route = { method, pattern: declared.url, options: declared }
      assertMark(route, named)
      routes.add(route)
    }
  })
  fastify.addHook('preHandler', createQuotaHook(requests, server, responder))
  fastify.addHook('onReady', async function quotaReady () {
    preferences.reader = preferencesOf(fastify, reader)
    addMarkedDefault(described, settings, routes)
    report(fastify, settings, routes)
    warnOfUnreadVariables(fastify)
  })
  const stopLogging = logStoreChanges(
    fastify,
    settings.map(({ store }) => store)
  )
  fastify.addHook('onClose', async function quotaClose () {
    stopLogging()
  })
  settleBeforeClosing(fastify, closing)
}

/** Throws an `UnknownQuotaError` if the mark of a route names a quota that does not exist. */
function assertMark (route: KnownRoute, named: Named<Quota>): void {
  const mark = markOf(route)
  // What a function returns is checked for each request.
  if (mark !== undefined && typeof mark !== 'function') {
    quotasOf(mark, `${route.method} ${route.pattern}`, named)
  }
}

/**
 * Settles all permits when the server has closed, and before the `onClose` hooks of the host, which
 * close the clients of stores. Fastify has no hook for this. But of the functions for `onClose`,
 * the one that is added last runs first, and all others have been added when the server begins to
 * close. Fastify's types lack the method `onClose`.
 */
function settleBeforeClosing (fastify: FastifyInstance, closing: Closing): void {
  let isAdded = false
  function addLast (): void {
    // Fastify 5.0.0 runs a `preClose` hook twice.
    if (isAdded) return
    isAdded = true
    Reflect.get(fastify, 'onClose').call(fastify, () => closing.endAll())
  }
  fastify.addHook('preClose', async function quotaPreClose () {
    addLast()
  })
  // Where a `preClose` hook of the host throws, Fastify runs no later one, and closes the server.
  whenClosed(fastify.server, addLast)
}

/** The functions that run when a server has closed, for each scope that the plugin is in. */
const closings = new WeakMap<FastifyInstance['server'], (() => void)[]>()

/** Adds one listener to a server, because Node.js warns of a leak above ten. */
function whenClosed (server: FastifyInstance['server'], run: () => void): void {
  const known = closings.get(server)
  if (known !== undefined) {
    known.push(run)
    return
  }
  const added = [run]
  closings.set(server, added)
  server.once('close', () => {
    for (const each of added) each()
  })
}

/**
 * Limits how often each authenticated caller can send requests to the protected operations of a
 * service, and what they cost.
 *
 * Register it on the Fastify instance that declares the protected routes, or on one of its parents:
 * `await fastify.register(quotaPlugin, options)`.
 *
 * @throws {OptionError} `FST_ERR_LLM_QUOTA_OPTION`, if an option has an invalid value.
 * @throws {EnvironmentError} `FST_ERR_LLM_QUOTA_ENVIRONMENT`, if an environment variable such as
 *   `SERVICE_RATE_LIMIT_PER_MINUTE` is not an integer.
 * @throws {SecondRegistrationError} `FST_ERR_LLM_QUOTA_SECOND_REGISTRATION`, if the plugin already
 *   handles the same requests.
 * @throws {DecoratorError} `FST_ERR_LLM_QUOTA_DECORATOR`, if the host already has a decorator with
 *   a name that the plugin needs.
 */
export const quotaPlugin = createPlugin(plugin, {
  fastify: '5.x || ^6.0.0-alpha.4',
  name: 'fastify-llm-quota'
})
