import { required } from '../../required.js'
import { wallClock } from '../../wall-clock.js'
import { unlimited } from '../counter.js'
import type { Demand } from '../store.js'
import type { Decided, Settlement } from './driver.js'
import type { HeldPlace } from './held-places.js'

// No window has this id.
const unknownWindow = -1

/** What a counted demand needs of the shard that has counted it. */
export interface Settler {
  /**
   * Applies a settlement.
   *
   * @param until The time of `performance.now()` at which the window ends.
   */
  addSettlement(settlement: Settlement, until: number): Promise<void>
  /** Counts a demand that always has room. */
  addDemand(demand: Demand, until: number): Promise<Decided>
  /** Frees a place. */
  free(place: HeldPlace): Promise<void>
}

/** What was counted and can be settled. */
export interface Counted {
  readonly demand: Demand
  settle(used: number, end: number | null): Promise<void>
}

/** A place that was taken. It is free again once it is settled, whatever was used. */
export class CountedPlace implements Counted {
  readonly demand: Demand
  readonly #settler: Settler
  readonly #place: HeldPlace
  #isFree = false

  constructor (settler: Settler, demand: Demand, place: HeldPlace) {
    this.#settler = settler
    this.demand = demand
    this.#place = place
  }

  async settle (): Promise<void> {
    if (this.#isFree) return
    this.#isFree = true
    await this.#settler.free(this.#place)
  }
}

/** A part of what a demand counts, in the window that has counted it. */
interface Part {
  readonly windowId: number
  readonly overflow: boolean
  readonly until: number
  count: number
}

/** A demand that was counted in a window, and what it counts now. */
export class CountedDemand implements Counted {
  readonly demand: Demand
  readonly #settler: Settler
  // The latest one is the last.
  readonly #parts: Part[] = []
  #held: number
  // Undefined before the first settlement.
  #settling: Promise<void> | undefined

  constructor (settler: Settler, demand: Demand, decided: Decided) {
    this.#settler = settler
    this.demand = demand
    this.#held = demand.isEstimate ? decided.granted : 0
    this.#parts.push(partOf(decided))
  }

  /** Settles after the settlements before. */
  settle (used: number, end: number | null): Promise<void> {
    const settled =
      this.#settling === undefined
        ? this.#apply(used, end)
        : this.#settling.then(() => this.#apply(used, end))
    // The promise of that settlement rejects. Whether it was applied is unknown.
    this.#settling = settled.catch(() => {})
    return settled
  }

  async #apply (used: number, end: number | null): Promise<void> {
    const pending: Promise<void>[] = []
    let excess = -used
    for (const { count } of this.#parts) excess += count
    const missing = Math.max(0, -excess)
    for (const part of this.#parts.toReversed()) {
      const lessCount = Math.max(0, Math.min(excess, part.count))
      // The first part holds all.
      const lessHeld = part === this.#parts[0] ? this.#held : 0
      if (lessCount === 0 && lessHeld === 0) continue
      excess -= lessCount
      part.count -= lessCount
      const { counters, callerKey } = this.demand
      const { windowId, overflow, until } = part
      const settlement = { counters, callerKey, windowId, overflow, lessCount, lessHeld }
      pending.push(this.#settler.addSettlement(settlement, until))
    }
    this.#held = 0
    if (missing > 0) pending.push(this.#add(missing, end))
    await Promise.all(pending)
  }

  async #add (missing: number, end: number | null): Promise<void> {
    const { until } = this.#latestPart
    const demand: Demand = {
      ...this.demand,
      limit: unlimited,
      least: missing,
      most: missing,
      isEstimate: false,
      end
    }
    try {
      this.#note(partOf(await this.#settler.addDemand(demand, until)))
    } catch (error) {
      // Whether it was counted is unknown. It is neither counted again nor taken back.
      this.#note({ windowId: unknownWindow, overflow: false, until: 0, count: missing })
      throw error
    }
  }

  get #latestPart (): Part {
    return required(this.#parts.at(-1), 'the latest part of what was counted')
  }

  #note (part: Part): void {
    const latest = this.#latestPart
    if (latest.windowId === part.windowId && latest.overflow === part.overflow) {
      latest.count += part.count
    } else {
      this.#parts.push(part)
    }
  }
}

function partOf (decided: Decided): Part {
  const { windowId, overflow, granted } = decided
  return { windowId, overflow, until: endOf(decided), count: granted }
}

/** The time of `performance.now()` at which the window of a decision ends. */
function endOf ({ windowRemaining, end }: Decided): number {
  const remaining =
    end === undefined
      ? required(windowRemaining, 'the remaining time of a window')
      : end - wallClock()
  return performance.now() + remaining
}
