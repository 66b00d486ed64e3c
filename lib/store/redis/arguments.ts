import { counterRetention } from '../counter.js'
import { placeDuration, type Call, type Caller, type NamedPlace } from '../shared/driver.js'
import { storedName } from '../shared/stored-names.js'
import type { Demand } from '../store.js'

/** The end of the key of a quota's counters. */
export function windowsKey (counters: string): string {
  return `windows:${storedName(counters)}`
}

/** The end of the key of the callers of a quota of concurrent requests. */
export function placesKey (counters: string): string {
  return `places:${storedName(counters)}`
}

/** The end of the key of a caller's places. The name of the counters has no space. */
export function holderKey ({ counters, callerKey }: Caller): string {
  return `${placesKey(counters)} ${storedName(callerKey)}`
}

/** A quota with windows, and its callers with their rows, which count from 1 as in Lua. */
interface WindowedQuota {
  readonly counters: string
  readonly position: number
  readonly rows: Map<string, number>
  /** The length of the windows; 0 if no request reaches the quota. */
  window: number
  isZoned: boolean
}

/** The arguments of decide.lua, which describes them: numbers of eight bytes, and names. */
export class DecideArguments {
  readonly keys: readonly string[]
  readonly parameters: readonly (string | Buffer)[]
  readonly #quotas = new Map<string, WindowedQuota>()
  readonly #concurrent = new Set<string>()
  /** The ends of the keys of callers' places, with their positions, which count from 1. */
  readonly #holders = new Map<string, number>()
  readonly #placeNames: string[] = []
  /** How long the shard must last after this call, in milliseconds. */
  #keep = 0

  /** @param shard The key of the shard. */
  constructor (shard: string, call: Call, cap: number) {
    const numbers: number[] = []
    for (const freed of call.freed) this.#addPlace(numbers, freed)
    for (const renewed of call.renewed) {
      this.#addPlace(numbers, renewed)
      this.#keep = Math.max(this.#keep, placeDuration)
    }
    const settlementCount = this.#addSettlements(numbers, call)
    const demandCount = this.#addRequests(numbers, call)
    const quotas = [...this.#quotas.values()]
    const header = [
      call.time ?? -1,
      cap,
      this.#keep,
      quotas.length,
      this.#concurrent.size,
      this.#holders.size,
      call.freed.length,
      call.renewed.length,
      settlementCount,
      call.requests.length,
      demandCount
    ]
    for (const { window, isZoned, rows } of quotas) {
      header.push(window, Number(isZoned), rows.size)
    }
    const ends = quotas.map(({ counters }) => windowsKey(counters))
    ends.push(...this.#concurrent, ...this.#holders.keys())
    this.keys = [shard, ...ends.map((end) => `${shard}:${end}`)]
    this.parameters = [
      Buffer.from(new Float64Array(header.concat(numbers)).buffer),
      ...quotas.flatMap(({ rows }) => [...rows.keys()]),
      ...this.#placeNames
    ]
  }

  #addPlace (numbers: number[], place: NamedPlace): void {
    numbers.push(this.#holderOf(place))
    this.#placeNames.push(place.name)
  }

  /** Adds each settlement once for each period whose held amount it changes, and at least once. */
  #addSettlements (numbers: number[], { settlements }: Call): number {
    let count = 0
    for (const settlement of settlements) {
      const { counters, callerKey, overflow, windowId, lessHeld } = settlement
      const quota = this.#quotaOf(counters)
      const row = rowOf(quota, callerKey)
      const periods = lessHeld.size > 0 ? lessHeld : new Map([[0, 0]])
      let { lessCount } = settlement
      for (const [period, less] of periods) {
        numbers.push(quota.position, row, Number(overflow), windowId, lessCount, less, period)
        lessCount = 0
        count += 1
      }
    }
    return count
  }

  /** Returns how many demands the requests have. */
  #addRequests (numbers: number[], { requests }: Call): number {
    let count = 0
    for (const { demands, place } of requests) {
      const hasPlaces = demands.some(({ window }) => window === null)
      if (hasPlaces) this.#placeNames.push(place)
      numbers.push(demands.length, Number(hasPlaces))
      for (const demand of demands) this.#addDemand(numbers, demand)
      count += demands.length
    }
    return count
  }

  #addDemand (numbers: number[], demand: Demand): void {
    const { counters, callerKey, limit, least, most, isEstimate, window, start, end } = demand
    if (window === null) {
      numbers.push(0, this.#holderOf(demand))
      this.#keep = Math.max(this.#keep, placeDuration)
    } else {
      const quota = this.#quotaOf(counters)
      quota.window = window
      quota.isZoned = end !== null
      numbers.push(quota.position, rowOf(quota, callerKey))
      this.#keep = Math.max(this.#keep, counterRetention(window))
    }
    numbers.push(limit, least, most, Number(isEstimate), start ?? 0, end ?? 0)
  }

  #quotaOf (counters: string): WindowedQuota {
    let quota = this.#quotas.get(counters)
    if (quota === undefined) {
      const position = this.#quotas.size + 1
      quota = { counters, position, rows: new Map(), window: 0, isZoned: false }
      this.#quotas.set(counters, quota)
    }
    return quota
  }

  #holderOf (caller: Caller): number {
    const holder = holderKey(caller)
    let position = this.#holders.get(holder)
    if (position === undefined) {
      position = this.#holders.size + 1
      this.#holders.set(holder, position)
      this.#concurrent.add(placesKey(caller.counters))
    }
    return position
  }
}

function rowOf ({ rows }: WindowedQuota, callerKey: string): number {
  const caller = storedName(callerKey)
  let row = rows.get(caller)
  if (row === undefined) {
    row = rows.size + 1
    rows.set(caller, row)
  }
  return row
}
