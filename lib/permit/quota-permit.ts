import type { FastifyRequest } from 'fastify'
import type { AnyReply } from '../any-request.js'
import type { Eventual } from '../promises.js'
import { amountsOfReport, type Amounts } from './amounts.js'
import type { QuotaDecision } from './decision.js'
import type { Permit } from './permit.js'
import type { PermitServer } from './requester.js'

/**
 * What a request has of its quotas: that of the hook is `request.quota`, and `fastify.quotaAcquire`
 * takes others. `await using` ends it.
 */
export interface QuotaPermit extends AsyncDisposable {
  /**
   * The decision of each quota on an admitted request, in their order; the one that refuses it
   * otherwise. Empty for a request that is subject to no quota, or not decided on yet.
   */
  readonly decisions: readonly QuotaDecision[]
  /** The decision that refuses; null if the request is admitted, or not decided on yet. */
  readonly refusal: QuotaDecision | null
  /**
   * Sends the refusal as the hook would, with the `RateLimit` headers of this permit in place of
   * the hook's.
   *
   * @throws {TypeError} If there is no refusal, if headers were sent, or if the permit has no
   *   request.
   */
  refuse<Reply extends AnyReply>(reply: Reply): Reply
  /**
   * Returns how much of a unit was granted: the least of the enforced quotas that count the unit.
   * Less the estimate of the input, pass it on as the `max_tokens` of a model, for example.
   *
   * @returns A safe integer of at least 0; null if none of the enforced quotas counts the unit, or
   *   if each that does is disabled or has no limit.
   */
  granted(unit: string): number | null
  /**
   * Reports what was used, even after the permit has ended; several reports add up (docs/rules.md,
   * "Costs"). Does nothing if the request was not admitted.
   *
   * @param amounts A number of model tokens, an amount for each unit, or null if nothing is known.
   *   An amount is a safe integer of at least 0; any other is logged as an error and not counted.
   *   `{ requests: 0 }` gives the request itself back, for example if its model failed.
   * @returns A promise that is fulfilled when the store has counted it. It never rejects: if the
   *   store fails, the error is logged.
   */
  charge(amounts: Amounts): Promise<void>
  /** Settles what was used and releases the places, once. Never rejects. */
  end(): Promise<void>
}

/** Where the permit of a `QuotaPermit` comes from. */
export interface PermitSource {
  /** Undefined until it is decided, and if the request is subject to no quota. */
  readonly permit: Permit | undefined
  /** A promise of the permit until it is decided. */
  readonly pending: Eventual<Permit> | undefined
}

/** Sends the refusal of a permit. */
export interface Refuser {
  /** Sends the refusal, with the headers of this permit in place of those of another one. */
  refuse(permit: Permit, refusal: QuotaDecision, request: FastifyRequest, reply: AnyReply): void
}

const none: readonly never[] = Object.freeze([])

/** The public side of a permit: of the hook's, and of those that handlers take. */
export class PermitHandle implements QuotaPermit {
  readonly #source: PermitSource
  readonly #server: PermitServer
  readonly #refuser: Refuser

  constructor (source: PermitSource, server: PermitServer, refuser: Refuser) {
    this.#source = source
    this.#server = server
    this.#refuser = refuser
  }

  get decisions (): readonly QuotaDecision[] {
    return this.#source.permit?.decisions ?? none
  }

  get refusal (): QuotaDecision | null {
    return this.#source.permit?.refusal ?? null
  }

  refuse<Reply extends AnyReply>(reply: Reply): Reply {
    const { permit } = this.#source
    if (permit === undefined || permit.refusal === null) {
      throw new TypeError('fastify-llm-quota: the permit was admitted, so there is no refusal')
    }
    const { request } = permit.requester
    if (request === null) {
      throw new TypeError('fastify-llm-quota: a permit without a request has no response')
    }
    if (reply.sent || reply.raw.headersSent) {
      throw new TypeError('fastify-llm-quota: the refusal cannot be sent after the response began')
    }
    this.#refuser.refuse(permit, permit.refusal, request, reply)
    return reply
  }

  granted (unit: string): number | null {
    return this.#source.permit?.granted(unit) ?? null
  }

  async charge (amounts: Amounts): Promise<void> {
    const { quotaLog } = this.#server
    const reports = amountsOfReport(amounts, quotaLog)
    // A permit that is there is not awaited: the response could close first, and a warning would
    // say that nothing was reported.
    const permit = this.#source.permit ?? (await this.#source.pending)
    if (permit !== undefined && permit.refusal !== null) return
    const reporting: Promise<void>[] = []
    for (const [unit, amount] of reports) {
      if (permit?.counts(unit) === true) reporting.push(permit.report(unit, amount))
      else quotaLog.uncountedUnit(unit)
    }
    await Promise.all(reporting)
  }

  async end (): Promise<void> {
    await this.#source.permit?.end()
  }

  [Symbol.asyncDispose] (): Promise<void> {
    return this.end()
  }
}
