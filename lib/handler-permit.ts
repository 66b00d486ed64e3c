import type { FastifyBaseLogger, FastifyRequest } from 'fastify'
import { assertRequest, type AnyRequest } from './any-request.js'
import { isAuthentication, type Authentication } from './caller/authentication.js'
import { OptionError } from './errors.js'
import type { Amounts } from './permit/amounts.js'
import type { Cost } from './permit/cost.js'
import type { QuotaDecision } from './permit/decision.js'
import { extendPermit } from './permit/extend.js'
import type { Permit } from './permit/permit.js'
import { assertNoFunctions, givenCosts } from './permit/given-costs.js'
import type { QuotaList } from './permit/quota-list.js'
import { endHandlerPermitWithResponse, knownStateOf } from './permit/request-state.js'
import { Requester, type PermitServer } from './permit/requester.js'
import { takePermit } from './permit/take-permit.js'
import type { AnyReply } from './refusal/refusal.js'
import type { Responder } from './refusal/responder.js'
import { operationOf } from './subject/operation.js'

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
   * @throws {TypeError} If there is no refusal, if headers were sent, or if the permit is for an
   *   authentication.
   */
  refuse<Reply extends AnyReply>(reply: Reply): Reply
  /** Returns what was granted of a unit, as `fastify.quotaGranted` does. */
  granted(unit: string): number | null
  /** Takes more, as `fastify.quotaExtend` does. */
  extend(amounts: NonNullable<Amounts>): Promise<QuotaDecision | null>
  /** Reports what was used, as `fastify.quotaCharge` does. */
  charge(amounts: Amounts): Promise<void>
  /** Settles what was used and releases the places, once. Never rejects. */
  end(): Promise<void>
}

/**
 * Decides, counts and publishes in the middle of a handler, as the hook does for its route: for a
 * message of a socket, a tool call or an item of a batch. The route does not have to be protected.
 * Takes an authentication in place of a request for the job of a queue, for example: it is the
 * caller of each of the quotas.
 *
 * The permit ends with the response of the request, unless `end` is called earlier, and immediately
 * if the response has already closed. A permit for an authentication, or for a request that has not
 * passed the plugin's hook, lasts until `end` is called or the server has closed.
 *
 * @param names The names of one or more quotas, which can include `default`.
 * @param costs What to count: a cost if one name is given, else by name. Default: the costs of the
 *   definitions. A place always costs 1.
 * @returns The permit. If the store fails, the permit is a refusal.
 * @throws {UnknownQuotaError} `FST_ERR_LLM_QUOTA_UNKNOWN_QUOTA`, if there is no quota with one of
 *   the names.
 * @throws {OptionError} `FST_ERR_LLM_QUOTA_OPTION`, if there is no name, if a cost is not possible,
 *   or if the cost of a definition is a function and there is no request.
 */
export type QuotaAcquirer = {
  /** Takes a permit. */
  method(
    request: AnyRequest | Authentication,
    names: string | readonly string[],
    costs?: Cost | Readonly<Record<string, Cost>>
  ): Promise<QuotaPermit>
}['method']

/** What the permits of a server's handlers need. */
export interface HandlerPermitParts {
  readonly log: FastifyBaseLogger
  readonly quotas: QuotaList
  readonly server: PermitServer
  readonly responder: Responder
}

/** Creates the function for the decorator `fastify.quotaAcquire`. */
export function createQuotaAcquirer (parts: HandlerPermitParts): QuotaAcquirer {
  const { log, quotas, server, responder } = parts
  return async function quotaAcquire (source: FastifyRequest | Authentication, names, costs) {
    const named = quotas.allNamed([names].flat(), 'quotaAcquire')
    if (named.length === 0) {
      throw new OptionError('names', 'must contain the name of a quota', names)
    }
    const given = givenCosts(named, costs)
    if (isAuthentication(source)) {
      assertNoFunctions(named, given)
      const requester = new Requester(server, null, source, log)
      const matches = named.map((quota) => ({ quota, operation: null }))
      return new HandlerPermit(await takePermit(matches, requester, given), responder)
    }
    assertRequest(source, 'must be a request, or an authentication that this package created')
    const operation = operationOf(source)
    const matches = named.map((quota) => ({ quota, operation }))
    const requester = new Requester(server, source, null, source.log)
    const permit = await takePermit(matches, requester, given)
    endHandlerPermitWithResponse(permit, source)
    return new HandlerPermit(permit, responder)
  }
}

class HandlerPermit implements QuotaPermit {
  readonly decisions: readonly QuotaDecision[]
  readonly refusal: QuotaDecision | null
  readonly #permit: Permit
  readonly #responder: Responder

  constructor (permit: Permit, responder: Responder) {
    this.decisions = permit.decisions
    this.refusal = permit.refusal
    this.#permit = permit
    this.#responder = responder
  }

  refuse<Reply extends AnyReply>(reply: Reply): Reply {
    const { request } = this.#permit.requester
    if (this.refusal === null) {
      throw new TypeError('fastify-llm-quota: the permit was admitted, so there is no refusal')
    }
    if (request === null) {
      throw new TypeError('fastify-llm-quota: a permit for an authentication has no response')
    }
    if (reply.sent || reply.raw.headersSent) {
      throw new TypeError('fastify-llm-quota: the refusal cannot be sent after the response began')
    }
    this.#responder.removeHeaders(reply)
    this.#responder.setHeaders(this.#permit, reply)
    this.#responder.sendRefusal(this.refusal, request, reply)
    return reply
  }

  granted (unit: string): number | null {
    return this.#permit.granted(unit)
  }

  async extend (amounts: Amounts): Promise<QuotaDecision | null> {
    return extendPermit(this.#permit, amounts)
  }

  async charge (amounts: Amounts): Promise<void> {
    return this.#permit.charge(amounts)
  }

  async end (): Promise<void> {
    const { request } = this.#permit.requester
    knownStateOf(request)?.unfollow(this.#permit)
    return this.#permit.end()
  }

  [Symbol.asyncDispose] (): Promise<void> {
    return this.end()
  }
}
