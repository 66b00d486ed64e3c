import { channel } from 'node:diagnostics_channel'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import createPlugin from 'fastify-plugin'
import { readConfiguration } from '../limit/configuration.js'
import { defaultPerMinute, perMinuteVariable, preferenceOf } from '../limit/limit.js'
import { Preferences } from '../limit/preferences.js'
import { assertFunction, assertOptions } from '../option-checks.js'
import { preferencesOf, Registrations } from '../start/host.js'
import { sharedChecks, type QuotaOptions } from '../start/options.js'
import { windowLength } from '../store/counter.js'
import { protectedOperations, type Operation } from '../subject/operation.js'
import { Paths } from '../subject/paths.js'
import { RequestMatcher } from '../subject/request-matcher.js'

/**
 * Options of `fastify.register(earlierQuotaPlugin, options)`. All are optional, and have the same
 * meaning as those of `quotaPlugin`.
 */
export interface EarlierQuotaOptions extends Pick<
  QuotaOptions,
  'prefix' | 'preferences' | 'perMinute' | 'dotenv'
> {
  /** Returns monotonic milliseconds. Default `performance.now`. */
  readonly clock?: () => number
}

/** The decision of the earlier quota on one request. It never contains an address. */
export interface EarlierQuotaDecision {
  /** The outcome; `disabled` if the limit is 0 or negative. */
  readonly outcome: 'admitted' | 'rejected' | 'disabled'
  /** The method of the request, and the operation's path. */
  readonly operation: Operation
  /** The configured limit. */
  readonly limit: number
}

/** A message on the `node:diagnostics_channel` channel `fastify-llm-quota:earlier-decision`. */
export interface EarlierQuotaDecisionMessage {
  /** The request. */
  readonly request: FastifyRequest
  /** The decision on the request. */
  readonly decision: EarlierQuotaDecision
}

const earlierQuotaDecisions = channel('fastify-llm-quota:earlier-decision')
const registrations = new Registrations()
const decided = new WeakSet<FastifyRequest>()

async function plugin (fastify: FastifyInstance, options: EarlierQuotaOptions): Promise<void> {
  assertOptions<EarlierQuotaOptions>(options, { ...sharedChecks, clock: assertFunction })
  const { perMinute = defaultPerMinute, clock = () => performance.now() } = options
  registrations.assertFirst(fastify)
  const configuration = await readConfiguration(
    fastify,
    { [perMinuteVariable]: perMinute },
    options.dotenv
  )
  registrations.add(fastify)
  const operations = fastify.supportedMethods.flatMap((method) =>
    protectedOperations.map(({ path }) => ({ method, path }))
  )
  const requests = new RequestMatcher(
    [{ operations }],
    new Paths(options.prefix ?? fastify.prefix, fastify.initialConfig)
  )
  const preferences = new Preferences(fastify.log)
  const limitOf = preferences.of(preferenceOf('perMinute'), configuration[perMinuteVariable])
  // One counter for each address until the process ends: without a caller cap, sweeps and an
  // overflow counter.
  const counters = new Map<string, { readonly count: number; readonly windowStart: number }>()

  fastify.addHook('onReady', async () => {
    preferences.reader = preferencesOf(fastify, options.preferences)
  })
  fastify.addHook('preHandler', async function earlierQuotaHook (request, reply) {
    const [match] = requests.match(request)
    if (match === undefined || decided.has(request)) return
    decided.add(request)
    const limit = await limitOf(request)
    const outcome =
      limit <= 0 ? 'disabled' : hasRoom(clientAddress(request), limit) ? 'admitted' : 'rejected'
    const decision: EarlierQuotaDecision = { outcome, operation: match.operation, limit }
    if (earlierQuotaDecisions.hasSubscribers) {
      earlierQuotaDecisions.publish({ request, decision } satisfies EarlierQuotaDecisionMessage)
    }
    if (outcome !== 'rejected') return
    const body = {
      error: `Rate limit exceeded. Maximum ${limit} LLM requests per minute. Please wait.`,
      status: 429
    }
    const serialize = (body: unknown): string =>
      typeof body === 'string' ? body : JSON.stringify(body)
    return reply
      .code(429)
      .type('application/json; charset=utf-8')
      .serializer(serialize)
      .send(serialize(body))
  })

  /** Returns true and counts the request if it is admitted. */
  function hasRoom (address: string, limit: number): boolean {
    const now = clock()
    const known = counters.get(address)
    const { count, windowStart } =
      known === undefined || now - known.windowStart > windowLength
        ? { count: 0, windowStart: now }
        : known
    if (count < limit) counters.set(address, { count: count + 1, windowStart })
    return count < limit
  }
}

/**
 * Returns the first entry of `X-Forwarded-For` if it is present and not blank, which a client can
 * choose; else the remote address.
 */
function clientAddress (request: FastifyRequest): string {
  const forwarded = String(request.raw.headers['x-forwarded-for'] ?? '')
  return forwarded.trim() === ''
    ? String(request.raw.socket.remoteAddress)
    : forwarded.replace(/,.*/s, '').trim()
}

/**
 * The earlier version of the quota, for comparison and migration (docs/rules.md, "Earlier
 * behaviour").
 *
 * Do not rely on it for protection: it requires no authentication, its memory is unbounded, and a
 * client chooses its own identity, because the quota uses the first address in `X-Forwarded-For`.
 *
 * @throws {OptionError} `FST_ERR_LLM_QUOTA_OPTION`, if an option has an invalid value.
 * @throws {EnvironmentError} `FST_ERR_LLM_QUOTA_ENVIRONMENT`, if `SERVICE_RATE_LIMIT_PER_MINUTE` is
 *   not an integer.
 */
export const earlierQuotaPlugin = createPlugin(plugin, {
  fastify: '5.x || ^6.0.0-alpha.4',
  name: 'fastify-llm-quota-earlier'
})
