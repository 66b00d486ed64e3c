import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { RedisServer } from '../test/support/redis-server.js'
import { FaultyProxy } from './faulty-proxy.js'
import { credentials } from './stores.js'

/**
 * A server of Redis or Valkey behind proxies, one for each instance. Another server can take its
 * place.
 */
export class RedisNode {
  readonly proxies: readonly FaultyProxy[]
  #server: RedisServer
  #former: RedisServer | undefined

  private constructor (server: RedisServer, proxies: readonly FaultyProxy[]) {
    this.#server = server
    this.proxies = proxies
  }

  static async start (instances: number): Promise<RedisNode> {
    const server = await startServer()
    return new RedisNode(
      server,
      await Promise.all(Array.from({ length: instances }, () => FaultyProxy.start(server.port)))
    )
  }

  get server (): RedisServer {
    return this.#server
  }

  /** Sends a command to the server directly. */
  administer (command: string, ...parameters: string[]): Promise<unknown> {
    return send(this.#server, command, parameters)
  }

  /** Reads a number from the server's INFO. */
  async figure (name: string): Promise<number> {
    return Number(
      new RegExp(`^${name}:(\\d+)`, 'm').exec(String(await this.administer('INFO')))?.[1]
    )
  }

  /**
   * Replaces the server by a replica of its own: after a crash, or as planned, where the former
   * server keeps its connections.
   */
  async failOver (isPlanned: boolean): Promise<void> {
    const replica = await startServer()
    await send(replica, 'REPLICAOF', ['127.0.0.1', String(this.#server.port)])
    while (
      !String(await send(replica, 'INFO', ['replication'])).includes('master_link_status:up')
    ) {
      await sleep(20)
    }
    // A snapshot that stays would be loaded at the next start.
    rmSync(dataFile(replica), { force: true })
    if (!isPlanned) await this.#server.kill()
    await send(replica, 'REPLICAOF', ['NO', 'ONE'])
    if (isPlanned) await this.administer('REPLICAOF', '127.0.0.1', String(replica.port))
    for (const proxy of this.proxies) proxy.targetPort = replica.port
    await this.#former?.stop()
    this.#former = this.#server
    this.#server = replica
  }

  async stop (): Promise<void> {
    await Promise.all(this.proxies.map((proxy) => proxy.stop()))
    this.#server.signal('SIGCONT')
    await this.#server.stop()
    await this.#former?.stop()
  }
}

/** The file into which a server saves its data. */
export function dataFile ({ directory }: RedisServer): string {
  return join(directory, 'dump.rdb')
}

function startServer (): Promise<RedisServer> {
  const { username, password } = credentials
  return RedisServer.start(
    '--user',
    username,
    'on',
    `>${password}`,
    '~*',
    '&*',
    '+@all',
    '--repl-diskless-sync-delay',
    '0'
  )
}

async function send (
  { port }: RedisServer,
  command: string,
  parameters: readonly string[]
): Promise<unknown> {
  // While a server is busy with a script, it only accepts the command that ends the script.
  const client = new Redis({
    host: '127.0.0.1',
    port,
    enableReadyCheck: false,
    maxRetriesPerRequest: 0
  })
  client.on('error', () => {})
  try {
    return await client.call(command, ...parameters)
  } finally {
    client.disconnect()
  }
}
