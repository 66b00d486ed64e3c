import type { FastifyInstance } from 'fastify'
import createPlugin from 'fastify-plugin'
import { readConfiguration } from './limit/configuration.js'
import { decorateWithDecision } from './decision/request-decision.js'
import { createStandingReader } from './decision/standing.js'
import { createQuotaHook } from './hook.js'
import { OperationMatcher } from './subject/operation-matcher.js'
import { MarkedRoutes } from './subject/marked-routes.js'
import { RequestMatcher } from './subject/request-matcher.js'
import { configurationDefaults, configureQuotas, defineQuotas } from './start/quotas.js'
import { assertRoutable, listOperations } from './start/operation-checks.js'
import { assertQuotaOptions } from './start/option-checks.js'
import type { QuotaOptions } from './start/options.js'
import { LimitReader } from './limit/limit-reader.js'
import { Preferences } from './limit/preferences.js'
import { decorateWithPreferences, preferencesOf } from './start/preferences-decorator.js'
import { normalizePrefix } from './subject/prefix.js'
import { Quota } from './decision/quota.js'
import { assertNoQuotaDecorator } from './start/quota-decorator-check.js'
import { Registrations } from './start/registration.js'
import { callerReader } from './caller/request-caller.js'
import { RouteReport } from './start/route-report.js'
import { readRouterOptions } from './subject/router-options.js'
import { decorateWithStore } from './start/store-decorator.js'
import { logStoreChanges } from './start/store-log.js'

const registrations = new Registrations()

async function quota (fastify: FastifyInstance, options: QuotaOptions): Promise<void> {
  assertQuotaOptions(options)
  const prefix = normalizePrefix(options.prefix ?? fastify.prefix)
  const quotas = defineQuotas(options)
  const routerOptions = readRouterOptions(fastify.initialConfig)
  assertRoutable(listOperations(quotas), prefix, routerOptions)
  const operations = new OperationMatcher(quotas, prefix, routerOptions)
  const markedRoutes = new MarkedRoutes(quotas.map(({ name }) => name), prefix)

  registrations.add(fastify)
  const report = new RouteReport(fastify, operations, markedRoutes, prefix)
  const store = decorateWithStore(fastify, options.store)
  logStoreChanges(fastify, store)
  decorateWithPreferences(fastify, options.preferences)
  assertNoQuotaDecorator(fastify)
  decorateWithDecision(fastify)
  const configuration = await readConfiguration(fastify, configurationDefaults(quotas), options.dotenv)
  fastify.decorate('quotaConfig', configuration)

  const preferences = new Preferences(fastify.log, options.preferenceTimeout)
  const callers = callerReader(options.authentication)
  const configured = configureQuotas(quotas, configuration)
  const byName = new Map(configured.map(({ name, preference, configured }) => {
    return [name, new Quota(name, new LimitReader(preferences, preference, configured), callers, store, options.mode !== 'shadow')]
  }))
  fastify.decorate('quotaStanding', createStandingReader(byName))
  const quotaHook = createQuotaHook(new RequestMatcher(operations, markedRoutes, byName), options)
  fastify.addHook('preHandler', quotaHook)
  fastify.addHook('onReady', async function quotaReady () {
    preferences.use(preferencesOf(fastify, options.preferences))
    report.log(configured, options.mode ?? 'enforce')
  })
}

/**
 * Limits how many requests per minute each authenticated caller can send to the protected operations of a service.
 *
 * Register it on the Fastify instance that declares the protected routes, or on one of its parents:
 * `await fastify.register(quotaPlugin, options)`.
 *
 * @throws {OptionError} `FST_ERR_LLM_QUOTA_OPTION`, if an option has an invalid value.
 * @throws {EnvironmentError} `FST_ERR_LLM_QUOTA_ENVIRONMENT`, if an environment variable such as `SERVICE_RATE_LIMIT_PER_MINUTE` is not
 *   an integer.
 * @throws {SecondRegistrationError} `FST_ERR_LLM_QUOTA_SECOND_REGISTRATION`, if the plugin already handles the same requests.
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
export const quotaPlugin = createPlugin(quota, { fastify: '5.x || ^6.0.0-alpha.4', name: 'fastify-llm-quota' })
