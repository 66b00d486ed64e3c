import { unlimited } from '../counter.js'
import type { Call, Holding, Release, StoredRequest } from '../shared/driver.js'
import type { Demand } from '../store.js'

/** A quota in acquire.lua: its window, whether this process has had a decision within one, and whether a caller can occur twice. */
type QuotaSettings = [window: number, isExpected: boolean, hasRepeats: boolean]

/**
 * A demand in acquire.lua: the number of its quota, from 1; the count above which there is no room; the cost; the number of its caller in the request,
 * from 1; the end of its window, if it has one.
 */
type DemandSettings = [quota: number, most: number, cost: number, caller: number, windowEnd?: number]

/** Requests that follow each other and differ only in their callers: how many there are, and how many callers each has. */
type Run = [requests: number, callers: number, demands: readonly DemandSettings[]]

/** What is sent to a script whose first argument is JSON: the counters of the quotas, in the order of their keys, and the arguments. */
export interface Invocation { readonly quotas: readonly string[], readonly parameters: readonly string[] }

/** The window of a demand as the scripts know it: 0 for requests in flight, negative for windows with an end. */
export function windowOf ({ window, end }: Demand): number {
  return end === null ? window ?? 0 : -(window ?? 0)
}

/** Returns the arguments of acquire.lua. The windows that the requests open have the numbers after that of the call. */
export function acquireInvocation (requests: readonly StoredRequest[], call: Call, cap: number, isExpected: (counters: string) => boolean): Invocation {
  const quotas = new Map<string, { readonly number: number, readonly settings: QuotaSettings, readonly callers: Set<string> }>()
  const runs: Run[] = []
  const held: number[] = []
  const sentCallers: string[] = []
  let latest = ''
  for (const request of requests) {
    const callers: string[] = []
    const demands = request.demands.map((demand, index): DemandSettings => {
      const { counters, callerKey, limit, cost, window, end } = demand
      let quota = quotas.get(counters)
      if (quota === undefined) {
        quota = { number: quotas.size + 1, settings: [windowOf(demand), isExpected(counters), false], callers: new Set() }
        quotas.set(counters, quota)
      }
      if (quota.callers.has(callerKey)) quota.settings[2] = true
      quota.callers.add(callerKey)
      if (window === null) held.push(request.held[index] ?? 0)
      if (!callers.includes(callerKey)) callers.push(callerKey)
      const most = limit === unlimited ? limit : limit - Math.max(cost, 1)
      const settings: [quota: number, most: number, cost: number, caller: number] = [quota.number, most, cost, callers.indexOf(callerKey) + 1]
      return end === null ? settings : [...settings, end]
    })
    const text = demands.join(' ')
    const run = runs.at(-1)
    if (run !== undefined && text === latest) run[0] += 1
    else runs.push([1, callers.length, demands])
    latest = text
    sentCallers.push(...callers)
  }
  const settings = [...quotas.values()].map((quota) => quota.settings)
  return { quotas: [...quotas.keys()], parameters: [settingsText(call, cap, settings, runs, held), ...sentCallers] }
}

/** Returns the arguments of release.lua. */
export function releaseInvocation (releases: readonly Release[], holdings: readonly Holding[], call: Call): Invocation {
  // All changes in the windows of a quota stand together, and so do those of its places.
  const inWindows = byCounters(releases)
  const inFlight = byCounters(holdings)
  const settings = [
    ...inWindows.map((changes) => ({ nonces: changes.map(({ nonce }) => nonce), amounts: changes.map(({ amount }) => amount), overflows: changes.map(({ overflow }) => overflow) })),
    ...inFlight.map((changes) => ({ held: changes.map(({ held }) => held) }))
  ]
  const groups = [...inWindows, ...inFlight]
  return {
    quotas: groups.map(([first]) => first?.counters ?? ''),
    parameters: [settingsText(call, settings), ...groups.flatMap((changes) => changes.map(({ callerKey }) => callerKey))]
  }
}

function byCounters<Change extends { readonly counters: string }> (changes: readonly Change[]): Change[][] {
  const names = new Set(changes.map(({ counters }) => counters))
  return [...names].map((name) => changes.filter(({ counters }) => counters === name))
}

function settingsText ({ time, holder, sequence }: Call, ...more: readonly unknown[]): string {
  return JSON.stringify([time ?? false, holder, sequence, ...more])
}
