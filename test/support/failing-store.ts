import {
  MemoryQuotaStore,
  type Acquisition,
  type Demand,
  type QuotaStore,
  type Settled
} from '../../lib/index.js'

/** A store on a server: responds after a turn of the event loop, and fails as a test sets it. */
export class FailingStore implements QuotaStore {
  /** The function that fails from now on. */
  fails: 'acquire' | 'settle' | undefined
  /** How often the store was called. */
  calls = 0
  readonly #memory = new MemoryQuotaStore()

  async acquire (demands: readonly Demand[]): Promise<readonly Acquisition[]> {
    await this.#respond('acquire')
    return this.#memory.acquire(demands)
  }

  async settle (receipt: unknown, less: Settled): Promise<void> {
    await this.#respond('settle')
    this.#memory.settle(receipt, less)
  }

  async peek (demand: Demand) {
    return this.#memory.peek(demand)
  }

  async #respond (name: 'acquire' | 'settle'): Promise<void> {
    this.calls += 1
    await new Promise(setImmediate)
    if (this.fails === name) throw new Error('gone')
  }
}
