import type { FastifyRequest } from 'fastify'

/**
 * The earlier caller key: the first comma-separated entry of `X-Forwarded-For`, trimmed, where that header is present and
 * not blank, else the address of the remote peer. Whoever sends the header chooses the key.
 */
export function clientAddress (request: FastifyRequest): string {
  const forwarded = String(request.raw.headers['x-forwarded-for'] ?? '')
  if (forwarded.trim() === '') return String(request.raw.socket.remoteAddress)
  return forwarded.slice(0, `${forwarded},`.indexOf(',')).trim()
}
