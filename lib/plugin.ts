import type { FastifyInstance } from 'fastify'
import createPlugin from 'fastify-plugin'
import type { QuotaDecision } from './decision/decision.js'
import { createQuota } from './decision/quota.js'
import { decisionsAccessor, quotaAccessor } from './decision/request-state.js'
import { createStandingReader, type QuotaStandingReader } from './decision/standing.js'
import { DecoratorError } from './errors.js'
import { createQuotaHook } from './hook.js'
import { readConfiguration, type QuotaConfig } from './limit/configuration.js'
import { Preferences } from './limit/preferences.js'
import { declaredRoutes, markOf, Routes } from './start/declared-routes.js'
import { chooseStore, preferencesOf } from './start/decorators.js'
import { assertQuotaOptions, type QuotaOptions } from './start/options.js'
import { configurationDefaults, configureQuotas, defineQuotas } from './start/quotas.js'
import { Registrations } from './start/registrations.js'
import { logProtections } from './start/report.js'
import { warnOfRoutes, warnOfUnserved } from './start/route-warnings.js'
import { logStoreChanges } from './start/store-log.js'
import type { QuotaStore } from './store/store.js'
import { Marks, type RouteMark } from './subject/mark.js'
import { Paths } from './subject/paths.js'
import { RequestMatcher } from './subject/request-matcher.js'
import { quotaCharge, type QuotaCharger } from './usage/charges.js'

declare module 'fastify' {
  interface FastifyInstance {
    /** The store that holds the quota's counters. */
    quotaStore: QuotaStore
    /** The configured limits, read at start-up. */
    quotaConfig: QuotaConfig
    /** Returns the standing of a request's caller without counting the request. */
    quotaStanding: QuotaStandingReader
    /** Charges the model tokens that a request has used. */
    quotaCharge: QuotaCharger
  }
  interface FastifyRequest {
    /** The decision that refuses this request, or else that of its first quota; null if the request is subject to no quota. */
    quota: QuotaDecision | null
    /** The decision of each quota on this request if it was admitted; the one that refuses it otherwise. */
    readonly quotaDecisions: readonly QuotaDecision[]
  }
  interface FastifyContextConfig {
    /**
     * The quotas of the route: `true` for the default quota, the name of another quota, an array of names (with `'default'` for the default
     * quota), or a function of the request that returns one of these, or null for none. `false` is no mark.
     */
    quota?: RouteMark
  }
}

const registrations = new Registrations()

async function plugin (fastify: FastifyInstance, options: QuotaOptions): Promise<void> {
  assertQuotaOptions(options)
  const store = chooseStore(fastify, options.store)
  const defined = defineQuotas(options, store)
  registrations.add(fastify)

  for (const name of ['quota', 'quotaDecisions']) if (fastify.hasRequestDecorator(name)) throw new DecoratorError(name)
  // Accessors, because plain values would not reach the requests of scopes that existed before the decoration.
  fastify.decorateRequest('quota', quotaAccessor)
  fastify.decorateRequest('quotaDecisions', decisionsAccessor)
  const { preferences: reader } = options
  if (!fastify.hasDecorator('quotaStore')) fastify.decorate('quotaStore', store)
  if (reader !== undefined && reader !== false && !fastify.hasDecorator('preferences')) fastify.decorate('preferences', reader)

  const paths = new Paths(options.prefix ?? fastify.prefix, fastify.initialConfig)
  const operations = defined.flatMap(({ operations }) => operations)
  const routes = new Routes(fastify, paths, operations)
  const marks = new Marks(defined.map(({ name }) => name))
  fastify.addHook('onRoute', function quotaRoute (routeOptions) {
    for (const route of declaredRoutes(routeOptions)) {
      marks.assert(markOf(route), `${route.method} ${route.pattern}`)
      routes.declared.push(route)
    }
  })

  const configuration = await readConfiguration(fastify, configurationDefaults(defined), options.dotenv)
  const configured = configureQuotas(defined, configuration)
  const preferences = new Preferences(fastify.log, options.preferenceTimeout)
  const quotas = configured.map((settings) => createQuota(settings, preferences))
  fastify.decorate('quotaConfig', configuration)
  fastify.decorate('quotaStanding', createStandingReader(quotas))
  fastify.decorate('quotaCharge', quotaCharge)
  fastify.addHook('preHandler', createQuotaHook(new RequestMatcher(quotas, paths, marks), quotas, options))

  const stopLogging = logStoreChanges(fastify, store)
  fastify.addHook('onReady', async function quotaReady () {
    preferences.use(preferencesOf(fastify, reader))
    logProtections(fastify, configured, routes, paths, store)
    warnOfUnserved(fastify, configured, routes, paths)
    warnOfRoutes(fastify, operations, routes, paths)
  })
  fastify.addHook('onClose', async function quotaClose () { stopLogging() })
}

/**
 * Limits how often each authenticated caller can send requests to the protected operations of a service, and how many model tokens they use.
 *
 * Register it on the Fastify instance that declares the protected routes, or on one of its parents:
 * `await fastify.register(quotaPlugin, options)`.
 *
 * @throws {OptionError} `FST_ERR_LLM_QUOTA_OPTION`, if an option has an invalid value.
 * @throws {EnvironmentError} `FST_ERR_LLM_QUOTA_ENVIRONMENT`, if an environment variable such as `SERVICE_RATE_LIMIT_PER_MINUTE` is not
 *   an integer.
 * @throws {SecondRegistrationError} `FST_ERR_LLM_QUOTA_SECOND_REGISTRATION`, if the plugin already handles the same requests.
 * @throws {DecoratorError} `FST_ERR_LLM_QUOTA_DECORATOR`, if requests already have a decorator `quota` or `quotaDecisions`.
 *
 * @example
 * ```ts
 * import Fastify from 'fastify'
 * import quotaPlugin, { localAuthentication } from 'fastify-llm-quota'
 *
 * const app = Fastify()
 * await app.register(quotaPlugin, { perMinute: 1, authentication: () => localAuthentication('alice') })
 * app.post('/api/analyze', async () => 'from your model')
 *
 * const first = await app.inject({ method: 'POST', url: '/api/analyze' })
 * const second = await app.inject({ method: 'POST', url: '/api/analyze' })
 * console.log(first.statusCode, second.statusCode, second.headers['retry-after']) // 200 429 60
 * ```
 */
export const quotaPlugin = createPlugin(plugin, { fastify: '5.x || ^6.0.0-alpha.4', name: 'fastify-llm-quota' })
