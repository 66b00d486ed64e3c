import type { FastifyReply, FastifyRequest } from 'fastify'
import { isObject } from '../option-checks.js'
import type { Eventual } from '../promises.js'
import type { Permit } from './permit.js'
import type { QuotaPermit } from './quota-permit.js'
import type { EndsWithResponse, ResponseFollower } from './requester.js'
import { whenResponseEnds } from './response-end.js'

const stateKey = Symbol('fastify-llm-quota')

// A `WeakMap` would cost more.
type RequestWithState = FastifyRequest & { [stateKey]?: RequestState }

/** What this package keeps of a request. */
export class RequestState implements ResponseFollower {
  /** Undefined until the request passes the hook. */
  reply: FastifyReply | undefined = undefined
  /** As the hook got it, so still a promise later; undefined if the request has no quota. */
  pending: Eventual<Permit> | undefined = undefined
  /** The permit of the hook once it was decided. */
  permit: Permit | undefined = undefined
  /** What `request.quota` returns; undefined until it is asked for. */
  handle: QuotaPermit | undefined = undefined
  readonly request: FastifyRequest
  /** What ends with the response; undefined before the first permit. */
  #followed: Set<EndsWithResponse> | undefined = undefined
  #hasResponseEnded = false

  constructor (request: FastifyRequest) {
    this.request = request
  }

  /**
   * All permits of a request share one listener. Does nothing if the request has not passed the
   * hook.
   */
  endWithResponse (each: EndsWithResponse): void {
    if (this.reply === undefined) return
    this.#followed ??= this.#follow(this.reply)
    if (this.#hasResponseEnded) each.end()
    else this.#followed.add(each)
  }

  forget (each: EndsWithResponse): void {
    this.#followed?.delete(each)
  }

  /** Returns the set of what ends with the response. */
  #follow (reply: FastifyReply): Set<EndsWithResponse> {
    const followed = new Set<EndsWithResponse>()
    whenResponseEnds(this.request, reply, () => {
      this.#hasResponseEnded = true
      for (const each of followed) each.end()
      followed.clear()
    })
    return followed
  }
}

/** Returns the state of a request, which is created if there is none. */
export function stateOf (request: RequestWithState): RequestState {
  request[stateKey] ??= new RequestState(request)
  return request[stateKey]
}

/** Returns the state of a request if it has one, whatever a host takes for a request. */
export function knownStateOf (request: unknown): RequestState | undefined {
  if (!isObject(request)) return undefined
  const { [stateKey]: state }: { readonly [stateKey]?: RequestState } = request
  return state
}
