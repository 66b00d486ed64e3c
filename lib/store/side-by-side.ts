import { isPromise, type Eventual } from '../promises.js'
import { grantedAlike, type Grant } from './counter.js'
import type { Acquisition, Acquisitions, Demand, Settled } from './store.js'

/** What decides on the demands of one side, and gives back what it has counted. */
export interface SideFunctions<Side> {
  /**
   * Decides on the demands of one side in one step. Checks the result of a store that may not keep
   * to the interface.
   */
  acquire(side: Side, demands: readonly Demand[]): Acquisitions | Promise<Acquisitions>
  /** Gives back. Nobody waits for it, so it handles its own errors. */
  settle(side: Side, receipt: unknown, less: Settled): void
}

/** The demands of one side, such as a store, and what it decides on them. */
class Part<Side> {
  readonly demands: Demand[] = []
  /** Null if the side has failed, or was not asked. */
  acquisitions: Acquisitions | null = null
  hasFailed = false
  error: unknown

  constructor (readonly side: Side) {}

  get rejects (): boolean {
    return this.acquisitions !== null && !haveRoom(this.acquisitions)
  }

  /** Asks the side. Returns a promise only if the side does. Never throws or rejects. */
  decide (functions: SideFunctions<Side>): Eventual<void> {
    try {
      const acquiring = functions.acquire(this.side, this.demands)
      if (isPromise(acquiring)) return this.#decideLater(acquiring)
      this.acquisitions = acquiring
    } catch (error) {
      this.#fail(error)
    }
  }

  async #decideLater (acquiring: PromiseLike<Acquisitions>): Promise<void> {
    try {
      this.acquisitions = await acquiring
    } catch (error) {
      this.#fail(error)
    }
  }

  #fail (error: unknown): void {
    this.hasFailed = true
    this.error = error
  }
}

/**
 * Decides on the demands of a request that several sides keep the counters of. All sides are asked
 * at the same time, but none after one that rejects at once. Where one of them rejects or fails,
 * what the others have counted is given back. Where all admit, the demands are granted alike, and
 * what a side has counted beyond that is given back.
 *
 * @param sides The side of each demand, in their order.
 * @returns One acquisition for each demand; null for those of a side that was not asked, or that
 *   failed while another one rejected.
 * @throws What a side throws, if no other side rejects.
 */
export function acquireSideBySide<Side> (
  sides: ReadonlyMap<Demand, Side>,
  functions: SideFunctions<Side>
): Acquisitions | Promise<Acquisitions> {
  const parts = partsOf(sides)
  const [first] = parts
  if (first !== undefined && parts.length === 1) {
    return functions.acquire(first.side, first.demands)
  }
  return acquireParts([...sides.keys()], parts, functions)
}

async function acquireParts<Side> (
  demands: readonly Demand[],
  parts: readonly Part<Side>[],
  functions: SideFunctions<Side>
): Promise<Acquisitions> {
  const deciding: Eventual<void>[] = []
  for (const part of parts) {
    deciding.push(part.decide(functions))
    if (part.rejects) break
  }
  await Promise.all(deciding)

  const isRejected = parts.some(({ rejects }) => rejects)
  const failed = parts.find(({ hasFailed }) => hasFailed)
  const isAdmitted = !isRejected && failed === undefined
  const alone = isAdmitted ? parts.flatMap(grantsOf) : []
  const decided = new Map<Demand, Acquisition>()
  for (const part of parts) {
    for (const [demand, acquisition] of acquisitionsOf(part)) {
      const granted = isAdmitted ? grantedAlike(demand, alone) : 0
      const excess = acquisition.granted - granted
      decided.set(demand, excess > 0 ? lowered(acquisition, demand, excess) : acquisition)
      if (excess > 0) functions.settle(part.side, acquisition.receipt, settled(demand, excess))
    }
  }
  if (failed !== undefined && !isRejected) throw failed.error
  return demands.map((demand) => decided.get(demand) ?? null)
}

function partsOf<Side> (sides: ReadonlyMap<Demand, Side>): Part<Side>[] {
  const parts = new Map<Side, Part<Side>>()
  for (const [demand, side] of sides) {
    const part = parts.get(side) ?? new Part(side)
    parts.set(side, part)
    part.demands.push(demand)
  }
  return [...parts.values()]
}

function acquisitionsOf<Side> (part: Part<Side>): [Demand, Acquisition][] {
  const asked: [Demand, Acquisition][] = []
  for (const [index, demand] of part.demands.entries()) {
    const acquisition = part.acquisitions?.[index] ?? null
    if (acquisition !== null) asked.push([demand, acquisition])
  }
  return asked
}

function grantsOf<Side> (part: Part<Side>): Grant[] {
  return acquisitionsOf(part).map(([demand, { granted }]) => ({ demand, granted }))
}

/** Returns what gives back a part of what a demand was granted. */
export function settled ({ isEstimate }: Demand, excess: number): Settled {
  return { count: excess, held: isEstimate ? excess : 0 }
}

/** An acquisition of which a part is given back. */
function lowered (acquisition: Acquisition, demand: Demand, excess: number): Acquisition {
  const { count, held } = settled(demand, excess)
  return {
    ...acquisition,
    granted: acquisition.granted - excess,
    count: Math.max(0, acquisition.count - count),
    held: Math.max(0, acquisition.held - held)
  }
}

/** Whether all demands of a request have room, in which case each is counted. */
export function haveRoom (acquisitions: Acquisitions): acquisitions is readonly Acquisition[] {
  for (const acquisition of acquisitions) {
    if (acquisition?.admitted !== true) return false
  }
  return true
}
