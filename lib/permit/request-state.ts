import type { FastifyReply, FastifyRequest } from 'fastify'
import { isObject } from '../option-checks.js'
import type { QuotaDecision } from './decision.js'
import type { Permit } from './permit.js'
import { hasResponseEnded, whenResponseEnds } from './response-end.js'

const stateKey = Symbol('fastify-llm-quota')
const none: readonly never[] = Object.freeze([])

// A `WeakMap` would cost more.
type RequestWithState = FastifyRequest & { [stateKey]?: RequestState }

/** What this package keeps of a request. */
class RequestState {
  /** Undefined if the request has not passed the hook. */
  reply: FastifyReply | undefined = undefined
  /** The hook's permit when it is decided; undefined if the request is subject to no quota. */
  pending: Promise<Permit> | undefined = undefined
  /** The hook's permit once it was decided. */
  permit: Permit | undefined = undefined
  /** What a host has assigned to `request.quota`, which is returned until the hook's decision. */
  assigned: QuotaDecision | null | undefined = undefined
  /** The permits that end with the response; undefined before the first one. */
  #followed: Set<Permit> | undefined = undefined
  #hasResponseEnded = false

  /**
   * Ends a permit when the response of its request closes; at once if it has closed. All permits of
   * a request share one listener. Does nothing if the request has not passed the hook.
   */
  endWithResponse (permit: Permit, request: FastifyRequest): void {
    if (!permit.isOpen || this.reply === undefined) return
    this.#followed ??= this.#follow(request, this.reply)
    if (this.#hasResponseEnded) {
      permit.expire()
    } else {
      this.#followed.add(permit)
    }
  }

  /** Whether the response has closed, with which the permits of the request end. */
  hasResponseEnded (request: FastifyRequest): boolean {
    const { reply } = this
    return this.#hasResponseEnded || (reply !== undefined && hasResponseEnded(request, reply))
  }

  /** Forgets a permit that the host has ended. */
  leave (permit: Permit): void {
    this.#followed?.delete(permit)
  }

  /** Returns the set of permits that end with the response. */
  #follow (request: FastifyRequest, reply: FastifyReply): Set<Permit> {
    const followed = new Set<Permit>()
    whenResponseEnds(request, reply, () => {
      this.#hasResponseEnded = true
      for (const permit of followed) permit.expire()
      followed.clear()
    })
    return followed
  }
}

/** Returns the state of a request, which is created if there is none. */
export function stateOf (request: RequestWithState): RequestState {
  request[stateKey] ??= new RequestState()
  return request[stateKey]
}

/** Returns the state of a request if it has one, whatever a host takes for a request. */
export function knownStateOf (request: unknown): RequestState | undefined {
  try {
    if (!isObject(request)) return undefined
    const { [stateKey]: state }: { readonly [stateKey]?: RequestState } = request
    return state
  } catch {
    // The value is a proxy that throws.
    return undefined
  }
}

/**
 * The request decorator `quota`. A host can assign to it, which changes the value that it returns,
 * but not the decision.
 */
export const quotaAccessor = {
  getter (this: RequestWithState): QuotaDecision | null {
    const state = this[stateKey]
    if (state?.assigned !== undefined) return state.assigned
    return state?.permit?.decisions[0] ?? null
  },
  setter (this: RequestWithState, decision: QuotaDecision | null) {
    stateOf(this).assigned = decision ?? null
  }
}

/** The request decorator `quotaDecisions`. */
export const decisionsAccessor = {
  getter (this: RequestWithState): readonly QuotaDecision[] {
    return this[stateKey]?.permit?.decisions ?? none
  }
}
