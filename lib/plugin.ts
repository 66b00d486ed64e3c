import type { FastifyInstance } from 'fastify'
import createPlugin from 'fastify-plugin'
import { readConfiguration } from './configuration.js'
import { decorateWithDecision } from './decision.js'
import { createQuotaHook } from './hook.js'
import { defaultPerMinute } from './limit.js'
import { OperationMatcher } from './operation-matcher.js'
import { protectedOperations } from './operation.js'
import { assertQuotaOptions, type QuotaOptions } from './options.js'
import { LimitReader, decorateWithPreferences } from './preference.js'
import { normalizePrefix } from './prefix.js'
import { Quota } from './quota.js'
import { Registrations } from './registration.js'
import { callerOf } from './request-caller.js'
import { warnOfRoutes } from './route-warnings.js'
import { readRouterOptions } from './router-options.js'
import { decorateWithStore } from './store-decorator.js'
import { logStoreChanges } from './store-log.js'

const registrations = new Registrations()

async function quota (fastify: FastifyInstance, options: QuotaOptions): Promise<void> {
  assertQuotaOptions(options)
  const { operations = protectedOperations, perMinute = defaultPerMinute, mode = 'enforce' } = options
  const prefix = normalizePrefix(options.prefix ?? fastify.prefix)
  const matcher = new OperationMatcher(operations, prefix, readRouterOptions(fastify.initialConfig))

  registrations.add(fastify)
  const store = decorateWithStore(fastify, options.store)
  logStoreChanges(fastify, store)
  decorateWithPreferences(fastify, options.preferences)
  decorateWithDecision(fastify)
  const configuration = await readConfiguration(fastify, perMinute, options.dotenv)
  fastify.decorate('quotaConfig', configuration)

  const limits = new LimitReader(configuration.SERVICE_RATE_LIMIT_PER_MINUTE, fastify.log)
  const quotaHook = createQuotaHook(matcher, limits, new Quota(callerOf(options.authentication), store, mode === 'enforce'))
  fastify.addHook('preHandler', quotaHook)
  fastify.addHook('onReady', async function quotaReady () {
    limits.usePreferences(fastify)
    warnOfRoutes(fastify, operations, prefix, quotaHook.name)
  })
}

/**
 * Limits how often each authenticated caller may invoke a service's model-backed operations.
 *
 * Register it on the instance that declares the protected routes, or on one around it:
 * `await fastify.register(quotaPlugin, options)`.
 *
 * @throws {OptionError} `FST_ERR_LLM_QUOTA_OPTION`, when an option cannot be used.
 * @throws {EnvironmentError} `FST_ERR_LLM_QUOTA_ENVIRONMENT`, when `SERVICE_RATE_LIMIT_PER_MINUTE` is not an integer.
 * @throws {SecondRegistrationError} `FST_ERR_LLM_QUOTA_SECOND_REGISTRATION`, when the same requests already pass through it.
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
export const quotaPlugin = createPlugin(quota, { fastify: '5.x', name: 'fastify-llm-quota' })
