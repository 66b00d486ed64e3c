import { createHash } from 'node:crypto'
import { isPromise, type Eventual } from '../../promises.js'
import { withTimeout } from '../../time-limit.js'

/**
 * How long a lent connection may answer nothing, in milliseconds; the pool then closes it, so that
 * a network that has become silent does not use up the pool. The store waits for a call for half as
 * long: what comes in the second half is given back.
 */
const longestSilence = 5_000

/** What a statement returns: one object for each row, with the row's columns. */
interface Rows {
  readonly rows: readonly unknown[]
}

/** A connection pool: a `Pool` of `pg`, or anything else with these functions. */
export interface PostgresPool {
  /**
   * Runs one statement in its own transaction. The values of its parameters `$1`, `$2` and so on
   * are strings or null.
   */
  query(text: string, values: unknown[]): Promise<Rows>
  /**
   * Lends a connection. A pool that has this function is asked for a connection before each
   * statement, so that a statement that no connection was free for is known not to have been sent.
   * A pool whose `query` the host has replaced is only asked for `query`.
   */
  connect?(): Promise<PostgresConnection>
}

/** A connection that a pool lends, such as a `PoolClient` of `pg`. */
export interface PostgresConnection {
  /** Runs one statement in its own transaction, as `PostgresPool.query` does. */
  query(text: string, values: unknown[]): Promise<Rows>
  /** Gives the connection back to the pool. With an error, the pool closes it. */
  release(error?: Error | boolean): void
  /** Listens for errors of the connection, which also fail the statement. */
  on?(event: 'error', listener: (error: unknown) => void): unknown
  /** Ends listening. */
  removeListener?(event: 'error', listener: (error: unknown) => void): unknown
}

/** Runs statements that have a name, as a connection of `pg` does. */
interface NamingConnection {
  query(statement: { name: string; text: string; values: unknown[] }): Promise<Rows>
}

/** A statement, with a name that is that of its text in all processes. */
export interface Statement {
  readonly name: string
  readonly text: string
}

export function statementOf (text: string): Statement {
  return { name: createHash('sha1').update(text).digest('hex'), text }
}

/** What statements of one row and column are run on. */
export interface StatementRunner {
  /** Returns the text of the column `reply`, or null. */
  run(statement: Statement, values: (string | null)[]): Promise<string | null>
  /** Gives the connection back. With an error, the pool closes it. */
  release(error?: unknown): void
}

/** A pool of `pg`, which calls a function as soon as it lends a connection. */
interface CallingPool {
  connect(
    lend: (error: unknown, connection?: PostgresConnection) => void
  ): Eventual<PostgresConnection | undefined>
}

// Of the pools, that of `pg` has a count of its connections.
function isOfPg (pool: PostgresPool): pool is PostgresPool & CallingPool {
  return 'totalCount' in pool
}

/** Lends the connections of a pool. */
export class Connections {
  readonly #pool: PostgresPool
  readonly #names: StatementNames

  constructor (pool: PostgresPool) {
    this.#pool = pool
    this.#names = new StatementNames(isOfPg(pool))
  }

  /** Rejects if no connection can be made, in which case nothing was sent. */
  async lend (): Promise<StatementRunner> {
    const pool = this.#pool
    if (pool.connect === undefined || isQueryReplaced(pool)) return new AnyConnection(pool)
    const connection = isOfPg(pool) ? await lentByPg(pool) : listenedTo(await pool.connect())
    return new LentConnection(connection, this.#names)
  }
}

// Without a listener, an error of the connection would end the process.
const ignore = (): void => {}

function listenedTo (connection: PostgresConnection): PostgresConnection {
  connection.on?.('error', ignore)
  return connection
}

/**
 * Gets a connection with a callback, since a promise is too late: the pool lends a connection while
 * it reads what the server has sent, and next in that can be the error of a server that ends it.
 */
function lentByPg (pool: CallingPool): Promise<PostgresConnection> {
  return new Promise((resolve, reject) => {
    const connecting = pool.connect((error, connection) => {
      if (connection === undefined) reject(error)
      else resolve(listenedTo(connection))
    })
    if (!isPromise(connecting)) return
    // The host has replaced `connect` by a function that may take no callback.
    connecting.then((connection) => {
      if (connection !== undefined) resolve(listenedTo(connection))
    }, reject)
  })
}

/** Whether the host has replaced `query`, which then does not stand beside `connect`. */
function isQueryReplaced (pool: PostgresPool): boolean {
  let owner: object | null = pool
  while (owner !== null && !Object.hasOwn(owner, 'query')) owner = Object.getPrototypeOf(owner)
  return owner === null || !Object.hasOwn(owner, 'connect')
}

/** Runs each statement on a connection that the pool chooses. */
class AnyConnection implements StatementRunner {
  readonly #pool: PostgresPool

  constructor (pool: PostgresPool) {
    this.#pool = pool
  }

  async run ({ text }: Statement, values: (string | null)[]): Promise<string | null> {
    return readReply(await this.#pool.query(text, values))
  }

  release (): void {}
}

/** Runs statements on one connection, whose errors are listened to. */
class LentConnection implements StatementRunner {
  readonly #connection: PostgresConnection
  readonly #names: StatementNames

  constructor (connection: PostgresConnection, names: StatementNames) {
    this.#connection = connection
    this.#names = names
  }

  async run (statement: Statement, values: (string | null)[]): Promise<string | null> {
    return readReply(await withTimeout(longestSilence, this.#query(statement, values)))
  }

  async #query ({ name, text }: Statement, values: (string | null)[]): Promise<Rows> {
    const connection = this.#connection
    if (this.#names.areUsedBy(connection)) {
      try {
        return await connection.query({ name, text, values })
      } catch (error) {
        this.#names.stopUsingAfter(error)
      }
    }
    return await connection.query(text, values)
  }

  release (error?: unknown): void {
    this.#connection.removeListener?.('error', ignore)
    this.#connection.release(error !== undefined)
  }
}

// Errors of a transaction pooler that does not know named statements: none of this name exists, or
// one already does. Nothing was executed.
const unknownNameCodes: readonly unknown[] = ['26000', '42P05']

/**
 * Whether the connections of a pool run statements by name. The server parses those only once for
 * each connection, which saves a third of its work.
 */
class StatementNames {
  #areUsed: boolean

  constructor (areUsed: boolean) {
    this.#areUsed = areUsed
  }

  areUsedBy (connection: object): connection is NamingConnection {
    return this.#areUsed && 'query' in connection
  }

  /** Ends the use of names if a pooler does not know them. Throws any other error. */
  stopUsingAfter (error: unknown): void {
    if (!unknownNameCodes.includes(codeOf(error))) throw error
    this.#areUsed = false
  }
}

/** Returns the text of the column `reply` of the only row. */
function readReply ({ rows }: Rows): string | null {
  const [row] = rows
  if (typeof row !== 'object' || row === null || !('reply' in row)) {
    throw new TypeError('the reply of PostgreSQL has no row with a column reply')
  }
  const { reply } = row
  // A function without a result returns an empty text.
  if (reply === null || reply === '') return null
  if (typeof reply !== 'string') throw new TypeError('the reply of PostgreSQL is not a text')
  return reply
}

/** Returns the code of an error; undefined if it has none. */
export function codeOf (error: unknown): unknown {
  const hasCode = typeof error === 'object' && error !== null && 'code' in error
  return hasCode ? error.code : undefined
}
