import type { FastifyReply, FastifyRequest } from 'fastify'
import { isObject } from '../option-checks.js'
import type { Eventual } from '../promises.js'
import type { QuotaDecision } from './decision.js'
import type { Permit } from './permit.js'
import { hasResponseEnded, whenResponseEnds } from './response-end.js'

const stateKey = Symbol('fastify-llm-quota')
const replyKey = Symbol('fastify-llm-quota-reply')
const none: readonly never[] = Object.freeze([])

// A `WeakMap` would cost more.
type RequestWithState = FastifyRequest & {
  [stateKey]?: RequestState
  /** The reply to a request that is subject to no quota. */
  [replyKey]?: FastifyReply
}

/** What this package keeps of a request that is subject to a quota, or has a handler's permit. */
export class RequestState {
  /** Undefined if the request has not passed the hook. */
  reply: FastifyReply | undefined
  /** As the hook got it, so still a promise later; undefined if the request has no quota. */
  pending: Eventual<Permit> | undefined = undefined
  /** The hook's permit once it was decided. */
  permit: Permit | undefined = undefined
  /** What a host has assigned to `request.quota`, until a decision of the hook replaces it. */
  assigned: QuotaDecision | null | undefined = undefined
  /** The permits that end with the response; undefined before the first one. */
  #followed: Set<Permit> | undefined = undefined
  #hasResponseEnded = false

  constructor (reply: FastifyReply | undefined) {
    this.reply = reply
  }

  /**
   * Ends a permit when the response of its request closes; at once if it has closed. All permits of
   * a request share one listener. Does nothing if the request has not passed the hook.
   */
  endWithResponse (permit: Permit, request: FastifyRequest): void {
    if (permit.hasEnded || this.reply === undefined) return
    this.#followed ??= this.#follow(request, this.reply)
    if (this.#hasResponseEnded) {
      permit.end()
    } else {
      this.#followed.add(permit)
    }
  }

  /** Whether the response has closed, with which the permits of the request end. */
  hasResponseEnded (request: FastifyRequest): boolean {
    const { reply } = this
    return this.#hasResponseEnded || (reply !== undefined && hasResponseEnded(request, reply))
  }

  /** Forgets a permit that the host has ended, so that it does not end with the response. */
  unfollow (permit: Permit): void {
    this.#followed?.delete(permit)
  }

  /** Returns the set of permits that end with the response. */
  #follow (request: FastifyRequest, reply: FastifyReply): Set<Permit> {
    const followed = new Set<Permit>()
    whenResponseEnds(request, reply, () => {
      this.#hasResponseEnded = true
      for (const permit of followed) permit.end()
      followed.clear()
    })
    return followed
  }
}

/** Returns the state of a request that passes the hook, which is created if there is none. */
export function stateOf (request: RequestWithState, reply: FastifyReply): RequestState {
  request[stateKey] ??= new RequestState(reply)
  // A host can have assigned to `request.quota` before.
  request[stateKey].reply = reply
  return request[stateKey]
}

/**
 * Notes the reply to a request that is subject to no quota: nothing else is kept of it, and a
 * permit of its handler ends with the response.
 */
export function noteReply (request: RequestWithState, reply: FastifyReply): void {
  request[replyKey] = reply
}

/** Ends a handler's permit with the response of its request, if that has passed the hook. */
export function endHandlerPermitWithResponse (permit: Permit, request: RequestWithState): void {
  // Also for a permit that has nothing to settle, because `hasResponseEnded` needs the reply.
  if (request[stateKey]?.reply === undefined && request[replyKey] !== undefined) {
    stateOf(request, request[replyKey])
  }
  if (permit.mustBeSettled) request[stateKey]?.endWithResponse(permit, request)
}

/**
 * Returns the permit of a request that passes the hook again; undefined if it is the first time.
 */
export function pendingPermitOf (request: RequestWithState): Eventual<Permit> | undefined {
  return request[stateKey]?.pending
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
    this[stateKey] ??= new RequestState(undefined)
    this[stateKey].assigned = decision ?? null
  }
}

/** The request decorator `quotaDecisions`. */
export const decisionsAccessor = {
  getter (this: RequestWithState): readonly QuotaDecision[] {
    return this[stateKey]?.permit?.decisions ?? none
  }
}
