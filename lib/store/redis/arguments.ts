import { counterRetention, unlimited } from '../counter.js'
import type { Call, Caller, RequestOfCall } from '../shared/driver.js'
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
  readonly counters: string
  /** The length of the windows. */
  readonly window: number
  readonly rows: Map<string, number>
  /** The row of the overflow counter; `none` without a cap. */
  readonly overflow: number
}

/** A caller of a quota of concurrent requests. */
interface Holder {
  readonly position: number
  readonly caller: Caller
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
  readonly #cap: number
  readonly #quotas = new Map<string, WindowedQuota>()
  readonly #concurrent = new Map<string, number>()
  readonly #holders = new Map<string, Holder>()
  readonly #onceKeys: string[] = []
  readonly #placeNames: string[] = []

  /** @param cap The most callers with a counter of their own in each quota, or `Infinity`. */
  constructor (call: Call, keys: Keys, cap: number) {
    this.#cap = cap
    for (const place of call.freed) this.#holderOf(place, keys).freed.push(place.name)
    for (const place of call.renewed) this.#holderOf(place, keys).renewed.push(place.name)
    const settlements = this.#numbersOfSettlements(call, keys)
    const requests = call.requests.flatMap((request) => this.#numbersOfRequest(request, keys))
    const standings = call.standings.flatMap((demand) => this.#numbersOfStanding(demand, keys))
    const quotas = [...this.#quotas.values()]
    const holders = [...this.#holders.values()]
    const header = [
      call.time ?? serverTime,
      call.periodLength,
      call.placeDuration,
      call.firstWindowId,
      cap,
      quotas.length,
      this.#concurrent.size,
      holders.length,
      settlements.length,
      call.requests.length,
      call.standings.length
    ]
    this.keys = [
      ...quotas.map(({ counters }) => keys.counters(counters)),
      ...[...this.#concurrent.keys()].map((counters) => keys.holders(counters)),
      ...this.#holders.keys(),
      ...this.#onceKeys
    ]
    const numbers = header.concat(
      quotas.flatMap(numbersOfQuota),
      holders.flatMap(numbersOfHolder),
      ...settlements,
      requests,
      standings
    )
    this.parameters = [
      Buffer.from(new Float64Array(numbers).buffer),
      ...quotas.flatMap(({ rows }) => [...rows.keys()]),
      ...holders.flatMap(namesOfHolder),
      ...this.#placeNames
    ]
  }

  /** Returns each settlement once for each period of what was held, and at least once. */
  #numbersOfSettlements ({ settlements }: Call, keys: Keys): number[][] {
    const numbers: number[][] = []
    for (const { counters, row, windowId, window, lessCount, lessHeld, once } of settlements) {
      const quota = this.#quotaOf(counters, window)
      if (once !== null) this.#onceKeys.push(keys.once(once))
      const [first = [none, 0], ...others] = lessHeld
      const position = [quota.position, rowIn(quota, row), windowId]
      const [firstPeriod, firstHeld] = first
      numbers.push([...position, lessCount, firstHeld, firstPeriod, Number(once !== null)])
      for (const [period, held] of others) numbers.push([...position, 0, held, period, 0])
    }
    return numbers
  }

  #numbersOfRequest ({ demands, place }: RequestOfCall, keys: Keys): number[] {
    const hasPlaces = demands.some(({ window }) => window === null)
    if (hasPlaces) this.#placeNames.push(place)
    const numbers = [demands.length, Number(hasPlaces)]
    for (const demand of demands) {
      const { limit, least, most, isEstimate, start, end } = demand
      const unit = 1 + demands.findIndex((other) => other.unit === demand.unit)
      numbers.push(...this.#positionOf(demand, keys), limit === unlimited ? Infinity : limit)
      numbers.push(least, most, unit, Number(isEstimate), start ?? none, end ?? none)
    }
    return numbers
  }

  #numbersOfStanding (demand: Demand, keys: Keys): number[] {
    return [...this.#positionOf(demand, keys), demand.start ?? none, demand.end ?? none]
  }

  /** Returns the position of the demand's quota, and its row or the position of its holder. */
  #positionOf (demand: Demand, keys: Keys): [quota: number, row: number] {
    const { counters, callerKey, window } = demand
    if (window === null) {
      const holder = this.#holderOf(demand, keys)
      holder.isAsked = true
      return [none, holder.position]
    }
    const quota = this.#quotaOf(counters, window)
    return [quota.position, rowIn(quota, storedName(callerKey))]
  }

  #quotaOf (counters: string, window: number): WindowedQuota {
    let quota = this.#quotas.get(counters)
    if (quota === undefined) {
      const hasCap = this.#cap < Infinity
      quota = {
        position: this.#quotas.size + 1,
        counters,
        window,
        rows: new Map(hasCap ? [[overflowRow, 1]] : []),
        overflow: hasCap ? 1 : none
      }
      this.#quotas.set(counters, quota)
    }
    return quota
  }

  #holderOf (caller: Caller, keys: Keys): Holder {
    const key = keys.places(caller)
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

function rowIn ({ rows }: WindowedQuota, name: string): number {
  const row = rows.get(name) ?? rows.size + 1
  rows.set(name, row)
  return row
}

function numbersOfQuota ({ window, rows, overflow }: WindowedQuota): number[] {
  return [window, counterRetention(window), rows.size, overflow]
}

function numbersOfHolder ({ quota, freed, renewed, isAsked }: Holder): number[] {
  return [quota, freed.length, renewed.length, Number(isAsked)]
}

function namesOfHolder ({ caller, freed, renewed }: Holder): string[] {
  return [storedName(caller.callerKey), ...freed, ...renewed]
}
