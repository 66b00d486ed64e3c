import { wallClock } from '../../wall-clock.js'
import { counterRetention, keptUntil, unlimited } from '../counter.js'
import type { Call, QuotaCaller, RequestOfCall, Settlement } from '../shared/driver.js'
import { overflowRow, storedName } from '../shared/stored-names.js'
import type { Demand } from '../store.js'
import type { Keys } from './keys.js'

/** Stands for the time of the server's clock. */
export const serverTime = -1

/** Stands for a position, a time or a quota that there is not. */
const none = 0

/** A quota with windows. Positions and rows count from 1, as in Lua. */
interface WindowedQuota {
  readonly position: number
  /** The length of the windows. */
  readonly window: number
  readonly rows: Map<string, number>
  /** The row of the overflow counter; `none` without a cap. */
  readonly overflow: number
}

/** A caller of a quota of concurrent requests. */
interface Holder {
  readonly position: number
  readonly caller: QuotaCaller
  readonly freed: string[]
  readonly renewed: string[]
  /** Whether a request or a standing asks how many places it has. */
  isAsked: boolean
}

/**
 * The arguments of decide.lua, which says what each record and each of its fields is. Comments name
 * the fields of a record where it is written.
 */
export class DecideArguments {
  readonly keys: string[] = []
  // The first one has all records, and is known last.
  readonly parameters: (string | Buffer)[] = ['']
  readonly #keys: Keys
  readonly #cap: number
  readonly #quotas = new Map<string, WindowedQuota>()
  readonly #holders = new Map<string, Holder>()
  // The records of settlements, requests and standings, and how many settlements there are.
  readonly #asked: number[] = []
  #settlementCount = 0

  /** @param cap The most callers with a counter of their own in each quota, or `Infinity`. */
  constructor (call: Call, keys: Keys, cap: number) {
    this.#keys = keys
    this.#cap = cap
    for (const place of call.freed) this.#holderOf(place).freed.push(place.name)
    for (const place of call.renewed) this.#holderOf(place).renewed.push(place.name)
    for (const settlement of call.settlements) this.#addSettlement(settlement)
    for (const request of call.requests) this.#addRequest(request)
    for (const demand of call.standings) this.#addStanding(demand)
    const callsKeyAt = call.settlements.length === 0 ? none : this.#addKey(keys.calls(call.process))
    const quotas = this.#quotaRecords()
    const holders = this.#holderRecords()
    // A client of a cluster sends a call without keys to any server. This key is in the store's
    // slot.
    if (this.keys.length === 0) this.#addKey(keys.root)
    // CALL: time, date, periodLength, placeDuration, firstWindowId, cap, number, callsKeyAt,
    // quotaCount, holderCount, settlementCount, requestCount, standingCount
    const numbers = [
      call.time ?? serverTime,
      wallClock(),
      call.periodLength,
      call.placeDuration,
      call.firstWindowId,
      cap,
      call.number,
      callsKeyAt,
      this.#quotas.size,
      this.#holders.size,
      this.#settlementCount,
      call.requests.length,
      call.standings.length
    ]
    const records = new Float64Array(numbers.concat(quotas, holders, this.#asked))
    this.parameters[0] = Buffer.from(records.buffer)
  }

  /** Adds a settlement once for each period of what was held, and at least once. */
  #addSettlement ({
    counters,
    row,
    windowId,
    window,
    lessCount,
    lessHeld,
    once
  }: Settlement): void {
    const quota = this.#quotaOf(counters, window)
    const rowAt = rowIn(quota, row)
    const onceKeyAt = once === null ? none : this.#addKey(this.#keys.once(once))
    const [first = [none, 0], ...others] = lessHeld
    const [period, held] = first
    // SETTLEMENT: quotaAt, row, windowId, lessCount, lessHeld, settledPeriod, onceKeyAt
    this.#asked.push(quota.position, rowAt, windowId, lessCount, held, period, onceKeyAt)
    for (const [otherPeriod, otherHeld] of others) {
      this.#asked.push(quota.position, rowAt, windowId, 0, otherHeld, otherPeriod, none)
    }
    this.#settlementCount += 1 + others.length
  }

