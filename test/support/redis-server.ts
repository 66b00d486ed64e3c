import { execFile, execFileSync, spawnSync, type ChildProcess } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { dirname, join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { promisify } from 'node:util'
import { Redis } from 'ioredis'
import { plainEnvironment } from './environment.js'
import { ServerProcess } from './server-process.js'
import { until } from './until.js'

/**
 * Returns the server program or the command-line client beside it: from the environment variable
 * `REDIS_SERVER`, for example `REDIS_SERVER=/opt/valkey/bin/valkey-server`, or else Redis or Valkey
 * from the PATH.
 */
function program (kind: 'server' | 'cli'): string {
  const { REDIS_SERVER: chosen } = process.env
  if (chosen !== undefined && kind === 'server') return chosen
  const candidates = [`redis-${kind}`, `valkey-${kind}`].map((name) =>
    chosen === undefined ? name : join(dirname(chosen), name)
  )
  const found = candidates.find((candidate) => spawnSync('which', [candidate]).status === 0)
  if (found === undefined) {
    throw new Error(`there is no ${candidates.join(' or ')}; install Debian's redis-server`)
  }
  return found
}

/** The name and version that the server program reports, such as `Redis server v=7.0.15`. */
export function serverVersion (): string {
  return execFileSync(program('server'), ['--version'], { encoding: 'utf8' })
    .split(' ')
    .slice(0, 3)
    .join(' ')
}

// By default, Linux gives outgoing connections ports from 32,768 on. Such a connection could take
// the port of a server before the server starts, or while it is stopped. A server in a cluster also
// listens on the port that is 10,000 higher, so these ports are from 22,768 on.
const firstEphemeralPort = 32_768
const clusterOffset = 10_000
const lowestPort = firstEphemeralPort - 2 * clusterOffset
const highestPort = firstEphemeralPort - clusterOffset - 1

// Servers of one process that start at the same time must not get the same port.
const returned = new Set<number>()

/** Returns a free loopback port that a server in a cluster can use. */
export async function freePort (): Promise<number> {
  for (;;) {
    const port = randomInt(lowestPort, highestPort + 1)
    if (returned.has(port)) continue
    returned.add(port)
    if ((await isFree(port)) && (await isFree(port + clusterOffset))) return port
  }
}

async function isFree (port: number): Promise<boolean> {
  const server = createServer()
  try {
    server.listen(port, '127.0.0.1')
    await once(server, 'listening')
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EADDRINUSE') return false
    throw error
  }
  server.close()
  await once(server, 'close')
  return true
}

/** A private server on a free loopback port, without persistence. */
export class RedisServer extends ServerProcess {
  readonly #options: readonly string[]

  private constructor (port: number, options: readonly string[]) {
    super(port)
    this.#options = options
  }

  static async start (...options: string[]): Promise<RedisServer> {
    const server = new RedisServer(await freePort(), options)
    await server.start()
    return server
  }

  static async startWithPassword (password: string): Promise<RedisServer> {
    const server = await RedisServer.start()
    await server.administer('CONFIG', 'SET', 'requirepass', password)
    return server
  }

  get url (): string {
    return `redis://127.0.0.1:${this.port}`
  }

  /** @param more Further options, for this start only. */
  async start (...more: readonly string[]): Promise<void> {
    const configuration = this.#options.filter((option) => option.endsWith('.conf'))
    const options = this.#options.filter((option) => !configuration.includes(option))
    const own = [
      '--port',
      String(this.port),
      '--bind',
      '127.0.0.1',
      '--dir',
      this.directory,
      '--save',
      '',
      '--appendonly',
      'no',
      // By default, a replica waits for five seconds for other ones.
      '--repl-diskless-sync-delay',
      '0'
    ]
    await this.#answers(
      this.launch(program('server'), [...configuration, ...own, ...options, ...more])
    )
  }

  /** Creates a client, as a host would, that fails a command when its connection is lost. */
  client ({ port = this.port, enableAutoPipelining = false } = {}): Redis {
    const client = new Redis({
      port,
      host: '127.0.0.1',
      maxRetriesPerRequest: 0,
      retryStrategy: () => 50,
      enableAutoPipelining
    })
    client.on('error', () => {})
    return client
  }

  /** Runs one command, as an administrator. */
  async administer (...command: [string, ...string[]]): Promise<unknown> {
    const client = this.client()
    try {
      return await client.call(...command)
    } finally {
      client.disconnect()
    }
  }

  /** Resolves when the server has reached a state, such as a finished synchronization. */
  async until (what: string, isReached: (client: Redis) => Promise<boolean>): Promise<void> {
    const client = this.client()
    try {
      await until(what, async () => {
        await pause(20)
        return isReached(client)
      })
    } finally {
      client.disconnect()
    }
  }

  /**
   * Resolves when this server answers. Rejects if it ends, or if another one answers on its port.
   */
  async #answers (child: ChildProcess): Promise<void> {
    const client = new Redis({
      port: this.port,
      host: '127.0.0.1',
      retryStrategy: () => 20,
      maxRetriesPerRequest: null
    })
    client.on('error', () => {})
    const ended = once(child, 'exit').then(() => {
      throw new Error(`the server on port ${this.port} ended before it answered`)
    })
    try {
      const information = await Promise.race([client.info('server'), ended])
      if (!information.includes(`process_id:${child.pid}\r`)) {
        throw new Error(`another server answers on port ${this.port}`)
      }
    } finally {
      client.disconnect()
    }
  }
}

