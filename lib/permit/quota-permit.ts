import type { Readable } from 'node:stream'
import type { FastifyRequest } from 'fastify'
import type { AnyReply } from '../any-request.js'
import type { ModelBody } from '../model/meter.js'
import { then, type Eventual } from '../promises.js'
import { amountsOfReport, type Amounts } from './amounts.js'
import type { QuotaDecision } from './decision.js'
import { meterInPermit, readUsage, type MeterOptions } from './meter.js'
import type { Permit } from './permit.js'
import { reportUsage } from './report-usage.js'
import type { PermitServer } from './requester.js'
import { waitInHandler } from './settled-in-time.js'

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
   * @throws {TypeError} If there is no permit or no refusal, if headers were sent, or if the permit
   *   has no request.
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
   * "Settlements"). Does nothing if the request was not admitted.
   *
   * @param amounts A number of model tokens, an amount for each unit, or null if nothing is known.
   *   An amount is a safe integer of at least 0; any other is logged as an error and not counted.
   *   `{ requests: 0 }` gives the request itself back, for example if its model failed.
   * @returns A promise that is fulfilled when the store has counted it, or after 5 seconds: then
   *   the store counts it as soon as it can. It never rejects: if the store fails, the error is
   *   logged. Shadow quotas are not waited for.
   */
  charge(amounts: Amounts): Promise<void>
  /**
   * Reports what a model used, as `charge` does: in each quota what its `fromUsage` makes of it,
   * else in tokens.
   *
   * @param usage What `usageOf` reads: the body of a response, a usage object, or a result of the
   *   AI SDK. A value that states none is logged as an error; null and undefined are nothing.
   */
  chargeUsage(usage: unknown): Promise<void>
  /**
   * Passes the response of a model on, byte for byte and with back-pressure, and charges its usage:
   * server-sent events, lines of JSON, a JSON array as Gemini streams it, or one JSON object of at
   * most 16 MiB. If the stream is destroyed, or if what it is piped to closes and nobody else reads
   * it, the source is cancelled. Connect it through further streams with `pipeline` of
   * `node:stream`, because their own `pipe` does not pass on that a stream has closed or failed.
   *
   * If the body ended as its API ends one, its usage is charged. Otherwise, if none is stated, if
   * it is cut off, or if the receiver leaves, the request counts the greatest of what it was
   * granted, the usage stated so far, and one token for each byte of text that the model wrote.
   * What `options.interrupted` returns replaces this only if the body was ended early; a body that
   * ended normally without a usage counts the greatest. A compressed body cannot be read, and
   * counts what was granted. Meter only responses that are ok: for another one, charge 0.
   *
   * @param body The body of the response: a web stream that nothing else reads, another async
   *   iterable of bytes, or null.
   * @throws {OptionError} `FST_ERR_LLM_QUOTA_OPTION`, if the body or an option has a wrong type.
   *
   * @example
   * ```ts
   * import Fastify from 'fastify'
   * import { anonymousAuthentication, quotaPlugin } from 'fastify-llm-quota'
   *
   * const fastify = Fastify()
   * await fastify.register(quotaPlugin, { authentication: anonymousAuthentication })
   * fastify.post('/v1/chat/completions', async (request, reply) => {
   *   const response = await fetch('https://model.example/v1/chat/completions', {
   *     method: 'POST',
   *     body: JSON.stringify(request.body)
   *   })
   *   return reply.send(request.quota.meter(response.body))
   * })
   * ```
   */
  meter(body: ModelBody, options?: MeterOptions): Readable
  /**
   * Leaves the end of the permit to another process, or to another attempt of a job, which resumes
   * it with `fastify.quotaResume`. Nothing is given back: what the permit counts stays counted, as
   * used and no longer as held. It ends neither with its response nor with the server, and cannot
   * be charged any more. What was reported before goes with the text.
   *
   * @returns A text, the same each time. It holds no identity, only the caller's digest and the
   *   `reference`. It is not signed: keep it in your own storage, and never give it to a client.
   * @throws {TypeError} If the permit was refused or has ended, if it has places, or if all that it
   *   counts is counted in this process only (`MemoryQuotaStore`, a fallback). What is counted so
   *   beside others is left out.
   */
  handOver(): Promise<string>
  /**
   * Settles what was used and releases the places, once. The promise is fulfilled as that of
   * `charge`, and never rejects, but for a permit that `fastify.quotaResume` returned.
   */
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
    if (permit === undefined) {
      throw new TypeError('fastify-llm-quota: there is no permit that could refuse the request')
    }
    if (permit.refusal === null) {
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
    await waitInHandler(Promise.all(reporting))
  }

  async handOver (): Promise<string> {
    const permit = await this.#eventual
    if (permit !== undefined) return await permit.handOver()
    throw new TypeError('fastify-llm-quota: there is no permit that could be handed over')
  }

  async chargeUsage (usage: unknown): Promise<void> {
    if (usage == null) return
    const { quotaLog } = this.#server
    const read = readUsage(usage, quotaLog)
    const permit = this.#source.permit ?? (await this.#source.pending)
    if (read === null || (permit !== undefined && permit.refusal !== null)) return
    await waitInHandler(reportUsage(permit, read, quotaLog))
  }

  meter (body: ModelBody, options: MeterOptions = {}): Readable {
    const metered = meterInPermit(body, options, () => this.#eventual, this.#server.quotaLog)
    then(this.#eventual, (permit) => permit?.expectUsage())
    return metered
  }

  get #eventual (): Eventual<Permit | undefined> {
    return this.#source.permit ?? this.#source.pending
  }

  async end (): Promise<void> {
    await this.#source.permit?.endInHandler()
  }

  async [Symbol.asyncDispose] (): Promise<void> {
    await this.#source.permit?.dispose()
  }
}
