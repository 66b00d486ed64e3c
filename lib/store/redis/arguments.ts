import { counterRetention, unlimited } from '../counter.js'
import type { Call, NamedPlace, RequestOfCall } from '../shared/driver.js'
import { overflowRow, storedName } from '../shared/stored-names.js'
import type { Demand } from '../store.js'
import type { Keys } from './keys.js'

/** Stands for the time of the server's clock. */
export const serverTime = -1

/** Stands for a row, a window or a time that there is not. */
const none = 0

/** A quota of the call. Positions and rows count from 1, as in Lua. */
interface Quota {
  readonly position: number
  /** The length of the windows; `none` for concurrent requests. */
  readonly window: number
  readonly rows: Map<string, number>
  /** The row of the overflow counter; `none` without a cap and for concurrent requests. */
  readonly overflow: number
}

/** The arguments of decide.lua, which says what they are: keys, numbers and names. */
export class DecideArguments {
  readonly keys: readonly string[]
  readonly parameters: readonly (string | Buffer)[]
  readonly #names: Keys
  readonly #cap: number
  readonly #quotas = new Map<string, Quota>()
  readonly #onceKeys: string[] = []
  readonly #placeNames: string[] = []

  /** @param cap The most callers with a counter of their own in each quota, or `Infinity`. */
  constructor (call: Call, keys: Keys, cap: number) {
    this.#names = keys
    this.#cap = cap
    const places = [...call.freed, ...call.renewed].flatMap((place) => this.#numbersOfPlace(place))
    const settlements = this.#numbersOfSettlements(call)
    const requests = call.requests.flatMap((request) => this.#numbersOfRequest(request))
    const standings = call.standings.flatMap((demand) => this.#numbersOfStanding(demand))
    const quotas = [...this.#quotas.values()]
    const header = [
      call.time ?? serverTime,
      call.periodLength,
      call.placeDuration,
      call.firstWindowId,
      cap,
      quotas.length,
      call.freed.length,
      call.renewed.length,
      settlements.length,
      call.requests.length,
      call.standings.length
    ]
    const numbers = header.concat(
      quotas.flatMap(numbersOfQuota),
      places,
      ...settlements,
      requests,
      standings
    )
    this.keys = [...this.#quotas.keys(), ...this.#onceKeys]
    this.parameters = [
      Buffer.from(new Float64Array(numbers).buffer),
      ...quotas.flatMap(({ rows }) => [...rows.keys()]),
      ...this.#placeNames
    ]
  }

  #numbersOfPlace ({ counters, callerKey, name }: NamedPlace): number[] {
    this.#placeNames.push(name)
    const quota = this.#quotaOf(counters, null)
    return [quota.position, rowIn(quota, storedName(callerKey))]
  }

  /** Returns each settlement once for each period of what was held, and at least once. */
  #numbersOfSettlements ({ settlements }: Call): number[][] {
    const numbers: number[][] = []
    for (const { counters, row, windowId, window, lessCount, lessHeld, once } of settlements) {
      const quota = this.#quotaOf(counters, window)
      if (once !== null) this.#onceKeys.push(this.#names.once(once))
      const [first = [none, 0], ...others] = lessHeld
      const position = [quota.position, rowIn(quota, row), windowId]
      const [firstPeriod, firstHeld] = first
      numbers.push([...position, lessCount, firstHeld, firstPeriod, Number(once !== null)])
      for (const [period, held] of others) numbers.push([...position, 0, held, period, 0])
    }
    return numbers
  }

  #numbersOfRequest ({ demands, place }: RequestOfCall): number[] {
    const hasPlaces = demands.some(({ window }) => window === null)
    if (hasPlaces) this.#placeNames.push(place)
    const numbers = [demands.length, Number(hasPlaces)]
    for (const demand of demands) {
      const { limit, least, most, isEstimate, start, end } = demand
      const unit = 1 + demands.findIndex((other) => other.unit === demand.unit)
      numbers.push(...this.#positionOf(demand), limit === unlimited ? Infinity : limit)
      numbers.push(least, most, unit, Number(isEstimate), start ?? none, end ?? none)
    }
    return numbers
  }

  #numbersOfStanding (demand: Demand): number[] {
    return [...this.#positionOf(demand), demand.start ?? none, demand.end ?? none]
  }

  /** Returns the position of the demand's quota, and its row there. */
  #positionOf ({ counters, callerKey, window }: Demand): [quota: number, row: number] {
    const quota = this.#quotaOf(counters, window)
    return [quota.position, rowIn(quota, storedName(callerKey))]
  }

  /** @param window Null for concurrent requests. */
  #quotaOf (counters: string, window: number | null): Quota {
    const isConcurrent = window === null
    const key = isConcurrent ? this.#names.places(counters) : this.#names.counters(counters)
    let quota = this.#quotas.get(key)
    if (quota === undefined) {
      const hasOverflow = this.#cap < Infinity && !isConcurrent
      quota = {
        position: this.#quotas.size + 1,
        window: window ?? none,
        rows: new Map(hasOverflow ? [[overflowRow, 1]] : []),
        overflow: hasOverflow ? 1 : none
      }
      this.#quotas.set(key, quota)
    }
    return quota
  }
}

function rowIn ({ rows }: Quota, name: string): number {
  const row = rows.get(name) ?? rows.size + 1
  rows.set(name, row)
  return row
}

function numbersOfQuota ({ window, rows, overflow }: Quota): number[] {
  return [window, counterRetention(window), rows.size, overflow]
}