/** Whether a server is a primary, or a replica with all data of its primary. */
async function isSynchronized (client: Redis): Promise<boolean> {
  return /role:master|master_link_status:up/.test(await client.info('replication'))
}

/** Starts a server and a client for a test. Both end with the test. */
export async function startRedis (t: {
  teardown(end: () => Promise<void>): unknown
}): Promise<{ server: RedisServer; client: Redis }> {
  const server = await RedisServer.start()
  const client = server.client()
  t.teardown(async () => {
    client.disconnect()
    await server.stop()
  })
  return { server, client }
}

/** How often the server runs each command during a call. */
export async function commandsDuring (
  client: Redis,
  run: () => Promise<unknown>
): Promise<Record<string, number>> {
  await client.config('RESETSTAT')
  await run()
  const statistics = [...(await client.info('commandstats')).matchAll(/cmdstat_(\w+):calls=(\d+)/g)]
  return Object.fromEntries(statistics.map(([, name = '', calls]) => [name, Number(calls)]))
}

/** A cluster of three masters with one replica each. */
export async function startCluster (): Promise<RedisServer[]> {
  const servers = await Promise.all(
    Array.from({ length: 6 }, async () =>
      RedisServer.start('--cluster-enabled', 'yes', '--cluster-node-timeout', '500')
    )
  )
  await promisify(execFile)(
    program('cli'),
    [
      '--cluster',
      'create',
      ...servers.map(({ port }) => `127.0.0.1:${port}`),
      '--cluster-replicas',
      '1',
      '--cluster-yes'
    ],
    { env: plainEnvironment() }
  )
  // The command-line client does not wait for the replicas. A master without a synchronized replica
  // that all others know has no successor.
  await Promise.all(
    servers.map((server) =>
      server.until('the cluster is complete', async (client) => {
        const ranges = await client.cluster('SLOTS')
        return (
          ranges.length === 3 &&
          ranges.every((range) => range.length === 4) &&
          isSynchronized(client)
        )
      })
    )
  )
  return servers
}

/** The ports of the servers, of which there is at least one. */
export function portsOf (servers: readonly { readonly port: number }[]): [number, ...number[]] {
  const [first, ...others] = servers.map(({ port }) => port)
  if (first === undefined) throw new Error('there is no server')
  return [first, ...others]
}
