import type { FastifyRequest } from 'fastify'
import type { AnyRequest } from './any-request.js'
import { OptionError } from './errors.js'
import { checkThat, isNatural } from './option-checks.js'
import { setRateLimitHeaders } from './refusal/rate-limit-headers.js'
import { sendRefusal, type AnyReply } from './refusal/refusal.js'
import type { ResponseOptions } from './hook.js'
import { decide } from './permit/decide.js'
import type { QuotaDecision } from './permit/decision.js'
import type { Ledger } from './permit/ledger.js'
import { Permit, type Amounts } from './permit/permit.js'
import type { Quota, QuotaList } from './permit/quota.js'
import type { GivenCosts } from './permit/ruling.js'
import { isResponseOpen, permitOf, stateOf } from './permit/request-state.js'
import { proceed } from './promises.js'
import type { Paths } from './subject/paths.js'

/** A handler's permit for the quotas that it named. `await using` ends it. */
export interface QuotaPermit extends AsyncDisposable {
  /** The decision of each quota if all have admitted; otherwise the one that refuses. */
  readonly decisions: readonly QuotaDecision[]
  /** The decision that refuses; null if all quotas admitted. */
  readonly refusal: QuotaDecision | null
  /**
   * Sends the refusal as the hook would, with the `RateLimit` headers of this permit in place of
   * the hook's.
   *
   * @throws {TypeError} If there is no refusal, or if headers were sent.
   */
  refuse<Reply extends AnyReply>(reply: Reply): Reply
  /** Reports what was used, as `fastify.quotaCharge` does. */
  charge(amounts: Amounts): Promise<void>
  /** Settles the costs and releases the places, once. Never rejects. */
  end(): Promise<void>
}

/**
 * Decides, counts and publishes in the middle of a handler, as the hook does for its route: for a
 * message of a socket, a tool call, an item of a batch or a job. The route does not have to be
 * protected.
 *
 * The permit ends with the response of the request, unless `end` is called earlier. A permit that
 * is taken later, or for a request that has not passed the plugin's hook, lasts until `end` is
 * called or the server has closed.
 *
 * @param names The names of one or more quotas, which can include `default`.
 * @param costs What to count: a number if one name is given, else by name. Default: the costs of
 *   the definitions. A place always costs 1.
 * @returns The permit. If the store fails, the permit is a refusal.
 * @throws {UnknownQuotaError} `FST_ERR_LLM_QUOTA_UNKNOWN_QUOTA`, if there is no quota with one of
 *   the names.
 * @throws {OptionError} `FST_ERR_LLM_QUOTA_OPTION`, if there is no name, or if a cost is not
 *   possible.
 */
export type QuotaAcquirer = {
  /** Takes a permit. */
  method(
    request: AnyRequest,
    names: string | readonly string[],
    costs?: number | Readonly<Record<string, number>>
  ): Promise<QuotaPermit>
}['method']

/**
 * Reports what an admitted request has used, even after its response has ended; several reports add
 * up (docs/rules.md, "Costs"). Does nothing if the request was not admitted.
 *
 * @param amounts A number of model tokens, an amount for each unit, or null if nothing is known. An
 *   amount is a safe integer of at least 0; any other is logged as an error and not counted.
 * @returns A promise that is fulfilled when the store has counted it. It never rejects: if the
 *   store fails, the error is logged.
 */
export type QuotaCharger = {
  /** Reports amounts. */
  method(request: AnyRequest, amounts: Amounts): Promise<void>
}['method']

/** Creates the function for the decorator `fastify.quotaCharge`. */
export function createQuotaCharger (ledger: Ledger): QuotaCharger {
  return async function quotaCharge (request: FastifyRequest, amounts) {
    return proceed(permitOf(request) ?? new Permit(request, ledger, [], null, []), (permit) =>
      permit.charge(amounts)
    )
  }
}

/** Creates the function for the decorator `fastify.quotaAcquire`. */
export function createQuotaAcquirer (
  quotas: QuotaList,
  paths: Paths,
  ledger: Ledger,
  options: ResponseOptions
): QuotaAcquirer {
  const { rateLimitHeaders, refusalBody } = options
  return async function quotaAcquire (request: FastifyRequest, names, costs) {
    const named = [...new Set([names].flat())].map((name) => quotas.named(name, 'quotaAcquire'))
    if (named.length === 0) {
      throw new OptionError('names', 'must contain the name of a quota', names)
    }
    const given = givenCosts(named, costs)
    const path = paths.withoutPrefix(request.routeOptions.url ?? request.url.replace(/\?.*/, ''))
    const operation = Object.freeze({ method: request.method, path })
    const matches = quotas.all
      .filter((quota) => named.includes(quota))
      .map((quota) => ({ quota, operation }))
    const isFollowed = isResponseOpen(request)
    const permit = await decide(matches, request, ledger, given)
    if (isFollowed) stateOf(request).endWithResponse(permit)
    const { decisions, refusal } = permit
    const end = async (): Promise<void> => permit.end()
    return {
      decisions,
      refusal: refusal?.decision ?? null,
      refuse (reply) {
        if (refusal === null) {
          throw new TypeError(
            'fastify-llm-quota: the permit was admitted, so there is no refusal to send'
          )
        }
        if (reply.sent || reply.raw.headersSent) {
          throw new TypeError(
            'fastify-llm-quota: the refusal cannot be sent, because the response has begun'
          )
        }
        for (const header of ['RateLimit-Policy', 'RateLimit']) reply.raw.removeHeader(header)
        if (rateLimitHeaders !== undefined) setRateLimitHeaders(reply, permit.decidedByStores)
        sendRefusal(refusal, request, reply, refusalBody)
        return reply
      },
      charge: async (amounts) => permit.charge(amounts),
      end,
      [Symbol.asyncDispose]: end
    }
  }
}

function givenCosts (
  quotas: readonly Quota[],
  costs: number | Readonly<Record<string, number>> = {}
): GivenCosts {
  const [first] = quotas
  if (typeof costs === 'number' && quotas.length > 1) {
    throw new OptionError('costs', 'must be an object with the cost of each quota by name', costs)
  }
  const given = typeof costs === 'number' ? { [String(first?.name)]: costs } : costs
  return new Map(
    Object.entries(given).map(([name, cost]) => {
      const quota = quotas.find((each) => each.name === name)
      if (quota === undefined || quota.longestWindow === null) {
        throw new OptionError(
          `costs.${name}`,
          'must be for one of the given quotas that does not count requests in flight',
          cost
        )
      }
      checkThat('must be a safe integer of at least 0', isNatural)(cost, `costs.${name}`)
      return [name, cost]
    })
  )
}
