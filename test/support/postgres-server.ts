import { execFileSync, spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { postgresSchema } from '../../lib/postgres.js'
import { plainEnvironment } from './environment.js'
import { freePort } from './redis-server.js'

/** Returns the folder of PostgreSQL's programs: from the environment variable `POSTGRES_BIN`, or the latest version that Debian has installed. */
function programs (): string {
  const { POSTGRES_BIN: chosen } = process.env
  if (chosen !== undefined) return chosen
  const installed = '/usr/lib/postgresql'
  const [latest] = existsSync(installed) ? readdirSync(installed).sort((one, other) => Number(other) - Number(one)) : []
  if (latest === undefined) throw new Error("PostgreSQL is not installed; install Debian's postgresql")
  return join(installed, latest, 'bin')
}

// PostgreSQL refuses to run as root.
const account = process.getuid?.() === 0 ? idsOf('postgres') : undefined

function idsOf (user: string): { uid: number, gid: number } {
  const id = (kind: string) => Number(execFileSync('id', [kind, user], { encoding: 'utf8' }))
  return { uid: id('-u'), gid: id('-g') }
}

/** Creates a folder that the server's account owns. */
function createFolder (parent: string): string {
  const folder = mkdtempSync(join(parent, 'quota-postgres-'))
  if (account !== undefined) chownSync(folder, account.uid, account.gid)
  return folder
}

const settings = ['fsync=off', 'full_page_writes=off', 'max_connections=100', 'shared_buffers=128MB', 'wal_level=replica', 'listen_addresses=127.0.0.1', 'unix_socket_directories=']

// A test that fails may leave servers running. They must not outlive it, nor keep its process from ending.
const running = new Set<ChildProcess>()
const folders = new Set<string>()
process.once('exit', () => {
  for (const child of running) child.kill('SIGQUIT')
  for (const folder of folders) rmSync(folder, { recursive: true, force: true })
})

/** A private server on a free loopback port. It keeps its data while it is stopped. */
export class PostgresServer {
  readonly port: number
  /** The folder of the data. */
  readonly folder: string
  #process: ChildProcess | undefined

  private constructor (port: number, folder: string) {
    this.port = port
    this.folder = folder
    folders.add(folder)
  }

  /** @param parent The folder in which the data's folder is created. */
  static async start (parent = tmpdir()): Promise<PostgresServer> {
    const server = new PostgresServer(await freePort(), createFolder(parent))
    execute('initdb', ['--pgdata', server.folder, '--username', 'postgres', '--auth', 'trust', '--no-sync', '--encoding', 'UTF8', '--locale', 'C'])
    await server.start()
    return server
  }

  /** Starts a replica of another server. */
  static async startReplicaOf (primary: PostgresServer): Promise<PostgresServer> {
    const replica = new PostgresServer(await freePort(), createFolder(tmpdir()))
    execute('pg_basebackup', ['--pgdata', replica.folder, '--write-recovery-conf', '--no-sync', '--checkpoint=fast', '--dbname', primary.url])
    await replica.start()
    return replica
  }

  get url (): string {
    return `postgres://postgres@127.0.0.1:${this.port}/postgres`
  }

  /** The process id while the server runs. */
  get pid (): number | undefined {
    return this.#process?.pid
  }

  /** @param more Further settings, for this start only. */
  async start (...more: readonly string[]): Promise<void> {
    const parameters = ['-D', this.folder, '-p', String(this.port), ...[...settings, ...more].flatMap((setting) => ['-c', setting])]
    // After a crash, a server does not start before the last process of the one before it has ended.
    for (let attempt = 0; attempt < 50; attempt++) {
      if (await this.#launch(parameters)) return
      await sleep(100)
    }
    throw new Error(`the server on port ${this.port} does not start`)
  }

  /** Starts the server's process. Returns whether it answers; if not, it has ended. */
  async #launch (parameters: readonly string[]): Promise<boolean> {
    const child = spawn(join(programs(), 'postgres'), parameters, { stdio: 'ignore', env: plainEnvironment(), ...account })
    child.unref()
    running.add(child)
    child.once('exit', () => running.delete(child))
    this.#process = child
    while (child.exitCode === null) {
      const client = new pg.Client({ connectionString: this.url })
      client.on('error', () => {})
      try {
        await client.connect()
        return true
      } catch {
        await sleep(20)
      } finally {
        await client.end().catch(() => {})
      }
    }
    return false
  }

  /** Stops the server as an administrator does, and starts it with further settings. */
  async restart (...more: readonly string[]): Promise<void> {
    await this.#end('SIGINT')
    await this.start(...more)
  }

  /** Makes a replica the primary. */
  promote (): void {
    execute('pg_ctl', ['promote', '--pgdata', this.folder])
  }

  signal (name: NodeJS.Signals): void {
    this.#process?.kill(name)
  }

  /** Ends the server as a crash does. */
  async kill (): Promise<void> {
    await this.#end('SIGKILL')
  }

  async stop (): Promise<void> {
    await this.#end('SIGQUIT')
    rmSync(this.folder, { recursive: true, force: true })
    folders.delete(this.folder)
  }

  /** Creates a pool, as a host would. */
  pool (options: pg.PoolConfig = {}): pg.Pool {
    const pool = new pg.Pool({ connectionString: this.url, connectionTimeoutMillis: 2_000, ...options })
    pool.on('error', () => {})
    return pool
  }

  async #end (signal: NodeJS.Signals): Promise<void> {
    const child = this.#process
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return
    const exited = once(child, 'exit')
    child.ref()
    child.kill(signal)
    await exited
  }
}

function execute (program: string, parameters: readonly string[]): void {
  execFileSync(join(programs(), program), parameters, { stdio: ['ignore', 'ignore', 'pipe'], env: plainEnvironment(), cwd: tmpdir(), ...account })
}

/** Starts a server with the schema, and a pool, for a test. Both end with the test. */
export async function startPostgres (t: { teardown (end: () => Promise<void>): unknown }, options: pg.PoolConfig = {}): Promise<{ server: PostgresServer, pool: pg.Pool }> {
  const server = await PostgresServer.start()
  const pool = server.pool(options)
  t.teardown(async () => {
    await pool.end()
    await server.stop()
  })
  await pool.query(postgresSchema())
  return { server, pool }
}
