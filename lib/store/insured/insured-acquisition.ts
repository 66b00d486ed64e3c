import { CopiedAcquisition } from '../copied-acquisition.js'
import type { Acquisition, QuotaStore } from '../store.js'

/** An acquisition of an insured store, which knows which store made it, and settles there. */
export class InsuredAcquisition extends CopiedAcquisition {
  readonly #store: QuotaStore
  readonly #made: Acquisition
  readonly #maker: QuotaStore | null

  /**
   * @param store The insured store.
   * @param made The acquisition of the store that made it.
   * @param maker That store; null if there is nothing to settle because another shard rejected the
   *   request.
   */
  constructor (store: QuotaStore, made: Acquisition, maker: QuotaStore | null) {
    super(made)
    this.#store = store
    this.#made = made
    this.#maker = maker
  }

  /** Whether this insured store has returned it. */
  isOf (store: QuotaStore): boolean {
    return this.#store === store
  }

  settle (used: number): void | Promise<void> {
    return this.#maker?.settle?.(this.#made, used)
  }

  /**
   * Settles with 0 without waiting. An error is ignored: what is not settled stays counted until
   * its window, or the place, ends.
   */
  async settleUnused (): Promise<void> {
    try {
      await this.settle(0)
    } catch {}
  }
}
