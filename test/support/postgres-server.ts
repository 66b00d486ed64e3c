import { execFileSync } from 'node:child_process'
import { chownSync, existsSync, readdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { postgresSchema } from '../../lib/postgres.js'
import { plainEnvironment } from './environment.js'
import { freePort } from './redis-server.js'
import { ServerProcess } from './server-process.js'
import { until } from './until.js'

/**
 * Returns the folder of PostgreSQL's programs: the environment's `POSTGRES_BIN`, or the latest
 * version that Debian has installed.
 */
function programs (): string {
  const { POSTGRES_BIN: chosen } = process.env
  if (chosen !== undefined) return chosen
  const installed = '/usr/lib/postgresql'
  const [latest] = existsSync(installed)
    ? readdirSync(installed).sort((one, other) => Number(other) - Number(one))
    : []
  if (latest === undefined) {
    throw new Error("PostgreSQL is not installed; install Debian's postgresql")
  }
  return join(installed, latest, 'bin')
}

// PostgreSQL refuses to run as root.
const account = process.getuid?.() === 0 ? idsOf('postgres') : undefined

function idsOf (user: string): { uid: number; gid: number } {
  const id = (kind: string) => Number(execFileSync('id', [kind, user], { encoding: 'utf8' }))
  return { uid: id('-u'), gid: id('-g') }
}

const settings = [
  'fsync=off',
  'full_page_writes=off',
  'max_connections=100',
  'shared_buffers=128MB',
  'wal_level=replica',
  'listen_addresses=127.0.0.1',
  'unix_socket_directories='
]

/** A private server on a free loopback port. It keeps its data while it is stopped. */
export class PostgresServer extends ServerProcess {
  protected override readonly endSignal = 'SIGQUIT'

  private constructor (port: number, parent = tmpdir()) {
    super(port, parent)
    if (account !== undefined) chownSync(this.directory, account.uid, account.gid)
  }

  /** @param parent The folder in which the data's folder is created. */
  static async start (parent = tmpdir()): Promise<PostgresServer> {
    const server = new PostgresServer(await freePort(), parent)
    execute('initdb', [
      '--pgdata',
      server.directory,
      '--username',
      'postgres',
      '--auth',
      'trust',
      '--no-sync',
      '--encoding',
      'UTF8',
      '--locale',
      'C'
    ])
    await server.start()
    return server
  }

  get url (): string {
    return `postgres://postgres@127.0.0.1:${this.port}/postgres`
  }

  /** @param more Further settings, for this start only. */
  async start (...more: readonly string[]): Promise<void> {
    const parameters = [
      '-D',
      this.directory,
      '-p',
      String(this.port),
      ...[...settings, ...more].flatMap((setting) => ['-c', setting])
    ]
    // After a crash, a server does not start before the last process of the one before it has
    // ended.
    for (let attempt = 0; attempt < 50; attempt++) {
      if (await this.#launch(parameters)) return
      await sleep(100)
    }
    throw new Error(`the server on port ${this.port} does not start`)
  }

  /** Starts the server's process. Returns whether it answers; if not, it has ended. */
  async #launch (parameters: readonly string[]): Promise<boolean> {
    const child = this.launch(join(programs(), 'postgres'), parameters, account)
    let isAnswering = false
    await until(`the server on port ${this.port} answers or ends`, async () => {
      isAnswering = await this.#isAnswering()
      if (!isAnswering) await sleep(20)
      return isAnswering || child.exitCode !== null
    })
    return isAnswering
  }

  async #isAnswering (): Promise<boolean> {
    const client = new pg.Client({ connectionString: this.url })
    client.on('error', () => {})
    try {
      await client.connect()
      return true
    } catch {
      return false
    } finally {
      await client.end().catch(() => {})
    }
  }

  /** Stops the server as an administrator does, and starts it with further settings. */
  async restart (...more: readonly string[]): Promise<void> {
    await this.end('SIGINT')
    await this.start(...more)
  }

  /** Creates a pool, as a host would. */
  pool (options: pg.PoolConfig = {}): pg.Pool {
    const pool = new pg.Pool({
      connectionString: this.url,
      connectionTimeoutMillis: 2_000,
      ...options
    })
    pool.on('error', () => {})
    return pool
  }
}

function execute (program: string, parameters: readonly string[]): void {
  execFileSync(join(programs(), program), parameters, {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: plainEnvironment(),
    cwd: tmpdir(),
    ...account
  })
}

/** Starts a server with the schema, and a pool, for a test. Both end with the test. */
export async function startPostgres (
  t: { teardown(end: () => Promise<void>): unknown },
  options: pg.PoolConfig = {}
): Promise<{ server: PostgresServer; pool: pg.Pool }> {
  const server = await PostgresServer.start()
  const pool = server.pool(options)
  t.teardown(async () => {
    await pool.end()
    await server.stop()
  })
  await pool.query(postgresSchema())
  return { server, pool }
}
