// A store that tells the ledger what it is asked, and what it answers.
import type { Acquisition, Acquisitions, Demand, QuotaStore } from '../../lib/store/store.js'
import { isUnlimited, type Use } from './ledger.js'

/** A store that can settle. */
export type SettlingStore = QuotaStore & Required<Pick<QuotaStore, 'settle'>>

/** What was acquired for a request: of its window, or its place. */
interface Acquired {
  readonly use: Use
  readonly isPlace: boolean
}

export class ObservedStore implements SettlingStore {
  /** How often its user was told that what is counted may be wrong. */
  failures = 0
  /** The requests to this store. */
  readonly uses: Use[] = []
  readonly #store: SettlingStore
  readonly #begin: (demands: readonly Demand[]) => Use
  readonly #acquired = new Map<Acquisition, Acquired>()

  /** @param begin Begins the request of which these are the demands. */
  constructor (store: SettlingStore, begin: (demands: readonly Demand[]) => Use) {
    this.#store = store
    this.#begin = begin
  }

  /** Settles what a request was granted of a window, and frees its place. */
  async settleUse (use: Use, used: number): Promise<void> {
    const found = [...this.#acquired].filter(([, each]) => each.use === use)
    await Promise.all(
      found.map(([acquisition, { isPlace }]) => this.settle(acquisition, isPlace ? 0 : used))
    )
  }

  async acquire (demands: readonly Demand[]): Promise<Acquisitions> {
    const use = this.#begin(demands)
    this.uses.push(use)
    try {
      const acquisitions = await this.#store.acquire(demands)
      this.#note(use, demands, acquisitions)
      return acquisitions
    } catch (error) {
      use.state = 'failed'
      if (isUnlimited(use.tokens)) this.failures += 1
      throw error
    }
  }

  async settle (acquisition: Acquisition, used: number): Promise<void> {
    const acquired = this.#acquired.get(acquisition)
    if (acquired === undefined) throw new Error('what is settled was not acquired')
    const { use, isPlace } = acquired
    if (isPlace) use.isRunning = false
    else use.used = Math.min(use.used, used)
    try {
      await this.#store.settle(acquisition, used)
    } catch (error) {
      this.failures += 1
      use.isUncertain = true
      throw error
    }
  }

  #note (use: Use, demands: readonly Demand[], acquisitions: Acquisitions): void {
    if (!acquisitions.every((acquisition) => acquisition?.admitted === true)) {
      use.state = 'rejected'
      return
    }
    use.state = 'admitted'
    for (const [index, acquisition] of acquisitions.entries()) {
      if (acquisition === null) continue
      const isPlace = demands[index]?.window === null
      this.#acquired.set(acquisition, { use, isPlace })
      if (isPlace) use.isRunning = true
      else use.granted = acquisition.granted
    }
  }
}
