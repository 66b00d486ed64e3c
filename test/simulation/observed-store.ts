// A store that tells the ledger what it is asked, and what it answers.
import type { Acquisition, Acquisitions, Demand, QuotaStore } from '../../lib/store/store.js'
import { demandOf, type Use } from './ledger.js'

/** A store that can settle. */
export type SettlingStore = QuotaStore & Required<Pick<QuotaStore, 'settle'>>

/** What was acquired for a use: its window, or its place. */
interface Acquired {
  readonly use: Use
  readonly isPlace: boolean
}

export class ObservedStore implements SettlingStore {
  /** How many settlements have failed. */
  failures = 0
  readonly #store: SettlingStore
  readonly #begin: (demands: readonly Demand[]) => Use
  readonly #acquired = new WeakMap<Acquisition, Acquired>()
  readonly #acquisitions = new Map<Use, readonly Acquisition[]>()

  /** @param begin Begins the use of which these are the demands. */
  constructor (store: SettlingStore, begin: (demands: readonly Demand[]) => Use) {
    this.#store = store
    this.#begin = begin
  }

  /** What was acquired for a use, in the order of its demands; empty if it was not admitted. */
  acquisitionsOf (use: Use): readonly Acquisition[] {
    return this.#acquisitions.get(use) ?? []
  }

  async acquire (demands: readonly Demand[]): Promise<Acquisitions> {
    const use = this.#begin(demands)
    try {
      const acquisitions = await this.#store.acquire(demands.map((each) => demandOf(each, use)))
      this.#note(use, demands, acquisitions)
      return acquisitions
    } catch (error) {
      if (use.state === 'asked') {
        use.state = 'failed'
        use.isUncertain = true
      }
      throw error
    }
  }

  async settle (acquisition: Acquisition, used: number, end: number | null): Promise<void> {
    const acquired = this.#acquired.get(acquisition)
    if (acquired === undefined) throw new Error('what is settled was not acquired')
    const { use, isPlace } = acquired
    if (!isPlace) use.reports.push(used)
    try {
      await this.#store.settle(acquisition, used, end)
    } catch (error) {
      this.failures += 1
      use.isUncertain = true
      throw error
    }
  }

  #note (use: Use, demands: readonly Demand[], acquisitions: Acquisitions): void {
    if (use.state !== 'asked') return
    if (!acquisitions.every((acquisition) => acquisition?.admitted === true)) {
      use.state = 'rejected'
      return
    }
    use.state = 'running'
    const admitted: Acquisition[] = []
    this.#acquisitions.set(use, admitted)
    for (const [index, acquisition] of acquisitions.entries()) {
      if (acquisition === null) continue
      admitted.push(acquisition)
      const isPlace = demands[index]?.window === null
      this.#acquired.set(acquisition, { use, isPlace })
      if (!isPlace) use.granted = acquisition.granted
    }
  }
}
