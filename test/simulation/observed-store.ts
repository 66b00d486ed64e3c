// A store that tells the ledger what it is asked, and what it answers.
import type { Acquisitions, Demand, QuotaStore, Settled } from '../../lib/store/store.js'
import { isUnlimited, type Use } from './ledger.js'

/** A store that can settle. */
export type SettlingStore = QuotaStore & Required<Pick<QuotaStore, 'settle'>>

/** A receipt of an `ObservedStore`: of a window of a request, or of its place. */
class ObservedReceipt {
  constructor (
    readonly use: Use,
    readonly isPlace: boolean,
    readonly receipt: unknown
  ) {}
}

export class ObservedStore implements SettlingStore {
  /** How often its user was told that what is counted may be wrong. */
  failures = 0
  /** The requests to this store. */
  readonly uses: Use[] = []
  readonly #store: SettlingStore
  readonly #begin: (demands: readonly Demand[]) => Use
  readonly #receipts: ObservedReceipt[] = []

  /** @param begin Begins the request of which these are the demands. */
  constructor (store: SettlingStore, begin: (demands: readonly Demand[]) => Use) {
    this.#store = store
    this.#begin = begin
  }

  /** Settles what a request was granted of a window, and frees its place. */
  async settleUse (use: Use, used: number): Promise<void> {
    const counted = Math.min(use.granted, use.used)
    const held = use.used === Infinity ? use.granted : 0
    const less = { count: Math.max(0, counted - used), held }
    const found = this.#receipts.filter((each) => each.use === use)
    await Promise.all(
      found.map((each) => this.settle(each, each.isPlace ? { count: 1, held: 1 } : less))
    )
  }

  async acquire (demands: readonly Demand[]): Promise<Acquisitions> {
    const use = this.#begin(demands)
    this.uses.push(use)
    try {
      return this.#noted(use, demands, await this.#store.acquire(demands))
    } catch (error) {
      use.state = 'failed'
      if (isUnlimited(use.tokens)) this.failures += 1
      throw error
    }
  }

  async settle (receipt: unknown, less: Settled): Promise<void> {
    if (!(receipt instanceof ObservedReceipt)) throw new Error('what is settled was not acquired')
    const { use, isPlace } = receipt
    if (isPlace) use.isRunning = false
    else use.used = Math.min(use.granted, use.used) - less.count
    try {
      await this.#store.settle(receipt.receipt, less)
    } catch (error) {
      this.failures += 1
      use.isUncertain = true
      throw error
    }
  }

  /** Returns the acquisitions with receipts of this store. */
  #noted (use: Use, demands: readonly Demand[], acquisitions: Acquisitions): Acquisitions {
    if (!acquisitions.every((acquisition) => acquisition?.admitted === true)) {
      use.state = 'rejected'
      return acquisitions
    }
    use.state = 'admitted'
    return acquisitions.map((acquisition, index) => {
      if (acquisition === null) return null
      const isPlace = demands[index]?.window === null
      if (isPlace) use.isRunning = true
      else use.granted = acquisition.granted
      const receipt = new ObservedReceipt(use, isPlace, acquisition.receipt)
      this.#receipts.push(receipt)
      return { ...acquisition, receipt }
    })
  }
}
