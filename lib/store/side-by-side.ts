import type { Acquisition, Acquisitions, Demand } from './store.js'

type Acquire<Side> = (
  side: Side,
  demands: readonly Demand[]
) => Acquisitions | Promise<Acquisitions>

/** The demands of one side, a store or a shard, and what it decides on them. */
class Part<Side> {
  readonly demands: Demand[] = []
  /** Null if the side has failed. */
  acquisitions: Acquisitions | null = null
  error: unknown

  constructor (readonly side: Side) {}

  async decide (acquire: Acquire<Side>): Promise<void> {
    try {
      this.acquisitions = await acquire(this.side, this.demands)
    } catch (error) {
      this.error = error
    }
  }
}

/**
 * Decides on the demands of a request that several sides keep the counters of. Where one of them
 * rejects or fails, what the others have counted is settled with 0.
 *
 * @param sides The side of each demand, in their order.
 * @param acquire Decides on the demands of one side in one step. Checks the result of a store that
 *   may not keep to the interface.
 * @param settle Settles with 0 what a demand has counted. Nobody waits for it, so it handles its
 *   own errors.
 * @returns One acquisition for each demand; null for those of a side that failed while another one
 *   rejected.
 * @throws What a side throws, if no other side rejects.
 */
export function acquireSideBySide<Side> (
  sides: ReadonlyMap<Demand, Side>,
  acquire: Acquire<Side>,
  settle: (side: Side, acquisition: Acquisition) => void
): Acquisitions | Promise<Acquisitions> {
  const parts = partsOf(sides)
  const [first] = parts
  if (first !== undefined && parts.length === 1) return acquire(first.side, first.demands)
  return acquireParts([...sides.keys()], parts, acquire, settle)
}

async function acquireParts<Side> (
  demands: readonly Demand[],
  parts: readonly Part<Side>[],
  acquire: Acquire<Side>,
  settle: (side: Side, acquisition: Acquisition) => void
): Promise<Acquisitions> {
  await Promise.all(parts.map((part) => part.decide(acquire)))

  const failed = parts.find(({ acquisitions }) => acquisitions === null)
  const isRejected = parts.some(
    ({ acquisitions }) => acquisitions !== null && !haveRoom(acquisitions)
  )
  const isAdmitted = failed === undefined && !isRejected
  const decided = new Map<Demand, Acquisition | null>()
  for (const { side, demands: asked, acquisitions } of parts) {
    const isCountedInVain = !isAdmitted && acquisitions !== null && haveRoom(acquisitions)
    for (const [index, demand] of asked.entries()) {
      const acquisition = acquisitions?.[index] ?? null
      if (acquisition !== null && isCountedInVain) {
        settle(side, acquisition)
        decided.set(demand, withoutGrant(acquisition, demand))
      } else {
        decided.set(demand, acquisition)
      }
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

/** An acquisition whose request another side has rejected. */
function withoutGrant (acquisition: Acquisition, { isEstimate }: Demand): Acquisition {
  const { count, held, granted } = acquisition
  return {
    ...acquisition,
    count: Math.max(0, count - granted),
    held: Math.max(0, isEstimate ? held - granted : held),
    granted: 0
  }
}

/** Whether all demands of a request have room, in which case each is counted. */
export function haveRoom (acquisitions: Acquisitions): acquisitions is readonly Acquisition[] {
  for (const acquisition of acquisitions) {
    if (acquisition?.admitted !== true) return false
  }
  return true
}
