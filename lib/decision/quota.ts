import type { FastifyRequest } from 'fastify'
import type { QuotaDecision } from './decision.js'
import { effectiveLimit } from './limit.js'
import type { Operation } from './operation.js'
import type { CallerReader } from './request-caller.js'
import type { Acquisition, QuotaStore } from './store.js'
import { isThenable } from './thenable.js'

/** Decides about protected requests (specification, section 4, steps 2 to 6). */
export class Quota {
  readonly #callerOf: CallerReader
  readonly #store: QuotaStore
  readonly #enforced: boolean

  constructor (callerOf: CallerReader, store: QuotaStore, enforced: boolean) {
    this.#callerOf = callerOf
    this.#store = store
    this.#enforced = enforced
  }

  /**
   * @param configured The configured limit.
   * @returns The decision; a promise only where the store gives one, and one that never rejects.
   */
  decide (request: FastifyRequest, operation: Operation, configured: number): QuotaDecision | Promise<QuotaDecision> {
    const limit = effectiveLimit(configured)
    if (limit === 0) return this.#uncounted('disabled', operation, limit, null)
    const callerKey = this.#nameCaller(request)
    if (callerKey === null) return this.#uncounted('unauthenticated', operation, limit, null)
    try {
      const answer = this.#store.acquire(callerKey, limit)
      return isThenable(answer)
        ? this.#await(answer, request, operation, limit, callerKey)
        : this.#counted(answer, operation, limit, callerKey)
    } catch (error) {
      return this.#unavailable(error, request, operation, limit, callerKey)
    }
  }

  #nameCaller (request: FastifyRequest): string | null {
    try {
      return this.#callerOf(request)
    } catch (error) {
      request.log.error({ err: error }, 'the request\'s authentication could not be read; nobody is named')
      return null
    }
  }

  async #await (answer: PromiseLike<Acquisition>, request: FastifyRequest, operation: Operation, limit: number, callerKey: string): Promise<QuotaDecision> {
    try {
      return this.#counted(await answer, operation, limit, callerKey)
    } catch (error) {
      return this.#unavailable(error, request, operation, limit, callerKey)
    }
  }

  #counted ({ admitted, count, windowRemaining, overflow }: Acquisition, operation: Operation, limit: number, callerKey: string): QuotaDecision {
    if (typeof admitted !== 'boolean' || !(windowRemaining > 0)) throw new TypeError('the quota store gave no acquisition')
    return { outcome: admitted ? 'admitted' : 'rejected', operation, enforced: this.#enforced, limit, callerKey, count, windowRemaining, overflow }
  }

  #unavailable (error: unknown, request: FastifyRequest, operation: Operation, limit: number, callerKey: string): QuotaDecision {
    request.log.error({ err: error }, 'the quota store failed; the request is not admitted')
    return this.#uncounted('unavailable', operation, limit, callerKey)
  }

  #uncounted (outcome: QuotaDecision['outcome'], operation: Operation, limit: number, callerKey: string | null): QuotaDecision {
    return { outcome, operation, enforced: this.#enforced, limit, callerKey, count: null, windowRemaining: null, overflow: false }
  }
}
