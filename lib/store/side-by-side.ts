import { attempt, proceedAll } from '../promises.js'
import type { Acquisition, Demand } from './store.js'

type Acquisitions = readonly (Acquisition | null)[]

/** The demands that one side, a store or a shard, decides on in one step. */
interface Part<Side> {
  readonly side: Side
  readonly indexes: readonly number[]
  readonly demands: readonly Demand[]
}

/** What decides on a part. */
export interface Sides<Side> {
  /** Decides on the demands of one side in one step. Checks the result of a store that may not keep to the interface. */
  acquire (side: Side, demands: readonly Demand[]): Acquisitions | Promise<Acquisitions>
  /** Gives back what a demand of an admitted part has counted. Nobody waits for it, so it handles its own errors. */
  release (side: Side, acquisition: Acquisition, amount: number): void
}

/**
 * Decides on the demands of a request that several sides keep the counters of. Where one of them rejects or fails, what the others have counted is
 * given back.
 *
 * @param sides The side of each demand.
 * @returns One acquisition for each demand; null for those of a side that failed while another one rejected.
 * @throws What a side throws, if no other side rejects. A promise only if a side returned one.
 */
export function acquireSideBySide<Side> (demands: readonly Demand[], sides: readonly Side[], { acquire, release }: Sides<Side>): Acquisitions | Promise<Acquisitions> {
  const [first] = sides
  if (first !== undefined && sides.every((side) => side === first)) return acquire(first, demands)
  const parts = partsOf(demands, sides)
  const asked = parts.map((part) => attempt<Acquisitions | Failure>(() => acquire(part.side, part.demands), (error) => new Failure(error)))
  return proceedAll(asked, (results) => {
    const failure = results.find((result) => result instanceof Failure)
    const isRejected = results.some((result) => !(result instanceof Failure) && !haveRoom(result))
    const isAdmitted = failure === undefined && !isRejected
    const merged: (Acquisition | null)[] = demands.map(() => null)
    parts.forEach((part, index) => {
      const result = results[index]
      if (result === undefined || result instanceof Failure) return
      const isCounted = haveRoom(result)
      part.indexes.forEach((place, each) => {
        const acquisition = result[each] ?? null
        merged[place] = acquisition
        if (isAdmitted || !isCounted || acquisition === null) return
        const amount = part.demands[each]?.cost ?? 0
        release(part.side, acquisition, amount)
        merged[place] = { ...countOf(acquisition), count: Math.max(0, acquisition.count - amount) }
      })
    })
    if (failure !== undefined && !isRejected) throw failure.error
    return merged
  })
}

class Failure {
  readonly error: unknown

  constructor (error: unknown) {
    this.error = error
  }
}

/** Whether all demands of a part have room, in which case each is counted. */
export function haveRoom (acquisitions: Acquisitions): boolean {
  return acquisitions.every((acquisition) => acquisition?.admitted === true)
}

function countOf ({ admitted, count, windowRemaining, end, overflow }: Acquisition): Acquisition {
  return { admitted, count, windowRemaining, ...(end !== undefined && { end }), overflow }
}

function partsOf<Side> (demands: readonly Demand[], sides: readonly Side[]): Part<Side>[] {
  return [...new Set(sides)].map((side) => {
    const indexes = demands.flatMap((_, index) => sides[index] === side ? [index] : [])
    return { side, indexes, demands: indexes.flatMap((index) => demands[index] ?? []) }
  })
}
