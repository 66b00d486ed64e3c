import type { FastifyRequest } from 'fastify'

/**
 * Returns the caller key of the earlier quota: the first comma-separated entry of `X-Forwarded-For`, trimmed, if that header is
 * present and not blank; otherwise the address of the remote peer. A client that sends the header chooses its own key.
 */
export function clientAddress (request: FastifyRequest): string {
  const forwarded = String(request.raw.headers['x-forwarded-for'] ?? '')
  if (forwarded.trim() === '') return String(request.raw.socket.remoteAddress)
  return forwarded.slice(0, `${forwarded},`.indexOf(',')).trim()
}
