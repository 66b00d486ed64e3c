import { execFileSync, spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { plainEnvironment } from './environment.js'

/** The server program of this machine: Redis, or Valkey, which answers the same. */
function program (kind: 'server' | 'cli'): string {
  for (const name of [`redis-${kind}`, `valkey-${kind}`]) {
    try {
      execFileSync('which', [name], { stdio: 'ignore' })
      return name
    } catch {
      // The other one, then.
    }
  }
  throw new Error(`there is neither redis-${kind} nor valkey-${kind} on the PATH; install Debian's redis-server`)
}

async function freePort (): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  server.close()
  await once(server, 'close')
  return typeof address === 'object' && address !== null ? address.port : 0
}

// Whatever happens to a test, its servers end with it.
const running = new Set<ChildProcess>()
process.once('exit', () => { for (const child of running) child.kill('SIGKILL') })

/** A private server on a free loopback port, without persistence. */
export class RedisServer {
  readonly port: number
  readonly #directory = mkdtempSync(join(tmpdir(), 'quota-redis-'))
  readonly #options: readonly string[]
  #process: ChildProcess | undefined

  private constructor (port: number, options: readonly string[]) {
    this.port = port
    this.#options = options
  }

  static async start (...options: string[]): Promise<RedisServer> {
    const server = new RedisServer(await freePort(), options)
    await server.start()
    return server
  }

  get url (): string {
    return `redis://127.0.0.1:${this.port}`
  }

  async start (): Promise<void> {
    const child = spawn(program('server'), [
      '--port', String(this.port), '--bind', '127.0.0.1', '--dir', this.#directory, '--save', '', '--appendonly', 'no', ...this.#options
    ], { stdio: 'ignore', env: plainEnvironment() })
    running.add(child)
    child.once('exit', () => running.delete(child))
    this.#process = child
    await this.#answers()
  }

  signal (name: NodeJS.Signals): void {
    this.#process?.kill(name)
  }

  async kill (): Promise<void> {
    const child = this.#process
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return
    const exited = once(child, 'exit')
    child.kill('SIGKILL')
    await exited
  }

  async stop (): Promise<void> {
    await this.kill()
    rmSync(this.#directory, { recursive: true, force: true })
  }

  /** A client of its own, as a host would make it, that gives up on a command when its connection is lost. */
  client ({ enableAutoPipelining = false } = {}): Redis {
    const client = new Redis({ port: this.port, host: '127.0.0.1', maxRetriesPerRequest: 0, retryStrategy: () => 50, enableAutoPipelining })
    client.on('error', () => {})
    return client
  }

  async #answers (): Promise<void> {
    const client = new Redis({ port: this.port, host: '127.0.0.1', retryStrategy: () => 20, maxRetriesPerRequest: null })
    client.on('error', () => {})
    await client.ping()
    client.disconnect()
  }
}

/** Three masters and a replica for each, joined to a cluster. */
export async function startCluster (): Promise<RedisServer[]> {
  const servers = await Promise.all(Array.from({ length: 6 }, () => RedisServer.start('--cluster-enabled', 'yes', '--cluster-node-timeout', '500')))
  execFileSync(program('cli'), ['--cluster', 'create', ...servers.map(({ port }) => `127.0.0.1:${port}`), '--cluster-replicas', '1', '--cluster-yes'],
    { stdio: 'ignore', env: plainEnvironment() })
  return servers
}
