import { createServer, type Socket } from 'node:net'
import { PGlite } from '@electric-sql/pglite'
import { listenOnLoopback, portOf } from './loopback.js'

/** PostgreSQL in this process, for one client at a time over TCP. */
export class PgliteServer {
  readonly #database: PGlite
  readonly #sockets = new Set<Socket>()
  readonly #server = createServer((socket) => {
    this.#sockets.add(socket)
    socket.on('error', () => { socket.destroy() })
    socket.on('data', (data) => {
      this.#database.execProtocolRaw(data).then((response) => { socket.write(response) }, () => { socket.destroy() })
    })
  })

  private constructor (database: PGlite) {
    this.#database = database
  }

  /** @param schema Statements that run first. */
  static async start (schema: string): Promise<PgliteServer> {
    const server = new PgliteServer(await PGlite.create())
    await server.#database.exec(schema)
    await listenOnLoopback(server.#server)
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

  async stop (): Promise<void> {
    this.disconnect()
    await this.#database.close()
  }
}
