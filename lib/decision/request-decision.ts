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

// Assigned by the class, whose fields only these functions can read and write. They are not reachable from an object of the class.
let belongsTo: (state: RequestState, request: FastifyRequest) => boolean
let decisionOf: (state: RequestState) => QuotaDecision | null
let setDecision: (state: RequestState, decision: QuotaDecision | null) => void

/**
 * The state of a request that has a decision or waits for it. It is stored on the request, but only this module can change it, and it is
 * valid only for that request. A host therefore cannot mark a request as already decided. A `WeakMap` or a private field on the request
 * itself would cost more.
 */
export class RequestState {
  readonly #request: FastifyRequest
  #decision: QuotaDecision | null

  constructor (request: FastifyRequest, decision: QuotaDecision | null) {
    this.#request = request
    this.#decision = decision
  }

  static {
    // A host that finds the state of a request cannot reach the class from it, and so cannot create a state for another request.
    Reflect.deleteProperty(RequestState.prototype, 'constructor')
    belongsTo = (state, request) => state.#request === request
    decisionOf = (state) => state.#decision
    setDecision = (state, decision) => { state.#decision = decision }
  }
}

type Carrier = FastifyRequest & { [place]?: unknown, [assignedPlace]?: QuotaDecision | null }

function stateOf (request: Carrier): RequestState | null {
  const state = request[place]
  return state instanceof RequestState && belongsTo(state, request) ? state : null
}

/** Whether the request has a decision or waits for it. */
export function isClaimed (request: Carrier): boolean {
  return place in request && stateOf(request) !== null
}

/** Marks a request as waiting for its decision. */
export function claimRequest (request: Carrier): RequestState {
  const state = new RequestState(request, null)
  request[place] = state
  return state
}

/** Sets the decision of a request that is not claimed. It is the value of `request.quota` from then on. */
export function storeDecision (request: Carrier, decision: QuotaDecision): void {
  request[place] = new RequestState(request, decision)
}

/** Sets the decision of a request that waits for it. */
export function showDecision (state: RequestState, decision: QuotaDecision): void {
  setDecision(state, decision)
}

/**
 * Decorates requests with the accessor `quota`. A plain value would not reach the requests of scopes that existed before the
 * decoration. A host can assign to it, which changes the value that it returns, but not the decision.
 */
export function decorateWithDecision (fastify: FastifyInstance): void {
  fastify.decorateRequest<QuotaDecision | null>('quota', {
    getter (this: Carrier) {
      const state = stateOf(this)
      return state === null ? this[assignedPlace] ?? null : decisionOf(state)
    },
    setter (this: Carrier, decision: QuotaDecision | null) {
      const state = stateOf(this)
      if (state === null) this[assignedPlace] = decision
      else setDecision(state, decision)
    }
  })
}
