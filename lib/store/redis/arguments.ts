import type { Call, Caller, StoredRequest } from '../shared/driver.js'
import type { Demand } from '../store.js'

/**
 * The name of a quota on the server. It has no space, because a space follows it in the name of a
 * row, and differs for different counters.
 */
export function quotaName (counters: string): string {
  if (!/[% ]/.test(counters)) return counters
  return counters.replaceAll('%', '%25').replaceAll(' ', '%20')
}

/** The name of the row of a caller. */
export function rowName ({ counters, callerKey }: Caller): string {
  return `${quotaName(counters)} ${callerKey}`
}

/** The quotas of a call, in the order of their first use. */
class CalledQuotas {
  readonly #byCounters = new Map<string, { readonly position: number; window: number }>()

  /** Positions count from 1, as in Lua. */
  add (counters: string, window = 0): number {
    let quota = this.#byCounters.get(counters)
    if (quota === undefined) {
      quota = { position: this.#byCounters.size + 1, window: 0 }
      this.#byCounters.set(counters, quota)
    }
    if (window > 0) quota.window = window
    return quota.position
  }

  get names (): string[] {
    return [...this.#byCounters.keys()].map(quotaName)
  }

  get windows (): number[] {
    return [...this.#byCounters.values()].map(({ window }) => window)
  }
}

/** Requests that follow each other and differ in their callers only. */
interface Group {
  readonly demands: readonly Demand[]
  requests: number
}

/**
 * Returns the arguments of decide.lua, which describes them: numbers of eight bytes, and names.
 *
 * @param isExpected Whether the server should have counters of this shard.
 */
export function argumentsOf (call: Call, cap: number, isExpected: boolean): (string | Buffer)[] {
  const quotas = new CalledQuotas()
  const groups = groupsOf(call.requests)
  const numbersOfGroups: number[] = []
  for (const { demands, requests } of groups) {
    numbersOfGroups.push(requests, demands.length)
    for (const demand of demands) addDemand(numbersOfGroups, demand, quotas)
  }
  // An overflow counter is in the field of its quota.
  for (const { counters, overflow } of call.settlements) if (overflow) quotas.add(counters)

  const numbers = [
    call.time ?? -1,
    cap,
    Number(isExpected),
    quotas.windows.length,
    call.holdings.length,
    call.settlements.length,
    groups.length
  ]
  if (call.lease !== null) {
    numbers.push(call.lease.number, call.lease.generation, Number(call.lease.isComplete))
  }
  numbers.push(...quotas.windows)
  for (const { held } of call.holdings) numbers.push(held)
  for (const { windowId, lessCount, lessHeld } of call.settlements) {
    numbers.push(windowId, lessCount, lessHeld)
  }
  for (const number of numbersOfGroups) numbers.push(number)

  const names = [call.lease?.process ?? '', ...quotas.names]
  for (const holding of call.holdings) names.push(rowName(holding))
  for (const settlement of call.settlements) {
    const { counters, overflow } = settlement
    names.push(overflow ? `quota:${quotaName(counters)}` : rowName(settlement))
  }
  for (const demands of call.requests) {
    for (const demand of demands) names.push(rowName(demand))
  }
  return [Buffer.from(Float64Array.from(numbers).buffer), ...names]
}

function addDemand (numbers: number[], demand: Demand, quotas: CalledQuotas): void {
  const { counters, limit, least, most, isEstimate, window, end } = demand
  const quota = window === null ? 0 : quotas.add(counters, window)
  numbers.push(quota, limit, least, most, Number(isEstimate), end ?? 0)
}

function groupsOf (requests: readonly StoredRequest[]): Group[] {
  const groups: Group[] = []
  for (const demands of requests) {
    const latest = groups.at(-1)
    if (latest !== undefined && haveSameSettings(latest.demands, demands)) {
      latest.requests += 1
    } else {
      groups.push({ demands, requests: 1 })
    }
  }
  return groups
}

function haveSameSettings (some: readonly Demand[], others: readonly Demand[]): boolean {
  if (some.length !== others.length) return false
  return some.every((one, index) => {
    const other = others[index]
    return (
      other !== undefined &&
      one.counters === other.counters &&
      one.limit === other.limit &&
      one.least === other.least &&
      one.most === other.most &&
      one.isEstimate === other.isEstimate &&
      one.window === other.window &&
      one.end === other.end
    )
  })
}
