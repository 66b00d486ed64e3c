import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import createPlugin from 'fastify-plugin'
import { readConfiguration } from '../limit/configuration.js'
import { defaultPerMinute, perMinuteVariable, preferenceOf } from '../limit/limit.js'
import { Preferences } from '../limit/preferences.js'
import { assertFunction, assertOptions, registerOptions } from '../option-checks.js'
import { preferencesOf, Registrations } from '../start/host.js'
import { sharedChecks, type QuotaOptions } from '../start/options.js'
import { protectedOperations } from '../subject/operation.js'
import { Paths } from '../subject/paths.js'
import { RequestMatcher } from '../subject/request-matcher.js'
import { EarlierCounters } from './counters.js'
import { publishEarlierDecision, type EarlierQuotaDecision } from './decision.js'

/** Options of `fastify.register(earlierQuotaPlugin, options)`. All are optional, and have the same meaning as those of `quotaPlugin`. */
export interface EarlierQuotaOptions extends Pick<QuotaOptions, 'prefix' | 'preferences' | 'perMinute' | 'dotenv'> {
  /** Returns monotonic milliseconds. Default `performance.now`. */
  readonly clock?: () => number
}

const registrations = new Registrations()
const decided = new WeakSet<FastifyRequest>()

async function plugin (fastify: FastifyInstance, options: EarlierQuotaOptions): Promise<void> {
  assertOptions<EarlierQuotaOptions>(options, { ...registerOptions, ...sharedChecks, clock: assertFunction })
  const { perMinute = defaultPerMinute, clock = () => performance.now() } = options
  const paths = new Paths(options.prefix ?? fastify.prefix, fastify.initialConfig)
  const operations = fastify.supportedMethods.flatMap((method) => protectedOperations.map(({ path }) => ({ method, path })))
  const requests = new RequestMatcher([{ operations }], paths)
  registrations.assertFirst(fastify)
  const configuration = await readConfiguration(fastify, { [perMinuteVariable]: perMinute }, options.dotenv)
  registrations.add(fastify)
  const preferences = new Preferences(fastify.log)
  const counters = new EarlierCounters(clock)

  fastify.addHook('onReady', async () => { preferences.use(preferencesOf(fastify, options.preferences)) })
  fastify.addHook('preHandler', async function earlierQuotaHook (request, reply) {
    const [match] = requests.match(request)
    if (match === undefined || decided.has(request)) return
    decided.add(request)
    const limit = await preferences.read(preferenceOf('perMinute'), request, configuration[perMinuteVariable])
    const outcome = decide(request, limit)
    publishEarlierDecision(request, { outcome, operation: match.operation, limit })
    if (outcome === 'rejected') return refuse(reply, limit)
  })

  function decide (request: FastifyRequest, limit: number): EarlierQuotaDecision['outcome'] {
    if (limit <= 0) return 'disabled'
    return counters.acquire(clientAddress(request), limit) ? 'admitted' : 'rejected'
  }
}

/** Returns the first entry of `X-Forwarded-For` if it is present and not blank, which a client can choose; else the remote address. */
function clientAddress (request: FastifyRequest): string {
  const forwarded = String(request.raw.headers['x-forwarded-for'] ?? '')
  if (forwarded.trim() === '') return String(request.raw.socket.remoteAddress)
  return forwarded.slice(0, `${forwarded},`.indexOf(',')).trim()
}

async function refuse (reply: FastifyReply, limit: number): Promise<FastifyReply> {
  const body = { error: `Rate limit exceeded. Maximum ${limit} LLM requests per minute. Please wait.`, status: 429 }
  const serialize = (body: unknown): string => typeof body === 'string' ? body : JSON.stringify(body)
  return reply.code(429).type('application/json; charset=utf-8').serializer(serialize).send(serialize(body))
}

/**
 * The earlier version of the quota, for comparison and migration (docs/rules.md, "Earlier behaviour").
 *
 * Do not rely on it for protection: it requires no authentication, its memory is unbounded, and a client chooses its own identity,
 * because the quota uses the first address in `X-Forwarded-For`.
 *
 * @throws {OptionError} `FST_ERR_LLM_QUOTA_OPTION`, if an option has an invalid value.
 * @throws {EnvironmentError} `FST_ERR_LLM_QUOTA_ENVIRONMENT`, if `SERVICE_RATE_LIMIT_PER_MINUTE` is not an integer.
 */
export const earlierQuotaPlugin = createPlugin(plugin, { fastify: '5.x || ^6.0.0-alpha.4', name: 'fastify-llm-quota-earlier' })
