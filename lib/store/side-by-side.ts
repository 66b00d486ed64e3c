import { attempt, forAll, proceed } from '../promises.js'
import type { Acquisition, Acquisitions, Demand } from './store.js'

/** What one side, a store or a shard, has decided on in one step; null if it has failed. */
interface Part<Side> {
  readonly side: Side
  readonly asked: readonly Demand[]
  acquisitions: Acquisitions | null
  error?: unknown
}

/**
 * Decides on the demands of a request that several sides keep the counters of. Where one of them
 * rejects or fails, what the others have counted is given back.
 *
 * @param sides The side of each demand.
 * @param acquire Decides on the demands of one side in one step. Checks the result of a store that
 *   may not keep to the interface.
 * @param release Gives back what a demand has counted. Nobody waits for it, so it handles its own
 *   errors.
 * @returns One acquisition for each demand; null for those of a side that failed while another one
 *   rejected.
 * @throws What a side throws, if no other side rejects. A promise only if a side returned one.
 */
export function acquireSideBySide<Side> (
  demands: readonly Demand[],
  sides: readonly Side[],
  acquire: (side: Side, demands: readonly Demand[]) => Acquisitions | Promise<Acquisitions>,
  release: (side: Side, acquisition: Acquisition, amount: number) => void
): Acquisitions | Promise<Acquisitions> {
  const [first] = sides
  if (first !== undefined && sides.every((side) => side === first)) return acquire(first, demands)
  const parts = [...new Set(sides)].map((side): Part<Side> => ({
    side,
    asked: demands.filter((_demand, index) => sides[index] === side),
    acquisitions: null
  }))
  const decide = (part: Part<Side>): void | Promise<void> =>
    attempt<void>(
      () =>
        proceed(acquire(part.side, part.asked), (acquisitions) => {
          part.acquisitions = acquisitions
        }),
      (error) => {
        part.error = error
      }
    )
  return proceed(forAll(parts, decide), () => {
    const failed = parts.find(({ acquisitions }) => acquisitions === null)
    const isRejected = parts.some(
      ({ acquisitions }) => acquisitions !== null && !haveRoom(acquisitions)
    )
    const merged = demands.map((demand) => {
      const part = parts.find(({ asked }) => asked.includes(demand))
      const acquisition = part?.acquisitions?.[part.asked.indexOf(demand)]
      if (part?.acquisitions == null || acquisition == null) return null
      if ((failed === undefined && !isRejected) || !haveRoom(part.acquisitions)) return acquisition
      release(part.side, acquisition, demand.cost)
      return { ...acquisition, count: Math.max(0, acquisition.count - demand.cost) }
    })
    if (failed !== undefined && !isRejected) throw failed.error
    return merged
  })
}

/** Whether all demands of a part have room, in which case each is counted. */
export function haveRoom (acquisitions: Acquisitions): acquisitions is readonly Acquisition[] {
  return acquisitions.every((acquisition) => acquisition?.admitted === true)
}