  #addRequest ({ demands, place }: RequestOfCall): void {
    const hasPlaces = demands.some(({ window }) => window === null)
    // REQUEST: size, placeNameAt
    this.#asked.push(demands.length, hasPlaces ? this.#addName(place) : none)
    for (const demand of demands) {
      const { limit, least, most, isEstimate, start, end } = demand
      const unit = 1 + demands.findIndex((other) => other.unit === demand.unit)
      // DEMAND: quotaAt, row, holderAt, limit, least, most, unit, isEstimate, starts, ends,
      // keptUntil
      this.#addAsked(demand)
      this.#asked.push(limit === unlimited ? Infinity : limit, least, most, unit)
      this.#asked.push(Number(isEstimate), start ?? none, end ?? none, keptUntilOf(demand))
    }
  }

  #addStanding (demand: Demand): void {
    // STANDING: quotaAt, row, holderAt, starts, ends
    this.#addAsked(demand)
    this.#asked.push(demand.start ?? none, demand.end ?? none)
  }

  /** Adds what is asked, a counter or the places of a holder: quotaAt, row, holderAt. */
  #addAsked (demand: Demand): void {
    const { counters, callerKey, window } = demand
    if (window === null) {
      const holder = this.#holderOf(demand)
      holder.isAsked = true
      this.#asked.push(none, none, holder.position)
      return
    }
    const quota = this.#quotaOf(counters, window)
    this.#asked.push(quota.position, rowIn(quota, storedName(callerKey)), none)
  }

  #quotaRecords (): number[] {
    const records: number[] = []
    for (const [counters, { window, rows, overflow }] of this.#quotas) {
      const keyAt = this.#addKey(this.#keys.counters(counters))
      const rowsAt = this.parameters.length
      this.parameters.push(...rows.keys())
      // QUOTA: keyAt, window, keep, rowsAt, rowCount, overflowRow
      records.push(keyAt, window, counterRetention(window), rowsAt, rows.size, overflow)
    }
    return records
  }

  #holderRecords (): number[] {
    const records: number[] = []
    const quotaKeys = new Map<string, number>()
    for (const [key, { caller, freed, renewed, isAsked }] of this.#holders) {
      const { counters, callerKey } = caller
      const quotaKeyAt = quotaKeys.get(counters) ?? this.#addKey(this.#keys.holders(counters))
      quotaKeys.set(counters, quotaKeyAt)
      const keyAt = this.#addKey(key)
      const callerAt = this.#addName(storedName(callerKey))
      const freedAt = callerAt + 1
      const renewedAt = freedAt + freed.length
      this.parameters.push(...freed, ...renewed)
      const lastAt = this.parameters.length
      // HOLDER: keyAt, quotaKeyAt, callerAt, freedAt, renewedAt, lastAt, isAsked
      records.push(keyAt, quotaKeyAt, callerAt, freedAt, renewedAt, lastAt, Number(isAsked))
    }
    return records
  }

  /** Returns the position of the key in KEYS. */
  #addKey (key: string): number {
    return this.keys.push(key)
  }

  /** Returns the position of the name in ARGV. */
  #addName (name: string): number {
    return this.parameters.push(name)
  }

  #quotaOf (counters: string, window: number): WindowedQuota {
    let quota = this.#quotas.get(counters)
    if (quota === undefined) {
      const hasCap = this.#cap < Infinity
      quota = {
        position: this.#quotas.size + 1,
        window,
        rows: new Map(hasCap ? [[overflowRow, 1]] : []),
        overflow: hasCap ? 1 : none
      }
      this.#quotas.set(counters, quota)
    }
    return quota
  }

  #holderOf (caller: QuotaCaller): Holder {
    const key = this.#keys.places(caller)
    let holder = this.#holders.get(key)
    if (holder === undefined) {
      holder = {
        position: this.#holders.size + 1,
        caller,
        freed: [],
        renewed: [],
        isAsked: false
      }
      this.#holders.set(key, holder)
    }
    return holder
  }
}

function keptUntilOf ({ window, start, end }: Demand): number {
  if (window === null || start === null || end === null) return none
  return keptUntil(start, end, window)
}

function rowIn ({ rows }: WindowedQuota, name: string): number {
  const row = rows.get(name) ?? rows.size + 1
  rows.set(name, row)
  return row
}
