import type { FastifyReply, FastifyRequest } from 'fastify'
import type { QuotaDecision } from './decision.js'
import type { Permit } from './permit.js'
import { hasResponseEnded, whenResponseEnds } from './response-end.js'

const stateKey = Symbol('fastify-llm-quota')
const none: readonly never[] = Object.freeze([])

/** What this package keeps of a request. */
class RequestState {
  /** Undefined if the request has not passed the hook. */
  reply: FastifyReply | undefined = undefined
  /** That of the hook; a promise while it is pending, and undefined if the request is subject to no quota. */
  permit: Permit | Promise<Permit> | undefined = undefined
  /** The permits that end with the response; undefined before the first one, and null when the response has closed. */
  followed: readonly Permit[] | null | undefined = undefined
  /** What a host has assigned to `request.quota`, which is shown until the next permit. */
  assigned: QuotaDecision | null | undefined = undefined
}

// A `WeakMap` would cost more.
type Carrier = FastifyRequest & { [stateKey]?: RequestState }

function stateOf (request: Carrier): RequestState {
  request[stateKey] ??= new RequestState()
  return request[stateKey]
}

/** Returns the permit of the hook, or a promise while it is pending; undefined if the request is subject to no quota. */
export function findPermit (request: Carrier): Permit | Promise<Permit> | undefined {
  return request[stateKey]?.permit
}

/** Stores the permit of the hook, or the promise for it. */
export function keepPermit (request: Carrier, permit: Permit | Promise<Permit>): void {
  const state = stateOf(request)
  state.permit = permit
  if (!(permit instanceof Promise)) state.assigned = undefined
}

/** Remembers that a request has passed the hook. */
export function keepReply (request: Carrier, reply: FastifyReply): void {
  stateOf(request).reply = reply
}

/** Whether the response of a request that has passed the hook is still open. */
export function isResponseOpen (request: Carrier): boolean {
  const reply = request[stateKey]?.reply
  return reply !== undefined && !hasResponseEnded(request, reply)
}

/** Ends a permit when the response of its request closes; at once if it has closed. All permits of a request share one listener. */
export function endWithResponse (permit: Permit): void {
  const state = stateOf(permit.request)
  const { reply, followed } = state
  if (!permit.isOpen || reply === undefined) return
  if (followed === null) {
    permit.end()
  } else if (followed === undefined) {
    state.followed = [permit]
    whenResponseEnds(permit.request, reply, () => { end(state) })
  } else {
    state.followed = [...followed.filter(({ isOpen }) => isOpen), permit]
  }
}

function end (state: RequestState): void {
  const { followed } = state
  state.followed = null
  followed?.forEach((permit) => { permit.end() })
}

function decisionsOf (state: RequestState | undefined): readonly QuotaDecision[] {
  const permit = state?.permit
  return permit === undefined || permit instanceof Promise ? none : permit.decisions
}

/** The request decorator `quota`. A host can assign to it, which changes the value that it returns, but not the decision. */
export const quotaAccessor = {
  getter (this: Carrier): QuotaDecision | null {
    const state = this[stateKey]
    return state?.assigned === undefined ? decisionsOf(state)[0] ?? null : state.assigned
  },
  setter (this: Carrier, decision: QuotaDecision | null) {
    stateOf(this).assigned = decision ?? null
  }
}

/** The request decorator `quotaDecisions`. */
export const decisionsAccessor = {
  getter (this: Carrier): readonly QuotaDecision[] {
    return decisionsOf(this[stateKey])
  }
}
