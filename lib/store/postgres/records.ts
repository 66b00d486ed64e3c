// What a call says, as the types of schema.sql: lists of records, as PostgreSQL writes them. To
// read those costs it half of what JSON does.
import { unlimited } from '../counter.js'
import type { Call, NamedPlace, RequestOfCall, Settlement } from '../shared/driver.js'
import { counterName, inAscii, overflowRow, storedName } from '../shared/stored-names.js'
import type { Demand } from '../store.js'

type Field = string | number | boolean | null

/** The lists of a call; null for an empty one, with which the server has nothing to do. */
interface CallRecords {
  readonly freed: string | null
  readonly renewed: string | null
  readonly keys: string | null
  readonly settlements: string | null
  readonly demands: string | null
}

/** What the records of a call depend on, beside the call. */
interface RecordOptions {
  /** Whether callers beyond a cap share a counter. */
  readonly hasCap: boolean
  /** Whether demands have their references. */
  readonly hasJournal: boolean
}

export function recordsOf (call: Call, { hasCap, hasJournal }: RecordOptions): CallRecords {
  const keys = new Keys(hasCap)
  const fieldsOf = (demand: Demand): Field[] => demandFields(demand, keys, hasJournal)
  const demands = askedFields(call.requests, call.firstWindowId, fieldsOf)
  const standings = call.standings.map((demand) => [...fieldsOf(demand), null, null, null])
  const settlements = call.settlements.map((settlement) => settlementFields(settlement, keys))
  return {
    freed: listOf(call.freed.map(placeFields)),
    renewed: listOf(call.renewed.map(placeFields)),
    keys: listOf(keys.records),
    settlements: listOf(settlements),
    demands: listOf([...demands, ...standings])
  }
}

/** The keys of a call, each of them once: where its settlements, demands and standings look. */
class Keys {
  /** The fields of `llm_quota_key`. */
  readonly records: Field[][] = []
  readonly #hasCap: boolean
  readonly #positions = new Map<string, number>()

  constructor (hasCap: boolean) {
    this.#hasCap = hasCap
  }

  /** Returns the position of the counter of a row, which begins at 1. */
  ofCounter (counters: string, row: string): number {
    const hasOverflow = this.#hasCap && row !== overflowRow
    const overflow = hasOverflow ? this.ofCounter(counters, overflowRow) : null
    return this.#position(counters, row, true, overflow)
  }

  /** Returns the position of the places of a caller. */
  ofPlaces (counters: string, row: string): number {
    return this.#position(counters, row, false, null)
  }

  #position (
    counters: string,
    row: string,
    hasWindow: boolean,
    overflow: number | null
  ): number {
    const name = `${hasWindow} ${counterName(counters, row)}`
    const known = this.#positions.get(name)
    if (known !== undefined) return known
    const position = this.records.push([storedName(counters), row, hasWindow, overflow])
    this.#positions.set(name, position)
    return position
  }
}

/** Returns the fields of `llm_quota_places`, without an end. */
function placeFields ({ counters, callerKey, name }: NamedPlace): Field[] {
  return [storedName(counters), storedName(callerKey), name, null]
}

/** Returns the fields of `llm_quota_settlement`. */
function settlementFields (settlement: Settlement, keys: Keys): Field[] {
  const { counters, row, windowId, lessCount, lessHeld, once, reference } = settlement
  return [
    keys.ofCounter(counters, row),
    windowId,
    lessCount,
    JSON.stringify(Object.fromEntries(lessHeld)),
    once,
    inAsciiOrNull(reference)
  ]
}

/** Returns the fields of `llm_quota_demand`, for the demands of all requests. */
function askedFields (
  requests: readonly RequestOfCall[],
  firstWindowId: number,
  fieldsOf: (demand: Demand) => Field[]
): Field[][] {
  const all: Field[][] = []
  for (const { demands, place } of requests) {
    for (const [index, demand] of demands.entries()) {
      const windowId = firstWindowId + all.length
      const isLast = index === demands.length - 1
      all.push([...fieldsOf(demand), windowId, demand.window === null ? place : null, isLast])
    }
  }
  return all
}

/** Returns the fields of `llm_quota_demand` but for the last three, which a standing lacks. */
function demandFields (demand: Demand, keys: Keys, hasJournal: boolean): Field[] {
  const row = storedName(demand.callerKey)
  return [
    demand.window === null
      ? keys.ofPlaces(demand.counters, row)
      : keys.ofCounter(demand.counters, row),
    demand.limit === unlimited ? null : demand.limit,
    demand.least,
    demand.most,
    demand.isEstimate,
    demand.window,
    demand.start,
    demand.end,
    demand.unit,
    hasJournal ? inAsciiOrNull(demand.reference) : null
  ]
}

function inAsciiOrNull (reference: string | null): string | null {
  return reference === null ? null : inAscii(reference)
}

/** Returns a list of records as PostgreSQL writes it; null for an empty one. */
function listOf (records: readonly (readonly Field[])[]): string | null {
  return records.length === 0 ? null : `{${records.map(recordOf).map(quoted).join()}}`
}

function recordOf (fields: readonly Field[]): string {
  return `(${fields.map(textOf).join()})`
}

function textOf (field: Field): string {
  if (field === null) return ''
  return typeof field === 'string' ? quoted(field) : String(field)
}

function quoted (text: string): string {
  return `"${text.replaceAll(/["\\]/g, '\\$&')}"`
}
