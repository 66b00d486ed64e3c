import { namesOf, schemaVersion } from './schema.js'

// The connections that a store uses at most, whatever the size of the pool.
const mostStatements = 4

// How long a statement may take, in milliseconds. Longer than the sum of what it waits for on a server that answers.
const timeLimit = 5_000

/** A connection pool of `pg`, or anything else with such a function. */
export interface PostgresPool {
  /** Runs a statement, outside of a transaction, with the values of its parameters `$1`, `$2` and so on: strings or null. */
  query (text: string, values: unknown[]): Promise<{ readonly rows: readonly unknown[] }>
}

type Parameter = string | number | null | readonly (string | number | null)[]

/** Calls the functions of the schema, each in a statement and a transaction of its own. */
export class Database {
  readonly #pool: PostgresPool
  readonly #table: string
  readonly #nameOf: (suffix: string) => string
  readonly #waiting: (() => void)[] = []
  #running = 0
  #isChecked = false

  constructor (pool: PostgresPool, table: string) {
    this.#pool = pool
    this.#table = table
    this.#nameOf = namesOf(table)
  }

  /**
   * Calls a function of the schema, and returns its result.
   *
   * @param name The function's name without the name of the table.
   * @param parameters Its parameters. All are sent as text, so that no client needs to know their types.
   */
  async call (name: string, ...parameters: readonly Parameter[]): Promise<string> {
    if (this.#running >= mostStatements) await new Promise<void>((resolve) => { this.#waiting.push(resolve) })
    this.#running += 1
    try {
      if (!this.#isChecked) await this.#check()
      const places = parameters.map((_, index) => `$${index + 1}`)
      return await this.#query(`SELECT ${this.#nameOf(`_${name}`)}(${places.join(', ')}) AS reply`, parameters.map(textOf))
    } finally {
      this.#running -= 1
      this.#waiting.shift()?.()
    }
  }

  async #check (): Promise<void> {
    const version = `${this.#nameOf(`_version_${schemaVersion}`)}()`
    const found = await this.#query('SELECT to_regprocedure($1::text)::text AS reply', [version])
    if (found === '') {
      throw new Error(`the schema for the table ${this.#table} is missing or older than version ${schemaVersion}; run the SQL of postgresSchema in a migration`)
    }
    this.#isChecked = true
  }

  /** Rejects if there is no answer in time, because a connection that has become silent would otherwise be used for ever. */
  async #query (text: string, values: (string | null)[]): Promise<string> {
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<never>((_resolve, reject) => {
      timer = setTimeout(() => { reject(new Error(`the server did not answer within ${timeLimit} ms`)) }, timeLimit)
    })
    try {
      const { rows: [row] } = await Promise.race([this.#pool.query(text, values), late])
      const { reply }: { reply?: unknown } = Object(row)
      return String(reply ?? '')
    } finally {
      clearTimeout(timer)
    }
  }
}

/** Orders texts in the same way in every process. */
export function compareTexts (one: string, other: string): number {
  return one < other ? -1 : Number(one > other)
}

function textOf (value: Parameter): string | null {
  if (value === null) return null
  return typeof value === 'object' ? `{${value.map(elementOf).join(',')}}` : String(value)
}

function elementOf (value: string | number | null): string {
  return typeof value === 'string' ? `"${value.replaceAll(/["\\]/g, '\\$&')}"` : String(value)
}
