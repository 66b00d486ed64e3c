import { readFileSync } from 'node:fs'
import type pg from 'pg'
import { postgresSchema } from '../lib/postgres.js'
import { PostgresServer } from '../test/support/postgres-server.js'
import { FaultyProxy } from './faulty-proxy.js'

/** A PostgreSQL server behind proxies, one for each instance. */
export class PostgresNode {
  readonly server: PostgresServer
  readonly proxies: readonly FaultyProxy[]

  private constructor (server: PostgresServer, proxies: readonly FaultyProxy[]) {
    this.server = server
    this.proxies = proxies
  }

  static async start (instances: number): Promise<PostgresNode> {
    const server = await PostgresServer.start()
    const node = new PostgresNode(
      server,
      await Promise.all(Array.from({ length: instances }, () => FaultyProxy.start(server.port)))
    )
    await node.administer(postgresSchema())
    return node
  }

  /** Creates a pool for an administrator, with a connection of its own to the server. */
  administrator (): pg.Pool {
    return this.server.pool({
      max: 1,
      application_name: 'administrator',
      options: '-c default_transaction_read_only=off'
    })
  }

  /** Runs statements on the server directly. */
  async administer (statements: string): Promise<void> {
    const pool = this.administrator()
    await pool.query(statements)
    await pool.end()
  }

  /** Sends a signal to all processes of the server. Only Linux tells which these are. */
  signal (name: NodeJS.Signals): void {
    const { pid } = this.server
    if (pid === undefined) return
    for (const each of [
      pid,
      ...readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').map(Number)
    ]) {
      try {
        process.kill(each, name)
      } catch {
        // A backend has just ended.
      }
    }
  }

  async stop (): Promise<void> {
    await Promise.all(this.proxies.map((proxy) => proxy.stop()))
    this.signal('SIGCONT')
    await this.server.stop()
  }
}
