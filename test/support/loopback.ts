import { once } from 'node:events'
import type { Server, Socket } from 'node:net'

/** A server on a free loopback port. */
export interface Listening {
  readonly port: number
  /** Ends all connections and the server. */
  stop(): Promise<void>
}

/** Makes a server listen on a free loopback port. */
export async function listenOnLoopback (server: Server): Promise<Listening> {
  const sockets = new Set<Socket>()
  server.on('connection', (socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    socket.once('close', () => {
      sockets.delete(socket)
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (typeof address !== 'object' || address === null) {
    throw new Error('the server is not listening')
  }
  return {
    port: address.port,
    async stop () {
      if (!server.listening) return
      const closed = once(server, 'close')
      server.close()
      for (const socket of sockets) socket.destroy()
      await closed
    }
  }
}
