import type { FastifyReply, FastifyRequest } from 'fastify'
import type { QuotaDecision } from './decision.js'
import type { Permit } from './permit.js'
import { hasResponseEnded, whenResponseEnds } from './response-end.js'

const stateKey = Symbol('fastify-llm-quota')
const none: readonly never[] = Object.freeze([])

// A `WeakMap` would cost more.
type Carrier = FastifyRequest & { [stateKey]?: RequestState }

/** What this package keeps of a request. */
class RequestState {
  /** Undefined if the request has not passed the hook. */
  reply: FastifyReply | undefined = undefined
  /** That of the hook; a promise while it is pending, and undefined if the request is subject to no quota. */
  permit: Permit | Promise<Permit> | undefined = undefined
  /** What a host has assigned to `request.quota`, which is shown until the next permit. */
  assigned: QuotaDecision | null | undefined = undefined
  /** The permits that end with the response; undefined before the first one, and null when the response has closed. */
  #followed: readonly Permit[] | null | undefined = undefined

  get decisions (): readonly QuotaDecision[] {
    return this.permit === undefined || this.permit instanceof Promise ? none : this.permit.decisions
  }

  /** Ends a permit when the response of its request closes; at once if it has closed. All permits of a request share one listener. */
  endWithResponse (permit: Permit): void {
    if (!permit.isOpen || this.reply === undefined) return
    if (this.#followed === null) {
      permit.end()
    } else if (this.#followed === undefined) {
      this.#followed = [permit]
      whenResponseEnds(permit.request, this.reply, () => { this.#end() })
    } else {
      this.#followed = [...this.#followed.filter(({ isOpen }) => isOpen), permit]
    }
  }

  #end (): void {
    const followed = this.#followed
    this.#followed = null
    followed?.forEach((permit) => { permit.end() })
  }
}

export function stateOf (request: Carrier): RequestState {
  request[stateKey] ??= new RequestState()
  return request[stateKey]
}

/** Returns the permit of the hook; a promise while it is pending, and undefined if the request is subject to no quota. */
export function permitOf (request: Carrier): RequestState['permit'] {
  return request[stateKey]?.permit
}

/** Whether the response of a request that has passed the hook is still open. */
export function isResponseOpen (request: Carrier): boolean {
  const reply = request[stateKey]?.reply
  return reply !== undefined && !hasResponseEnded(request, reply)
}

/** The request decorator `quota`. A host can assign to it, which changes the value that it returns, but not the decision. */
export const quotaAccessor = {
  getter (this: Carrier): QuotaDecision | null {
    const state = this[stateKey]
    return state?.assigned === undefined ? state?.decisions[0] ?? null : state.assigned
  },
  setter (this: Carrier, decision: QuotaDecision | null) {
    stateOf(this).assigned = decision ?? null
  }
}

/** The request decorator `quotaDecisions`. */
export const decisionsAccessor = {
  getter (this: Carrier): readonly QuotaDecision[] {
    return this[stateKey]?.decisions ?? none
  }
}
