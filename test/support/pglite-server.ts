import { createServer } from 'node:net'
import { PGlite } from '@electric-sql/pglite'
import { listenOnLoopback, type Listening } from './loopback.js'

/** PostgreSQL in this process, for one client at a time over TCP. */
export class PgliteServer {
  readonly url: string
  /** Ends all connections, and accepts no more. */
  readonly disconnect: () => Promise<void>
  readonly #database: PGlite

  private constructor (database: PGlite, { port, stop }: Listening) {
    this.#database = database
    this.url = `postgres://postgres@127.0.0.1:${port}/postgres`
    this.disconnect = stop
  }

  /** @param schema Statements that run first. */
  static async start (schema: string): Promise<PgliteServer> {
    const database = await PGlite.create()
    await database.exec(schema)
    return new PgliteServer(database, await listenOnLoopback(createServer((socket) => {
      socket.on('data', (data) => {
        database.execProtocolRaw(data).then((response) => { socket.write(response) }, () => { socket.destroy() })
      })
    })))
  }

  async stop (): Promise<void> {
    await this.disconnect()
    await this.#database.close()
  }
}
