import { NotRunError, TryAgainError } from '../shared/driver.js'
import type {
  Call,
  Decided,
  Driver,
  NamedPlace,
  Reply,
  Settlement,
  RequestOfCall
} from '../shared/driver.js'
import { storedName, unstoredName } from '../shared/stored-names.js'
import type { CallerCount, CallerPage, Demand, QuotaCount, QuotaStoreState } from '../store.js'
import { codeOf, type CallFunction } from './functions.js'
import { arrayOf, recordOf } from './lists.js'
import { readJson, type Fields } from './replies.js'

// The caller under which the overflow counter is stored. No stored name of a caller has a quotation
// mark without a backslash before it.
const overflowCaller = '"overflow"'

// Errors of the server, which rolls the statement back. The exceptions are a lost connection and a
// server that shuts down, after which the statement may have run.
const serverCode = /^[0-9FHPX][0-9A-Z]{4}$/
const uncertainCode = /^(?:08|40003|57P0[12])/
// Without a connection, nothing was sent.
const unconnectedCode = /^(?:ECONNREFUSED|ENOTFOUND|EAI_AGAIN)$/
// Errors after which the next attempt can succeed in a moment: too many connections, a lock that
// was not available in time, a transaction that could not be serialized, and a deadlock.
const briefCode = /^(?:53300|55P03|40001|40P01)$/

/** The counters and places in the tables of a PostgreSQL server. */
export class PostgresDriver implements Driver {
  readonly mostDemands = 96
  readonly #callFunction: CallFunction
  readonly #cap: number

  constructor (callFunction: CallFunction, cap: number) {
    this.#callFunction = callFunction
    this.#cap = cap
  }

  async decide ({ time, freed, renewed, settlements, requests }: Call): Promise<Reply> {
    const reply = this.#callFunction(
      'decide',
      time,
      this.#cap,
      listOf(freed.map(storedPlace)),
      listOf(renewed.map(storedPlace)),
      listOf(settlements.map(storedSettlement)),
      listOf(quotasOf(requests)),
      listOf(requests.flatMap(storedRequest))
    )
    const fields = readJson(await reply.catch(rejectIfNotRun))
    const period = fields.number('period')
    const decided = fields.list('decided')
    return requests.map(({ demands }, index) => {
      const ofRequest = decided.listAt(index)
      return demands.map((demand, position) =>
        readDecided(ofRequest.fieldsAt(position), demand, period)
      )
    })
  }

  async peek (demand: Demand, time: number | null): Promise<QuotaCount | null> {
    const asked = storedDemand(demand, null, true)
    const reply = await this.#callFunction('peek', time, this.#cap, asked)
    return reply === null ? null : readCount(readJson(reply), demand)
  }

  async forget (callerKey: string, counters: string): Promise<void> {
    await this.#callFunction('forget', storedName(counters), storedName(callerKey))
  }

  async list (
    counters: string,
    cursor: string | null,
    time: number | null,
    date: number
  ): Promise<CallerPage> {
    const fields = readJson(
      await this.#callFunction('list', time, date, storedName(counters), cursor ?? '')
    )
    return {
      callers: fields.list('callers').allFields().map(readCaller),
      cursor: fields.textOrNull('cursor')
    }
  }

  async inspect (counters: string, time: number | null): Promise<QuotaStoreState> {
    const fields = readJson(await this.#callFunction('inspect', time, storedName(counters)))
    return { trackedCallers: fields.number('trackedCallers'), sweeps: fields.number('sweeps') }
  }

  async clear (): Promise<void> {
    await this.#callFunction('clear')
  }
}

/** Throws the error of a call, as a `NotRunError` if certainly nothing of the call has run. */
function rejectIfNotRun (error: unknown): never {
  const code = String(codeOf(error))
  const isRolledBack = serverCode.test(code) && !uncertainCode.test(code)
  if (!isRolledBack && !unconnectedCode.test(code)) throw error
  throw briefCode.test(code) ? new TryAgainError(error) : new NotRunError(error)
}

/** Returns null for an empty list, for which the server has nothing to do. */
function listOf (values: readonly string[]): string | null {
  return values.length === 0 ? null : arrayOf(values)
}

/** Returns the place as a row of `llm_quota_places` without an end. */
function storedPlace ({ counters, callerKey, name }: NamedPlace): string {
  return recordOf([storedName(counters), storedName(callerKey), name, null])
}

/** Returns the settlement as `llm_quota_settlement` of schema.sql. */
function storedSettlement (settlement: Settlement): string {
  const { counters, callerKey, overflow, windowId, lessCount, lessHeld } = settlement
  return recordOf([
    storedName(counters),
    overflow ? overflowCaller : storedName(callerKey),
    windowId,
    lessCount,
    JSON.stringify(Object.fromEntries(lessHeld))
  ])
}

/** Returns the names of the quotas with windows, each once. */
function quotasOf (requests: readonly RequestOfCall[]): string[] {
  const names = new Set<string>()
  for (const { demands } of requests) {
    for (const { counters, window } of demands) {
      if (window !== null) names.add(counters)
    }
  }
  return [...names].map(storedName)
}

function storedRequest ({ demands, place }: RequestOfCall): string[] {
  return demands.map((demand, index) =>
    storedDemand(demand, demand.window === null ? place : null, index === demands.length - 1)
  )
}

/** Returns the demand as `llm_quota_demand` of schema.sql. */
function storedDemand (demand: Demand, place: string | null, isLast: boolean): string {
  return recordOf([
    storedName(demand.counters),
    storedName(demand.callerKey),
    demand.limit,
    demand.least,
    demand.most,
    demand.isEstimate,
    demand.window,
    demand.start,
    demand.end,
    place,
    isLast
  ])
}

function readDecided (fields: Fields, demand: Demand, period: number): Decided {
  return {
    admitted: fields.boolean('hasRoom'),
    granted: fields.number('granted'),
    ...readCount(fields, demand),
    windowId: fields.number('windowId'),
    period
  }
}

function readCount (fields: Fields, { window, end }: Demand): QuotaCount {
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
