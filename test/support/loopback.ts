import { once } from 'node:events'
import type { Server } from 'node:net'

/** Starts a server on a free loopback port. */
export async function listenOnLoopback (server: Server): Promise<void> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
}

/**
 * Returns the port of a server.
 *
 * @throws {Error} If the server is not listening.
 */
export function portOf (server: Server): number {
  const address = server.address()
  if (typeof address !== 'object' || address === null) throw new Error('the server is not listening')
  return address.port
}
