import { unlimited } from '../counter.js'
import type { Call, Holding, Release, StoredRequest } from '../shared/driver.js'
import { nameOf } from '../shared/holdings.js'
import type { Demand } from '../store.js'

/** How acquire.lua changes a counter. Its settings are the window, the kind of the change, and three numbers, which depend on the kind. */
interface Change { readonly counters: string, readonly callerKey: string, readonly settings: readonly number[] }

/** What is sent to acquire.lua: the counters of the quotas, in the order of their keys, and the arguments. */
interface Invocation {
  readonly quotas: readonly string[]
  readonly parameters: readonly (string | Buffer)[]
  /** How many requests each run has. */
  readonly runs: readonly number[]
}

const [decides, decidesOnExpected, givesBack] = [0, 1, 2]
const settingsOfChange = 6

/** The window of a demand as the scripts know it: 0 for requests in flight, negative for windows with an end. */
export function windowOf ({ window, end }: Demand): number {
  return end === null ? Number(window) : -Number(window)
}

/** The numbers are the count above which there is no room, the cost, and the end of the window, or how many places this process holds. */
export function changesOf ({ demands, held }: StoredRequest, isExpected: (counters: string) => boolean): Change[] {
  return demands.map((demand, index) => {
    const { counters, callerKey, limit, cost, window, end } = demand
    const most = limit === unlimited ? limit : limit - Math.max(cost, 1)
    const kind = isExpected(counters) ? decidesOnExpected : decides
    return { counters, callerKey, settings: [windowOf(demand), kind, most, cost, window === null ? Number(held[index]) : end ?? NaN] }
  })
}

/** The numbers are whether the overflow counter is meant, the amount, and the window. */
export function changeOfRelease ({ counters, callerKey, overflow, amount, nonce }: Release): Change {
  return { counters, callerKey, settings: [NaN, givesBack, Number(overflow), amount, nonce] }
}

/** A decision that takes no place writes how many there are. */
export function changeOfHolding ({ counters, callerKey, held }: Holding): Change {
  return { counters, callerKey, settings: [0, decides, unlimited, 0, held] }
}

/**
 * Returns the arguments of acquire.lua. They are sent in runs of requests whose changes are of the same quotas, and none of which has a counter
 * in common with another. The first argument holds the name of this process and numbers, which scripts read several times as fast in binary
 * form: the time, or NaN for the server's, the number of the call and the cap; for each run the numbers of its requests and of the changes that
 * each has; and for each of these changes the number of the argument before its first caller, the distance between the settings of two
 * requests, 0 if they are the same, and these settings, which begin with the number of the quota.
 */
export function invocationOf (requests: readonly (readonly Change[])[], { time, holder, sequence }: Call, cap: number): Invocation {
  const quotas: string[] = []
  const sent: string[] = []
  const numbers = [time ?? NaN, sequence, cap]
  const runs = runsOf(requests)
  const firstCallers = new Map<string, number>()
  for (const { columns, length } of runs) {
    numbers.push(length, columns.length)
    for (const column of columns) {
      const callers = column.map(({ callerKey }) => callerKey)
      const before = firstCallers.get(callers.join(' ')) ?? 1 + sent.push(...callers) - length
      firstCallers.set(callers.join(' '), before)
      const settings = column.map(({ counters, settings }) => {
        if (!quotas.includes(counters)) quotas.push(counters)
        return [quotas.indexOf(counters) + 2, ...settings]
      })
      const isSame = new Set(settings.map(String)).size === 1
      numbers.push(before, isSame ? 0 : settingsOfChange * Float64Array.BYTES_PER_ELEMENT, ...settings.slice(0, isSame ? 1 : length).flat())
    }
  }
  const binary = Buffer.concat([Buffer.from(holder), Buffer.from(Float64Array.from(numbers).buffer)])
  return { quotas, parameters: [binary, ...sent], runs: runs.map(({ length }) => length) }
}

interface Run { readonly quotas: string, readonly counters: Set<string>, readonly columns: Change[][], length: number }

function runsOf (requests: readonly (readonly Change[])[]): Run[] {
  const runs: Run[] = []
  for (const changes of requests) {
    const [quotas, counters] = [changes.map(({ counters }) => counters).join(' '), changes.map(nameOf)]
    let run = runs.at(-1)
    if (run === undefined || run.quotas !== quotas || counters.some((each) => run?.counters.has(each))) {
      run = { quotas, counters: new Set(), columns: changes.map(() => []), length: 0 }
      runs.push(run)
    }
    for (const each of counters) run.counters.add(each)
    changes.forEach((change, index) => run?.columns[index]?.push(change))
    run.length += 1
  }
  return runs
}
