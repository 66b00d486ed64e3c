import type { Duplex } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'

// A connection can have many pipelined requests, which share one listener. In HTTP/2, the socket of a request stands for its stream.
const onConnections = new WeakMap<Duplex, Set<() => void>>()

/**
 * Runs a function once when the response to a request has closed, whatever ends it; at once if it already has.
 *
 * The connection is followed as well as the response: if it ends, responses to pipelined requests that wait for their turn emit nothing. The
 * response object of HTTP/2 does not show that it has closed.
 */
export function whenResponseEnds ({ raw: { socket } }: FastifyRequest, { raw }: FastifyReply, run: () => void): void {
  if (raw.destroyed || socket.destroyed) return run()
  const waiting = waitingOn(socket)
  function end (): void {
    if (waiting.delete(end)) run()
  }
  waiting.add(end)
  raw.on('close', end)
}

function waitingOn (socket: Duplex): Set<() => void> {
  const known = onConnections.get(socket)
  if (known !== undefined) return known
  const waiting = new Set<() => void>()
  onConnections.set(socket, waiting)
  socket.once('close', () => { for (const end of waiting) end() })
  return waiting
}
