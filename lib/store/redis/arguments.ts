import { unlimited } from '../counter.js'
import type { Call, Holding, Release, StoredRequest } from '../shared/driver.js'
import type { Demand } from '../store.js'

/** What is sent to acquire.lua or release.lua: the counters of the quotas, in the order of their keys, and the arguments. */
interface Invocation { readonly quotas: readonly string[], readonly parameters: readonly (string | Buffer)[] }

/** The window of a demand as the scripts know it: 0 for requests in flight, negative for windows with an end. */
export function windowOf ({ window, end }: Demand): number {
  return end === null ? Number(window) : -Number(window)
}

/** Returns the name of this process and numbers, which scripts read several times as fast in binary form. NaN stands for none. */
function settingsOf (holder: string, numbers: readonly number[]): Buffer {
  return Buffer.concat([Buffer.from(holder), Buffer.from(Float64Array.from(numbers).buffer)])
}

/**
 * Returns the arguments of acquire.lua. The numbers are the time, the number of the call, after which those of the windows follow that
 * the requests open, the cap and the number of runs; for each quota its window, its first and last argument with a caller, whether this
 * process has had a decision within a window, and whether a caller can occur twice; and for each run of requests that differ only in
 * their callers how many there are, how many demands each has, and for each of these the number of its quota, the count above which there
 * is no room, the cost, and the end of its window or the places held.
 */
export function acquireInvocation (
  requests: readonly StoredRequest[], { time, holder, sequence }: Call, cap: number, isExpected: (counters: string) => boolean
): Invocation {
  const quotas = new Map<string, { readonly index: number, readonly window: number, readonly callers: string[] }>()
  const runs: number[][] = []
  for (const { demands, held } of requests) {
    const latest = runs.at(-1)
    const run = [1, demands.length]
    demands.forEach((demand, index) => {
      const { counters, callerKey, limit, cost, window, end } = demand
      let quota = quotas.get(counters)
      if (quota === undefined) {
        quota = { index: quotas.size + 1, window: windowOf(demand), callers: [] }
        quotas.set(counters, quota)
      }
      quota.callers.push(callerKey)
      run.push(quota.index, limit === unlimited ? limit : limit - Math.max(cost, 1), cost, window === null ? Number(held[index]) : end ?? NaN)
    })
    // The first number is that of the requests.
    if (latest !== undefined && String(run.slice(1)) === String(latest.slice(1))) latest[0] = Number(latest[0]) + 1
    else runs.push(run)
  }
  // Quotas with the same callers share their arguments.
  const sent: string[] = []
  const places = new Map<string, number>()
  const settings = [...quotas].flatMap(([counters, { window, callers }]) => {
    const all = callers.join(' ')
    const first = places.get(all) ?? sent.length + 2
    if (!places.has(all)) sent.push(...callers)
    places.set(all, first)
    return [window, first, first + callers.length - 1, Number(isExpected(counters)), Number(new Set(callers).size < callers.length)]
  })
  const numbers = [time ?? NaN, sequence, cap, runs.length, ...settings, ...runs.flat()]
  return { quotas: [...quotas.keys()], parameters: [settingsOf(holder, numbers), ...sent] }
}

/**
 * Returns the arguments of release.lua. The numbers are the time and that of the call; for each quota whether it counts requests in
 * flight and how many changes it has; and for each change the nonce, the amount, or the number of places held, and whether it is in the
 * overflow counter.
 */
export function releaseInvocation (
  releases: readonly Release[], holdings: readonly Holding[], { time, holder, sequence }: Call
): Invocation {
  const groups = new Map<string, (Release | Holding)[]>()
  for (const change of [...releases, ...holdings]) {
    const group = groups.get(change.counters)
    if (group === undefined) groups.set(change.counters, [change])
    else group.push(change)
  }
  const changes = [...groups.values()]
  const settings = changes.flatMap((group) => [Number('held' in Object(group[0])), group.length, ...group.flatMap((change) =>
    'held' in change ? [0, change.held, 0] : [change.nonce, change.amount, Number(change.overflow)])])
  const callers = changes.flat().map(({ callerKey }) => callerKey)
  return { quotas: [...groups.keys()], parameters: [settingsOf(holder, [time ?? NaN, sequence, ...settings]), ...callers] }
}
