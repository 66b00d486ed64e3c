// What a call says, as the types of schema.sql: lists of records, as PostgreSQL writes them. To
// read those costs it half of what JSON does.
import { unlimited } from '../counter.js'
import type { Call, NamedPlace, RequestOfCall, Settlement } from '../shared/driver.js'
import { inAscii, storedName } from '../shared/stored-names.js'
import type { Demand } from '../store.js'

type Field = string | number | boolean | null

/** The lists of a call; null for an empty one, with which the server has nothing to do. */
interface CallRecords {
  readonly freed: string | null
  readonly renewed: string | null
  readonly settlements: string | null
  readonly demands: string | null
  readonly standings: string | null
}

/** @param hasJournal Whether demands have their references. */
export function recordsOf (call: Call, hasJournal: boolean): CallRecords {
  const fieldsOf = (demand: Demand): Field[] => demandFields(demand, hasJournal)
  return {
    freed: listOf(call.freed.map(placeFields)),
    renewed: listOf(call.renewed.map(placeFields)),
    settlements: listOf(call.settlements.map(settlementFields)),
    demands: listOf(askedFields(call.requests, call.firstWindowId, fieldsOf)),
    standings: listOf(call.standings.map((demand) => [...fieldsOf(demand), null, null, null]))
  }
}

/** Returns the fields of `llm_quota_places`, without an end. */
function placeFields ({ counters, callerKey, name }: NamedPlace): Field[] {
  return [storedName(counters), storedName(callerKey), name, null]
}

/** Returns the fields of `llm_quota_settlement`. */
function settlementFields (settlement: Settlement): Field[] {
  const { counters, row, windowId, lessCount, lessHeld, once, reference } = settlement
  return [
    storedName(counters),
    row,
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
function demandFields (demand: Demand, hasJournal: boolean): Field[] {
  return [
    storedName(demand.counters),
    storedName(demand.callerKey),
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
