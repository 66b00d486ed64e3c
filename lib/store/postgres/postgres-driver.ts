import { wallClock } from '../../wall-clock.js'
import { required } from '../../required.js'
import { periodLength } from '../counter.js'
import { NotRunError, TryAgainError } from '../shared/driver.js'
import type {
  Call,
  Connection,
  Decided,
  Driver,
  NamedPlace,
  Reply,
  RequestOfCall,
  Settlement
} from '../shared/driver.js'
import { storedName, unstoredName } from '../shared/stored-names.js'
import type { CallerCount, CallerPage, Demand, QuotaCount, QuotaStoreState } from '../store.js'
import { codeOf } from './connections.js'
import type { ConnectedFunctions, SchemaFunctions } from './functions.js'
import { recordsOf, type Field } from './lists.js'
import { readJson, type Fields } from './replies.js'

// Errors of the server, which rolls the statement back. The exceptions are a lost connection and a
// server that shuts down, after which the statement may have run.
const serverCode = /^[0-9FHPX][0-9A-Z]{4}$/
const uncertainCode = /^(?:08|40003|57P0[12])/
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
    await this.#functions.call('forget', time, wallClock(), ...names)
  }

  async list (
    counters: string,
    cursor: string | null,
    time: number | null,
    date: number
  ): Promise<CallerPage> {
    const fields = readJson(
      await this.#functions.call(
        'list',
        time,
        date,
        periodLength,
        storedName(counters),
        cursor ?? ''
      )
    )
    return {
      callers: fields.list('callers').allFields().map(readCaller),
      cursor: fields.textOrNull('cursor')
    }
  }

  async inspect (counters: string, time: number | null): Promise<QuotaStoreState> {
    const fields = readJson(await this.#functions.call('inspect', time, storedName(counters)))
    return { trackedCallers: fields.number('trackedCallers') }
  }

  async clear (time: number | null): Promise<void> {
    await this.#functions.call('clear', time, wallClock())
  }

  async #run (functions: ConnectedFunctions, call: Call): Promise<Reply> {
    await functions.check().catch((error: unknown) => {
      throw new NotRunError(error)
    })
    const { settlements, requests, standings } = call
    const named = settlements.filter(({ once }) => once !== null)
    const unnamed = settlements.filter(({ once }) => once === null)
    const reply = functions.call(
      'decide',
      call.time,
      wallClock(),
      call.periodLength,
      call.placeDuration,
      this.#cap,
      recordsOf(call.freed.map(storedPlace)),
      recordsOf(call.renewed.map(storedPlace)),
      recordsOf(unnamed.map(storedSettlement)),
      recordsOf(named.map(storedSettlement)),
      recordsOf(this.#storedRequests(requests, call.firstWindowId)),
      recordsOf(standings.map((demand) => this.#storedStanding(demand)))
    )
    const fields = readJson(await reply.catch(rejectIfNotRun))
    const decided = fields.list('decided')
    const counts = fields.list('standings')
    return {
      period: fields.number('period'),
      applied: appliedOf(settlements, fields.list('applied').allBooleans()),
      decided: requests.map(({ demands }, index) => {
        const ofRequest = decided.listAt(index)
        return demands.map((demand, position) => readDecided(ofRequest.fieldsAt(position), demand))
      }),
      standings: standings.map((demand, index) => {
        const count = counts.fieldsOrNullAt(index)
        return count === null ? null : readCount(count, demand)
      })
    }
  }

  #storedRequests (requests: readonly RequestOfCall[], firstWindowId: number): Field[][] {
    const stored: Field[][] = []
    for (const { demands, place } of requests) {
      for (const demand of demands) {
        const windowId = firstWindowId + stored.length
        const isLast = demand === demands.at(-1)
        const ofPlace = demand.window === null ? place : null
        stored.push([...this.#storedDemand(demand), windowId, ofPlace, isLast])
      }
    }
    return stored
  }

  #storedStanding (demand: Demand): Field[] {
    return [...this.#storedDemand(demand), null, null, null]
  }

  /** Returns the demand as `llm_quota_demand` of schema.sql, without its last three fields. */
  #storedDemand (demand: Demand): Field[] {
    const reference = this.hasJournal ? demand.reference : null
    return [
      storedName(demand.counters),
      storedName(demand.callerKey),
      demand.limit,
      demand.least,
      demand.most,
      demand.isEstimate,
      demand.window,
      demand.start,
      demand.end,
      demand.unit,
      reference === null ? null : storedReference(reference)
    ]
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

/** Returns the place as a row of `llm_quota_places` without an end. */
function storedPlace ({ counters, callerKey, name }: NamedPlace): Field[] {
  return [storedName(counters), storedName(callerKey), name, null]
}

/** Returns the settlement as `llm_quota_settlement` of schema.sql. */
function storedSettlement (settlement: Settlement): Field[] {
  const { counters, row, windowId, lessCount, lessHeld, once, reference } = settlement
  return [
    storedName(counters),
    row,
    windowId,
    lessCount,
    JSON.stringify(Object.fromEntries(lessHeld)),
    once,
    reference === null ? null : storedReference(reference)
  ]
}

/**
 * Returns the reference as the content of a string of JSON in ASCII: a text of PostgreSQL can have
 * no NUL, and a database can have an encoding with few characters.
 */
function storedReference (reference: string): string {
  const escaped = JSON.stringify(reference).slice(1, -1)
  return escaped.replaceAll(
    /[\u007f-\uffff]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
  )
}

/**
 * Returns for each settlement whether it was applied.
 *
 * @param ofNamed Whether each of those that have a name was.
 */
function appliedOf (settlements: readonly Settlement[], ofNamed: readonly boolean[]): boolean[] {
  const remaining = ofNamed.values()
  return settlements.map(({ once }) =>
    once === null || required(remaining.next().value, 'whether a settlement was applied')
  )
}

function readDecided (fields: Fields, demand: Demand): Decided {
  return {
    admitted: fields.boolean('hasRoom'),
    granted: fields.number('granted'),
    ...readCount(fields, demand),
    windowId: fields.number('windowId')
  }
}

function readCount (
  fields: Fields,
  { window, end }: Demand
): QuotaCount & { readonly overflow: boolean } {
  const count = fields.number('count')
  const held = fields.number('held')
  const overflow = fields.boolean('overflow')
  if (window === null) return { count, held, windowRemaining: null, overflow }
  if (end === null) return { count, held, windowRemaining: fields.number('rest'), overflow }
  return { count, held, windowRemaining: null, end: fields.number('end'), overflow }
}

function readCaller (fields: Fields): CallerCount {
  const end = fields.numberOrNull('end')
  return {
    callerKey: unstoredName(fields.text('caller')),
    count: fields.number('count'),
    held: fields.number('held'),
    windowRemaining: end === null ? fields.numberOrNull('rest') : null,
    ...(end !== null && { end })
  }
}
