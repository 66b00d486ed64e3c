import { counterRetention, keptUntil, unlimited } from '../counter.js'
import type { Call, QuotaCaller, RequestOfCall, Settlement } from '../shared/driver.js'
import { overflowRow, storedName } from '../shared/stored-names.js'
import type { Demand } from '../store.js'
import type { Keys } from './keys.js'

/** Stands for the time of the server's clock. */
export const serverTime = -1

/** The position of the quota of a place, and what stands for a time that there is not. */
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
  /** The position of the quota among those of concurrent requests. */
  readonly quota: number
  readonly freed: string[]
  readonly renewed: string[]
  /** Whether a request or a standing asks how many places it has. */
  isAsked: boolean
}

/** The arguments of decide.lua, which says what they are: keys, numbers and names. */
export class DecideArguments {
  readonly keys: readonly string[]
  readonly parameters: readonly (string | Buffer)[]
  readonly #keys: Keys
  readonly #cap: number
  readonly #quotas = new Map<string, WindowedQuota>()
  readonly #concurrent = new Map<string, number>()
  readonly #holders = new Map<string, Holder>()
  readonly #onceKeys: string[] = []
  readonly #placeNames: string[] = []
  // Those of settlements, requests and standings.
  readonly #numbers: number[] = []

  /** @param cap The most callers with a counter of their own in each quota, or `Infinity`. */
  constructor (call: Call, keys: Keys, cap: number) {
    this.#keys = keys
    this.#cap = cap
    for (const place of call.freed) this.#holderOf(place).freed.push(place.name)
    for (const place of call.renewed) this.#holderOf(place).renewed.push(place.name)
    let settlementCount = 0
    for (const settlement of call.settlements) settlementCount += this.#addSettlement(settlement)
    for (const request of call.requests) this.#addRequest(request)
    for (const demand of call.standings) this.#addStanding(demand)
    this.keys = this.#allKeys(call)
    const numbers = this.#allNumbers(call, settlementCount)
    this.parameters = [Buffer.from(numbers.buffer), ...this.#names()]
  }

  /**
   * Adds a settlement once for each period of what was held, and at least once. Returns how often.
   */
  #addSettlement ({
    counters,
    row,
    windowId,
    window,
    lessCount,
    lessHeld,
    once
  }: Settlement): number {
    const quota = this.#quotaOf(counters, window)
    const rowAt = rowIn(quota, row)
    if (once !== null) this.#onceKeys.push(this.#keys.once(once))
    const [first = [none, 0], ...others] = lessHeld
    const [period, held] = first
    this.#numbers.push(
      quota.position, rowAt, windowId, lessCount, held, period, Number(once !== null)
    )
    for (const [otherPeriod, otherHeld] of others) {
      this.#numbers.push(quota.position, rowAt, windowId, 0, otherHeld, otherPeriod, 0)
    }
    return 1 + others.length
  }

  #addRequest ({ demands, place }: RequestOfCall): void {
    const hasPlaces = demands.some(({ window }) => window === null)
    if (hasPlaces) this.#placeNames.push(place)
    this.#numbers.push(demands.length, Number(hasPlaces))
    for (const demand of demands) {
      const { limit, least, most, isEstimate, start, end } = demand
      const unit = 1 + demands.findIndex((other) => other.unit === demand.unit)
      this.#addPosition(demand)
      this.#numbers.push(limit === unlimited ? Infinity : limit, least, most, unit)
      this.#numbers.push(Number(isEstimate), start ?? none, end ?? none, keptUntilOf(demand))
    }
  }

  #addStanding (demand: Demand): void {
    this.#addPosition(demand)
    this.#numbers.push(demand.start ?? none, demand.end ?? none)
  }

  /** Adds the position of the demand's quota, and its row or the position of its holder. */
  #addPosition (demand: Demand): void {
    const { counters, callerKey, window } = demand
    if (window === null) {
      const holder = this.#holderOf(demand)
      holder.isAsked = true
      this.#numbers.push(none, holder.position)
      return
    }
    const quota = this.#quotaOf(counters, window)
    this.#numbers.push(quota.position, rowIn(quota, storedName(callerKey)))
  }

  /** A client of a cluster sends a call without keys to any server, and this one has its slot's. */
  #allKeys ({ settlements, process }: Call): string[] {
    const keys: string[] = []
    for (const counters of this.#quotas.keys()) keys.push(this.#keys.counters(counters))
    for (const counters of this.#concurrent.keys()) keys.push(this.#keys.holders(counters))
    keys.push(...this.#holders.keys(), ...this.#onceKeys)
    if (settlements.length > 0) keys.push(this.#keys.calls(process))
    return keys.length === 0 ? [this.#keys.root] : keys
  }

  #allNumbers (call: Call, settlementCount: number): Float64Array {
    const numbers = [
      call.time ?? serverTime,
      call.periodLength,
      call.placeDuration,
      call.firstWindowId,
      call.number,
      this.#cap,
      this.#quotas.size,
      this.#concurrent.size,
      this.#holders.size,
      settlementCount,
      call.requests.length,
      call.standings.length
    ]
    for (const { window, rows, overflow } of this.#quotas.values()) {
      numbers.push(window, counterRetention(window), rows.size, overflow)
    }
    for (const { quota, freed, renewed, isAsked } of this.#holders.values()) {
      numbers.push(quota, freed.length, renewed.length, Number(isAsked))
    }
    return new Float64Array(numbers.concat(this.#numbers))
  }

  #names (): string[] {
    const names: string[] = []
    for (const { rows } of this.#quotas.values()) names.push(...rows.keys())
    for (const { caller, freed, renewed } of this.#holders.values()) {
      names.push(storedName(caller.callerKey), ...freed, ...renewed)
    }
    return names.concat(this.#placeNames)
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
      const quota = this.#concurrent.get(caller.counters) ?? this.#concurrent.size + 1
      this.#concurrent.set(caller.counters, quota)
      holder = {
        position: this.#holders.size + 1,
        caller,
        quota,
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
