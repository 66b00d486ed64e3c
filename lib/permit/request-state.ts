import type { Duplex } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { QuotaDecision } from './decision.js'
import type { Permit } from './permit.js'

const stateKey = Symbol('fastify-llm-quota')
const none: readonly never[] = Object.freeze([])

// A `WeakMap` would cost more.
type Carrier = FastifyRequest & { [stateKey]?: RequestState }

/** What this package keeps of a request. */
class RequestState {
  /** Undefined if the request has not passed the hook. */
  reply: FastifyReply | undefined = undefined
  /**
   * That of the hook; a promise while it is pending, and undefined if the request is subject to no
   * quota.
   */
  permit: Permit | Promise<Permit> | undefined = undefined
  /** What a host has assigned to `request.quota`, which is shown until the next permit. */
  assigned: QuotaDecision | null | undefined = undefined
  /**
   * The permits that end with the response; undefined before the first one, and null when the
   * response has closed.
   */
  #followed: readonly Permit[] | null | undefined = undefined

  get decisions (): readonly QuotaDecision[] {
    return this.permit === undefined || this.permit instanceof Promise
      ? none
      : this.permit.decisions
  }

  /**
   * Ends a permit when the response of its request closes; at once if it has closed. All permits of
   * a request share one listener.
   */
  endWithResponse (permit: Permit): void {
    if (!permit.isOpen || this.reply === undefined) return
    if (this.#followed === null) {
      permit.end()
    } else if (this.#followed === undefined) {
      this.#followed = [permit]
      whenResponseEnds(permit.request, this.reply, () => {
        const followed = this.#followed
        this.#followed = null
        followed?.forEach((each) => {
          each.end()
        })
      })
    } else {
      this.#followed = [...this.#followed.filter(({ isOpen }) => isOpen), permit]
    }
  }
}

export function stateOf (request: Carrier): RequestState {
  request[stateKey] ??= new RequestState()
  return request[stateKey]
}

/** Returns the permit of the hook, and changes nothing of the request. */
export const permitOf = (request: Carrier): RequestState['permit'] => request[stateKey]?.permit

/** Whether the response of a request that has passed the hook is still open. */
export function isResponseOpen (request: Carrier): boolean {
  const reply = request[stateKey]?.reply
  return reply !== undefined && !hasResponseEnded(request, reply)
}

/**
 * The request decorator `quota`. A host can assign to it, which changes the value that it returns,
 * but not the decision.
 */
export const quotaAccessor = {
  getter (this: Carrier): QuotaDecision | null {
    const state = this[stateKey]
    return state?.assigned === undefined ? (state?.decisions[0] ?? null) : state.assigned
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

// A connection can have many pipelined requests, which share one listener. In HTTP/2, the socket of
// a request stands for its stream.
const onConnections = new WeakMap<Duplex, Set<() => void>>()

interface Http2Stream extends Duplex {
  readonly closed: boolean
}

/** Whether the response to a request has closed. The response object of HTTP/2 does not show it. */
function hasResponseEnded (request: FastifyRequest, { raw }: FastifyReply): boolean {
  const stream = streamOf(request)
  return raw.destroyed || socketOf(request, raw)?.destroyed === true || stream?.closed === true
}

/**
 * Runs a function once when the response to a request has closed, whatever ends it; at once if it
 * already has.
 *
 * The connection is followed as well as the response: if it ends, responses to pipelined requests
 * that wait for their turn emit nothing. An HTTP/2 stream that the client resets without an error
 * can emit only `end`.
 */
function whenResponseEnds (request: FastifyRequest, reply: FastifyReply, run: () => void): void {
  const socket = socketOf(request, reply.raw)
  if (socket === null || hasResponseEnded(request, reply)) return run()
  const waiting = onConnections.get(socket) ?? new Set<() => void>()
  if (!onConnections.has(socket)) {
    socket.once('close', () => {
      for (const end of waiting) end()
    })
  }
  onConnections.set(socket, waiting)
  function end (): void {
    if (waiting.delete(end)) run()
  }
  waiting.add(end)
  reply.raw.on('close', end)
  const stream = streamOf(request)
  stream?.on('end', () => {
    if (stream.closed) end()
  })
}

/**
 * A request that was injected into a WebSocket route has no socket; its response has one until it
 * has ended.
 */
function socketOf ({ raw }: FastifyRequest, response: FastifyReply['raw']): Duplex | null {
  const socket: Duplex | null | undefined = raw.socket
  return socket ?? response.socket
}

function streamOf ({ raw }: FastifyRequest): Http2Stream | undefined {
  const { stream }: { readonly stream?: Http2Stream } = raw as object
  return stream
}
