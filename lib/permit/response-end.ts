import type { Duplex } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'

// What waits for the end of each connection. It can have many pipelined requests, which share one
// listener. In HTTP/2, the socket of a request stands for its stream.
const waitingByConnection = new WeakMap<Duplex, (() => void)[]>()

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
export function whenResponseEnds (
  request: FastifyRequest,
  reply: FastifyReply,
  run: () => void
): void {
  const socket = socketOf(request, reply.raw)
  if (socket === null || hasResponseEnded(request, reply)) return run()
  const waiting = waitingOn(socket)
  // The first of the events counts.
  function end (): void {
    const position = waiting.indexOf(end)
    if (position === -1) return
    waiting.splice(position, 1)
    run()
  }
  waiting.push(end)
  reply.raw.on('close', end)
  const stream = streamOf(request)
  stream?.on('end', () => {
    if (stream.closed) end()
  })
}

/** Returns the functions that run when a connection closes. */
function waitingOn (socket: Duplex): (() => void)[] {
  const known = waitingByConnection.get(socket)
  if (known !== undefined) return known
  // Not a set, for the reason in unordered-list.ts.
  const waiting: (() => void)[] = []
  waitingByConnection.set(socket, waiting)
  socket.once('close', () => {
    for (const end of [...waiting]) end()
  })
  return waiting
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
