import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { QuotaDecision } from './decision.js'

declare module 'fastify' {
  interface FastifyRequest {
    /** The decision of the quota on this request; null if the request is not subject to a quota. */
    quota: QuotaDecision | null
  }
}

const place = Symbol('fastify-llm-quota')
const assignedPlace = Symbol('fastify-llm-quota: assigned')

/**
 * The state of a request that has a decision or waits for it. It is stored on the request, but only this module can change it, and it is
 * valid only for that request. A host therefore cannot mark a request as already decided. A `WeakMap` or a private field on the request
 * itself would cost more.
 */
export class RequestState {
  readonly #request: FastifyRequest
  // Undefined while the request waits for its decision.
  #decision: QuotaDecision | null | undefined

  constructor (request: FastifyRequest) {
    this.#request = request
    this.#decision = undefined
  }

  static {
    // A host that finds the state of a request cannot reach the class from it, so it can neither create a state nor change one.
    Reflect.deleteProperty(RequestState.prototype, 'constructor')
  }

  static belongsTo (state: RequestState, request: FastifyRequest): boolean {
    return state.#request === request
  }

  static decisionOf (state: RequestState): QuotaDecision | null | undefined {
    return state.#decision
  }

  static setDecision (state: RequestState, decision: QuotaDecision | null): void {
    state.#decision = decision
  }
}

// A value that a host assigns before the decision has a place of its own, because an object at `place` means that the request has a state.
type Carrier = FastifyRequest & { [place]?: unknown, [assignedPlace]?: QuotaDecision | null }

function stateOf (request: Carrier): RequestState | null {
  const state = request[place]
  return state instanceof RequestState && RequestState.belongsTo(state, request) ? state : null
}

/** Returns the state of a request that needs a decision; null if the request already has one. */
export function claimRequest (request: Carrier): RequestState | null {
  if (place in request && hasState(request)) return null
  const state = new RequestState(request)
  request[place] = state
  return state
}

function hasState (request: Carrier): boolean {
  return stateOf(request) !== null
}

/** Sets the value of `request.quota`. */
export function showDecision (state: RequestState, decision: QuotaDecision): void {
  RequestState.setDecision(state, decision)
}

/**
 * Decorates requests with the accessor `quota`. A plain value would not reach the requests of scopes that existed before the
 * decoration. A host can assign to it, which changes the value that it returns, but not the decision.
 */
export function decorateWithDecision (fastify: FastifyInstance): void {
  fastify.decorateRequest<QuotaDecision | null>('quota', {
    getter (this: Carrier) {
      const state = stateOf(this)
      const decision = state === null ? undefined : RequestState.decisionOf(state)
      return decision === undefined ? this[assignedPlace] ?? null : decision
    },
    setter (this: Carrier, decision: QuotaDecision | null) {
      const state = stateOf(this)
      if (state === null) this[assignedPlace] = decision
      else RequestState.setDecision(state, decision)
    }
  })
}
