import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import createPlugin from 'fastify-plugin'
import {
  earlierQuotaDecisions,
  type EarlierQuotaDecision,
  type EarlierQuotaDecisionMessage
} from '../channels.js'
import { configurationIn, readEnvironment } from '../limit/configuration.js'
import { defaultPerMinute, perMinuteVariable, preferenceOf } from '../limit/limit.js'
import { Preferences } from '../limit/preferences.js'
import { assertFunction, assertOptions } from '../option-checks.js'
import { preferencesOf, Registrations } from '../start/host.js'
import type { QuotaOptions } from '../start/options.js'
import { checksOfBothPlugins } from '../start/plugin-checks.js'
import { windowLength } from '../store/counter.js'
import { protectedOperations } from '../subject/operation.js'
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
  readonly clock?: (() => number) | undefined
}

const registrations = new Registrations()

/** After `reply.callNotFound()`, a request passes the hooks again. It is decided only once. */
const decided = new WeakSet<FastifyRequest>()

async function plugin (fastify: FastifyInstance, options: EarlierQuotaOptions): Promise<void> {
  assertOptions<EarlierQuotaOptions>(options, { ...checksOfBothPlugins, clock: assertFunction })
  const { perMinute = defaultPerMinute, clock = () => performance.now() } = options
  registrations.assertFirst(fastify)
  const paths = new Paths(options.prefix ?? fastify.prefix, fastify.initialConfig)
  const configuration = configurationIn(await readEnvironment(fastify, options.dotenv), {
    defaults: { [perMinuteVariable]: perMinute },
    ofFunctions: []
  })
  registrations.add(fastify)
  // Made for the first request, because a host can add methods until then.
  let requests: ReturnType<typeof matcherOf> | undefined
  const preferences = new Preferences(fastify.log, fastify.server)
  const configured = configuration[perMinuteVariable]
  const preference = preferences.of(preferenceOf('perMinute'), configured)
  const addresses = new Addresses(clock)

  fastify.addHook('onReady', async () => {
    preferences.reader = preferencesOf(fastify, options.preferences)
  })
  fastify.addHook('preHandler', async function earlierQuotaHook (request, reply) {
    requests ??= matcherOf(fastify, paths)
    const [match] = requests.match(request)
    if (match === undefined || decided.has(request)) return
    decided.add(request)
    const limit = (await preference.valueFor(request)) ?? configured
    const outcome = outcomeOf(request, limit, addresses)
    const decision: EarlierQuotaDecision = { outcome, operation: match.operation, limit }
    if (earlierQuotaDecisions.hasSubscribers) {
      earlierQuotaDecisions.publish({ request, decision } satisfies EarlierQuotaDecisionMessage)
    }
    if (outcome === 'rejected') return sendRejection(reply, limit)
  })
}

/** Matches the paths of the protected operations with all methods of the host. */
function matcherOf ({ supportedMethods }: FastifyInstance, paths: Paths) {
  const operations = supportedMethods.flatMap((method) =>
    protectedOperations.map(({ path }) => ({ method, path }))
  )
  return new RequestMatcher([{ operations }], paths)
}

function outcomeOf (
  request: FastifyRequest,
  limit: number,
  addresses: Addresses
): EarlierQuotaDecision['outcome'] {
  if (limit <= 0) return 'disabled'
  return addresses.count(clientAddress(request), limit) ? 'admitted' : 'rejected'
}

function sendRejection (reply: FastifyReply, limit: number): FastifyReply {
  const error = `Rate limit exceeded. Maximum ${limit} LLM requests per minute. Please wait.`
  return reply
    .code(429)
    .type('application/json; charset=utf-8')
    // The same whatever the route's schema, and for an error of an `onSend` hook.
    .serializer((body) => (typeof body === 'string' ? body : JSON.stringify(body)))
    .send(JSON.stringify({ error, status: 429 }))
}

/**
 * The counters of client addresses: one for each until the process ends, without a caller cap,
 * sweeps and an overflow counter.
 */
class Addresses {
  readonly #counters = new Map<string, { readonly count: number; readonly windowStart: number }>()
  readonly #clock: () => number

  constructor (clock: () => number) {
    this.#clock = clock
  }

  /** Counts a request if there is room for it. Returns whether there was. */
  count (address: string, limit: number): boolean {
    const now = this.#clock()
    const known = this.#counters.get(address)
    const isOpen = known !== undefined && now - known.windowStart <= windowLength
    const { count, windowStart } = isOpen ? known : { count: 0, windowStart: now }
    if (count >= limit) return false
    this.#counters.set(address, { count: count + 1, windowStart })
    return true
  }
}

/**
 * Returns the first entry of `X-Forwarded-For` if it is present and not blank, which a client can
 * choose; else the remote address.
 */
function clientAddress ({ raw }: FastifyRequest): string {
  const forwarded = String(raw.headers['x-forwarded-for'] ?? '')
  if (forwarded.trim() === '') return String(raw.socket.remoteAddress)
  return forwarded.replace(/,.*/s, '').trim()
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
