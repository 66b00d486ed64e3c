import { createServer, type Server, type Socket } from 'node:net'
import { PGlite } from '@electric-sql/pglite'
import type { Test } from 'tap'
import { listenOnLoopback, portOf } from './loopback.js'

// All servers of this process share one database, because creating it takes seconds.
let database: Promise<PGlite> | undefined

/** PostgreSQL in this process, for one client at a time over TCP. */
export class PgliteServer {
  readonly #sockets = new Set<Socket>()
  readonly #server: Server

  private constructor (database: PGlite) {
    this.#server = createServer((socket) => {
      this.#sockets.add(socket)
      socket.on('error', () => { socket.destroy() })
      socket.on('data', (data) => {
        database.execProtocolRaw(data).then((response) => { socket.write(response) }, () => { socket.destroy() })
      })
    })
  }

  /** Starts a server, and ends its connections after the test. */
  static async start (t: Test, schema: string): Promise<PgliteServer> {
    const started = await (database ??= PGlite.create())
    await started.exec(schema)
    const server = new PgliteServer(started)
    await listenOnLoopback(server.#server)
    t.teardown(() => { server.disconnect() })
    return server
  }

  get url (): string {
    return `postgres://postgres@127.0.0.1:${portOf(this.#server)}/postgres`
  }

  /** Ends all connections, and accepts no more. */
  disconnect (): void {
    this.#server.close()
    for (const socket of this.#sockets) socket.destroy()
  }
}
