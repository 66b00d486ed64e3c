import { unlimited } from '../counter.js'
import {
  nameOf,
  type Call,
  type Holding,
  type Release,
  type StoredRequest
} from '../shared/driver.js'
import type { Demand } from '../store.js'

/**
 * How acquire.lua changes a counter. Its settings are the window, the kind of the change, and three
 * numbers, which depend on the kind.
 */
export interface Change {
  readonly counters: string
  readonly callerKey: string
  readonly settings: readonly number[]
}

/** A change that decides on a demand. */
export interface Decision extends Change {
  readonly demand: Demand
}

const [decides, decidesOnExpected, givesBack, holds] = [0, 1, 2, 3]
const bytesOfChange = 7 * Float64Array.BYTES_PER_ELEMENT

/**
 * The window of a demand as the scripts know it: 0 for requests in flight, negative for windows
 * with an end.
 */
export function windowOf ({ window, end }: Demand): number {
  return end === null ? Number(window) : -Number(window)
}

/**
 * The numbers are the count above which there is no room, the cost, and the end of the window, or
 * how many places this process holds.
 */
export function decisionsOn (
  { demands, held }: StoredRequest,
  isExpected: (counters: string) => boolean
): Decision[] {
  return demands.map((demand, index) => {
    const { counters, callerKey, limit, cost, window, end } = demand
    const most = limit === unlimited ? limit : limit - Math.max(cost, 1)
    const kind = isExpected(counters) ? decidesOnExpected : decides
    const other = window === null ? Number(held[index]) : (end ?? NaN)
    return { demand, counters, callerKey, settings: [windowOf(demand), kind, most, cost, other] }
  })
}

/**
 * The numbers of a release: whether it is of the overflow counter, the amount, the window. A
 * holding is a decision without a reply.
 */
export function changeOf (change: Release | Holding): Change {
  const { counters, callerKey } = change
  if ('held' in change) {
    return { counters, callerKey, settings: [0, holds, unlimited, 0, change.held] }
  }
  return {
    counters,
    callerKey,
    settings: [NaN, givesBack, Number(change.overflow), change.amount, change.nonce]
  }
}

/**
 * Returns the counters of the quotas, in the order of their keys, the arguments of acquire.lua, and
 * the changes in the order of its reply.
 *
 * The first argument holds the name of this process and numbers, which scripts read several times
 * as fast in binary form: the time, or NaN for the server's, the number of the call, and the cap;
 * then for each run of requests how many columns it has, which are the changes of one quota; and
 * for each column the number of the argument before its callers, how many there are, and the
 * settings of the changes, from the number of the quota's key to that of the request. Before them
 * is their length, or 0 if consecutive requests have the same.
 */
export function invocationOf<Each extends Change> (
  requests: readonly (readonly Each[])[],
  { time, holder, sequence }: Call,
  cap: number
) {
  const quotas = [...new Set(requests.flat().map(({ counters }) => counters))]
  const [sent, places, columns]: [string[], Map<string, number>, Each[][]] = [[], new Map(), []]
  const numbers = [time ?? NaN, sequence, cap]
  for (const run of runsOf(requests)) {
    numbers.push(run.size)
    for (const [counters, column] of run) {
      const callers = column.map(([{ callerKey }]) => callerKey)
      const place =
        places.get(JSON.stringify(callers)) ?? 1 + sent.push(...callers) - callers.length
      places.set(JSON.stringify(callers), place)
      const settings = column.map(([change, request]) => [
        quotas.indexOf(counters) + 2,
        ...change.settings,
        request
      ])
      const isSame =
        new Set(
          column.map(([change, request], index) => String([...change.settings, request - index]))
        ).size === 1
      numbers.push(
        place,
        callers.length,
        isSame ? 0 : bytesOfChange,
        ...settings.slice(0, isSame ? 1 : undefined).flat()
      )
      columns.push(column.map(([change]) => change))
    }
  }
  const binary = Buffer.concat([
    Buffer.from(holder),
    Buffer.from(Float64Array.from(numbers).buffer)
  ])
  return { quotas, parameters: [binary, ...sent], columns }
}

/**
 * Divides requests into runs in which no two have a counter in common: for each quota, the changes
 * and the numbers of their requests.
 */
function runsOf<Each extends Change> (
  requests: readonly (readonly Each[])[]
): Map<string, [Each, number][]>[] {
  const runs: ReturnType<typeof runsOf<Each>> = []
  let [run, known, request]: [(typeof runs)[number], Set<string>, number] = [
    new Map(),
    new Set(),
    0
  ]
  for (const changes of requests) {
    if (request === 0 || changes.some((change) => known.has(nameOf(change)))) {
      ;[run, known, request] = [new Map(), new Set(), 0]
      runs.push(run)
    }
    request += 1
    for (const change of changes) {
      known.add(nameOf(change))
      const column = run.get(change.counters) ?? []
      column.push([change, request])
      run.set(change.counters, column)
    }
  }
  return runs
}
