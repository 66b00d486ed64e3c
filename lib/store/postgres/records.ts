// What a call says, as the types of schema.sql: lists of records, as PostgreSQL writes them. To
// read those costs it half of what JSON does.
import { keptUntil, unlimited } from '../counter.js'
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
  readonly requests: string | null
  readonly demands: string | null
  readonly standings: string | null
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
  const requests: Field[][] = []
  const demands: Field[][] = []
  for (const request of call.requests) {
    requests.push(requestFields(request, demands.length))
    for (const demand of request.demands) {
      demands.push([
        ...askedFields(demand, request, keys),
        hasJournal ? inAsciiOrNull(demand.reference) : null,
        call.firstWindowId + demands.length,
        ...calendarFields(demand)
      ])
    }
  }
  const standings = call.standings.map((demand) => [keys.ofDemand(demand), demand.start])
  const settlements = call.settlements.map((settlement) => settlementFields(settlement, keys))
  return {
    freed: listOf(call.freed.map(placeFields)),
    renewed: listOf(call.renewed.map(placeFields)),
    keys: listOf(keys.records),
    settlements: listOf(settlements),
    requests: listOf(requests),
    demands: listOf(demands),
    standings: listOf(standings)
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

  /** Returns the position, which begins at 1, of what a demand reaches. */
  ofDemand ({ counters, callerKey, window }: Demand): number {
    const row = storedName(callerKey)
    if (window === null) return this.#position(counters, row, null, null)
    return this.ofCounter(counters, row, window)
  }

  /**
   * Returns the position of the counter of a row.
   *
   * @param window The length of its longest window.
   */
  ofCounter (counters: string, row: string, window: number): number {
    const hasOverflow = this.#hasCap && row !== overflowRow
    const overflow = hasOverflow ? this.ofCounter(counters, overflowRow, window) : null
    return this.#position(counters, row, window, overflow)
  }

  #position (
    counters: string,
    row: string,
    window: number | null,
    overflow: number | null
  ): number {
    const name = `${window === null} ${counterName(counters, row)}`
    const known = this.#positions.get(name)
    if (known !== undefined) return known
    const position = this.records.push([storedName(counters), row, window, overflow])
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
  const { counters, row, windowId, window, lessCount, lessHeld, once, reference } = settlement
  return [
    keys.ofCounter(counters, row, window),
    windowId,
    lessCount,
    JSON.stringify(Object.fromEntries(lessHeld)),
    once,
    inAsciiOrNull(reference)
  ]
}

/**
 * Returns the fields of `llm_quota_request`.
 *
 * @param before How many demands the requests before it have.
 */
function requestFields ({ demands, place }: RequestOfCall, before: number): Field[] {
  const hasPlaces = demands.some(({ window }) => window === null)
  return [before + 1, before + demands.length, hasPlaces ? place : null]
}

/** Returns the first fields of `llm_quota_demand`: what is asked. */
function askedFields (demand: Demand, { demands }: RequestOfCall, keys: Keys): Field[] {
  const { limit, least, most, unit, isEstimate } = demand
  return [
    keys.ofDemand(demand),
    limit === unlimited ? null : limit,
    least,
    most,
    1 + demands.findIndex((other) => other.unit === unit),
    isEstimate
  ]
}

/** Returns the last fields of `llm_quota_demand`: when the window is, in a time zone. */
function calendarFields ({ window, start, end }: Demand): Field[] {
  if (window === null || start === null || end === null) return [null, null, null]
  return [start, end, keptUntil(start, end, window)]
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
