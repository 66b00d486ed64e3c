import { wallClock } from '../../wall-clock.js'
import { periodLength } from '../counter.js'
import { NotRunError, TryAgainError } from '../shared/driver.js'
import type { Call, Connection, Driver, Reply } from '../shared/driver.js'
import { storedName } from '../shared/stored-names.js'
import type { CallerPage, Demand, QuotaStoreState } from '../store.js'
import { codeOf } from './connections.js'
import { readFields } from './fields.js'
import type { ConnectedFunctions, SchemaFunctions } from './functions.js'
import { recordsOf } from './records.js'
import { readPage, readReply } from './replies.js'

// Errors of the server, which rolls the statement back. Their classes are those of PostgreSQL, as
// clients have codes of the same form: P2010 and P1017 of Prisma can mean a lost connection. The
// exceptions are a lost connection, a server that shuts down, and a pooler that lost its server,
// which is a system error (58000) of PgCat: the statement may have run.
const serverCode = /^(?:[0-9][0-9A-Z]|F0|HV|P0|XX)[0-9A-Z]{3}$/
const uncertainCode = /^(?:08|40003|57P0[12]|58)/
// Without a connection, nothing was sent.
const unconnectedCode = /^(?:ECONNREFUSED|ENOTFOUND|EAI_AGAIN)$/
// Errors after which the next attempt can succeed in a moment: too many connections, a lock that
// was not available in time, a transaction that could not be serialized, and a deadlock.
const briefCode = /^(?:53300|55P03|40001|40P01)$/

// An index has no entry of more than 2,704 bytes.
const longestNames = 2_500

/** What a `PostgresDriver` is told of its store. */
export interface PostgresDriverOptions {
  /** How many callers of a quota can have a counter of their own. */
  readonly cap: number
  /** Whether the schema has a journal. */
  readonly hasJournal: boolean
}

/** The counters and places in the tables of a PostgreSQL server. */
export class PostgresDriver implements Driver {
  readonly mostDemands = 96
  readonly hasJournal: boolean
  readonly canRepeat = false
  readonly #functions: SchemaFunctions
  readonly #cap: number | null

  constructor (functions: SchemaFunctions, { cap, hasJournal }: PostgresDriverOptions) {
    this.#functions = functions
    this.#cap = cap === Infinity ? null : cap
    this.hasJournal = hasJournal
  }

  assertStorable ({ counters, callerKey }: Demand): void {
    const length = storedName(counters).length + storedName(callerKey).length
    if (length > longestNames) {
      throw new TypeError(
        `the names of a demand, counters and callerKey, must have at most ${longestNames} ` +
          `characters as PostgreSQL stores them; they have ${length}`
      )
    }
  }

  async connect (): Promise<Connection> {
    const functions = await this.#functions.connect().catch((error: unknown) => {
      throw canTryAgain(error) ? new TryAgainError(error) : error
    })
    return {
      run: (call) => this.#run(functions, call),
      release () {
        functions.release()
      }
    }
  }

  async forget (counters: string, callerKey: string, time: number | null): Promise<void> {
    const names = [storedName(counters), storedName(callerKey)]
    await this.#functions.call('forget', time, ...names)
  }

  async list (
    counters: string,
    cursor: string | null,
    time: number | null,
    date: number
  ): Promise<CallerPage> {
    const names = [storedName(counters), cursor ?? '']
    return readPage(await this.#functions.call('list', time, date, periodLength, ...names))
  }

  async inspect (counters: string, time: number | null): Promise<QuotaStoreState> {
    const fields = readFields(await this.#functions.call('inspect', time, storedName(counters)))
    return { trackedCallers: fields.number('trackedCallers') }
  }

  async clear (time: number | null): Promise<void> {
    await this.#functions.call('clear', time)
  }

  async #run (functions: ConnectedFunctions, call: Call): Promise<Reply> {
    await functions.check().catch((error: unknown) => {
      throw new NotRunError(error)
    })
    const records = recordsOf(call, {
      hasCap: this.#cap !== null,
      hasJournal: this.hasJournal
    })
    const reply = functions.call(
      'decide',
      call.time,
      wallClock(),
      call.periodLength,
      call.placeDuration,
      this.#cap,
      records.freed,
      records.renewed,
      records.keys,
      records.settlements,
      records.requests,
      records.demands,
      records.standings
    )
    return readReply(await reply.catch(rejectIfNotRun), call)
  }
}

/** Throws the error of a call, as a `NotRunError` if certainly nothing of the call has run. */
function rejectIfNotRun (error: unknown): never {
  const code = String(codeOf(error))
  const isRolledBack = serverCode.test(code) && !uncertainCode.test(code)
  if (!isRolledBack && !unconnectedCode.test(code)) throw error
  throw canTryAgain(error) ? new TryAgainError(error) : new NotRunError(error)
}

function canTryAgain (error: unknown): boolean {
  return briefCode.test(String(codeOf(error)))
}
