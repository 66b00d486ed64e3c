import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import createPlugin from 'fastify-plugin'
import { readConfiguration } from '../configuration.js'
import { defaultPerMinute } from '../limit.js'
import { protectedOperations } from '../operation.js'
import { PathMatcher } from '../path-matcher.js'
import { LimitReader } from '../preference.js'
import { normalizePrefix } from '../prefix.js'
import { exhausted } from '../refusal.js'
import { Registrations } from '../registration.js'
import { readRouterOptions } from '../router-options.js'
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
  const paths = new PathMatcher(protectedOperations, prefix, readRouterOptions(fastify.initialConfig))
  registrations.add(fastify)
  const configuration = await readConfiguration(fastify, perMinute, options.dotenv)
  const limits = new LimitReader(configuration.SERVICE_RATE_LIMIT_PER_MINUTE, fastify.log)
  const counters = new EarlierCounters(clock)

  fastify.addHook('onReady', async () => { limits.usePreferences({ preferences: options.preferences ?? fastify.preferences }) })
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
  return reply.code(429).type('application/json; charset=utf-8').serializer(String).send(exhausted(limit))
}

/**
 * The earlier form of the quota, to compare with and to migrate from (specification, section 9).
 *
 * A client chooses its own identity here: it is the first address in `X-Forwarded-For`, which anyone can write. It asks
 * for no authentication, and the memory it takes has no bound. Nothing should rely on it.
 *
 * @throws {OptionError} `FST_ERR_LLM_QUOTA_OPTION`, when an option cannot be used.
 * @throws {EnvironmentError} `FST_ERR_LLM_QUOTA_ENVIRONMENT`, when `SERVICE_RATE_LIMIT_PER_MINUTE` is not an integer.
 *
 * @example
 * ```ts
 * import Fastify from 'fastify'
 * import earlierQuotaPlugin from 'fastify-llm-quota/earlier'
 *
 * await Fastify().register(earlierQuotaPlugin, { perMinute: 10 })
 * ```
 */
export const earlierQuotaPlugin = createPlugin(earlierQuota, { fastify: '5.x', name: 'fastify-llm-quota-earlier' })
