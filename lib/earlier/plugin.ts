import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import createPlugin from 'fastify-plugin'
import { readConfiguration } from '../limit/configuration.js'
import { defaultPerMinute, perMinutePreference, perMinuteVariable } from '../limit/limit.js'
import { protectedOperations } from '../subject/operation.js'
import { PathMatcher } from '../subject/path-matcher.js'
import { LimitReader } from '../limit/limit-reader.js'
import { Preferences } from '../limit/preferences.js'
import { normalizePrefix } from '../subject/prefix.js'
import { jsonContentType, rejectedBody } from '../refusal/refusal-body.js'
import { assertRoutable } from '../start/operation-checks.js'
import { preferencesOf } from '../start/preferences-decorator.js'
import { Registrations } from '../start/registration.js'
import { readRouterOptions } from '../subject/router-options.js'
import { clientAddress } from './address.js'
import { EarlierCounters } from './counters.js'
import { publishEarlierDecision, type EarlierQuotaDecision } from './decision.js'
import { assertEarlierQuotaOptions, type EarlierQuotaOptions } from './options.js'

const registrations = new Registrations()
const decided = new WeakSet<FastifyRequest>()

async function earlierQuota (fastify: FastifyInstance, options: EarlierQuotaOptions): Promise<void> {
  assertEarlierQuotaOptions(options)
  const { perMinute = defaultPerMinute, clock = () => performance.now() } = options
  const prefix = normalizePrefix(options.prefix ?? fastify.prefix)
  const routerOptions = readRouterOptions(fastify.initialConfig)
  assertRoutable(protectedOperations.map((operation) => ({ option: 'prefix', ...operation })), prefix, routerOptions)
  const paths = new PathMatcher(protectedOperations.map((operation) => ({ path: operation.path, value: operation })), prefix, routerOptions)
  registrations.add(fastify)
  const configuration = await readConfiguration(fastify, { [perMinuteVariable]: perMinute }, options.dotenv)
  const preferences = new Preferences(fastify.log)
  const limits = new LimitReader(preferences, perMinutePreference, configuration.SERVICE_RATE_LIMIT_PER_MINUTE)
  const counters = new EarlierCounters(clock)

  fastify.addHook('onReady', async () => { preferences.use(preferencesOf(fastify, options.preferences)) })
  fastify.addHook('preHandler', async function earlierQuotaHook (request, reply) {
    const operation = paths.match(request.routeOptions.url, request.url)
    if (operation === null || decided.has(request)) return
    decided.add(request)
    const limit = await limits.read(request)
    const outcome = decide(request, limit)
    publishEarlierDecision(request, { outcome, operation: { method: request.method, path: operation.path }, limit })
    if (outcome === 'rejected') return refuse(reply, limit)
  })

  function decide (request: FastifyRequest, limit: number): EarlierQuotaDecision['outcome'] {
    if (limit <= 0) return 'disabled'
    return counters.acquire(clientAddress(request), limit) ? 'admitted' : 'rejected'
  }
}

async function refuse (reply: FastifyReply, limit: number): Promise<FastifyReply> {
  return reply.code(429).type(jsonContentType).serializer(String).send(rejectedBody(limit))
}

/**
 * The earlier version of the quota, for comparison and migration (docs/rules.md, "Earlier behaviour").
 *
 * Do not rely on it for protection: it requires no authentication, its memory is unbounded, and a client chooses its own identity,
 * because the quota uses the first address in `X-Forwarded-For`.
 *
 * @throws {OptionError} `FST_ERR_LLM_QUOTA_OPTION`, if an option has an invalid value.
 * @throws {EnvironmentError} `FST_ERR_LLM_QUOTA_ENVIRONMENT`, if `SERVICE_RATE_LIMIT_PER_MINUTE` is not an integer.
 *
 * @example
 * ```ts
 * import Fastify from 'fastify'
 * import earlierQuotaPlugin from 'fastify-llm-quota/earlier'
 *
 * await Fastify().register(earlierQuotaPlugin, { perMinute: 10 })
 * ```
 */
export const earlierQuotaPlugin = createPlugin(earlierQuota, { fastify: '5.x || ^6.0.0-alpha.4', name: 'fastify-llm-quota-earlier' })
