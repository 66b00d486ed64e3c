import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { QuotaDecision } from './decision.js'

declare module 'fastify' {
  interface FastifyRequest {
    /** The decision of the quota on this request; null if the request is not subject to a quota. */
    quota: QuotaDecision | null
  }
}

const place = Symbol('fastify-llm-quota')

// Assigned by the class, whose fields only these functions can read and write. They are not reachable from an object of the class.
let belongsTo: (state: RequestState, request: FastifyRequest) => boolean
let claim: (state: RequestState) => boolean
let decisionOf: (state: RequestState) => QuotaDecision | null
let setDecision: (state: RequestState, decision: QuotaDecision | null) => void

/**
 * The state of a request. It is stored on the request, but only this module can change it, and it is valid only for that request. A
 * host therefore cannot mark a request as already decided. A `WeakMap` or a private field on the request itself would cost more.
 */
export class RequestState {
  readonly #request: FastifyRequest
  #isClaimed = false
  #decision: QuotaDecision | null = null

  constructor (request: FastifyRequest) {
    this.#request = request
  }

  static {
    belongsTo = (state, request) => state.#request === request
    claim = (state) => {
      if (state.#isClaimed) return false
      state.#isClaimed = true
      return true
    }
    decisionOf = (state) => state.#decision
    setDecision = (state, decision) => { state.#decision = decision }
  }
}

type Carrier = FastifyRequest & { [place]?: unknown }

function stateOf (request: Carrier): RequestState | null {
  const state = request[place]
  return state instanceof RequestState && belongsTo(state, request) ? state : null
}

function createState (request: Carrier): RequestState {
  const state = new RequestState(request)
  request[place] = state
  return state
}

/** Returns the state of a request that needs a decision; null if the request already has one. */
export function claimRequest (request: FastifyRequest): RequestState | null {
  const state = stateOf(request) ?? createState(request)
  return claim(state) ? state : null
}

/** Sets the value of `request.quota`. */
export function showDecision (state: RequestState, decision: QuotaDecision): void {
  setDecision(state, decision)
}

/**
 * Decorates requests with the accessor `quota`. A plain value would not reach the requests of scopes that existed before the
 * decoration. A host can assign to it, which changes the value that it returns, but not the decision.
 */
export function decorateWithDecision (fastify: FastifyInstance): void {
  fastify.decorateRequest<QuotaDecision | null>('quota', {
    getter (this: FastifyRequest) {
      const state = stateOf(this)
      return state === null ? null : decisionOf(state)
    },
    setter (this: FastifyRequest, decision: QuotaDecision | null) { setDecision(stateOf(this) ?? createState(this), decision) }
  })
}
