import { TimeLimit } from '../store/insured/time-limit.js'
import { nodeTimers } from '../store/insured/timers.js'
import type { QuotaStore, QuotaStoreState } from '../store/store.js'

// How long `inspect` may take, in milliseconds. The collection of all metrics waits for it.
const longestInspection = 500

/** Calls `inspect` of the stores and adds up the results. */
export class StoreInspection {
  readonly #stores: () => readonly QuotaStore[]
  readonly #timeLimit = new TimeLimit(longestInspection, () => performance.now(), nodeTimers)
  #running: Promise<QuotaStoreState> | undefined

  constructor (stores: () => readonly QuotaStore[]) {
    this.#stores = stores
  }

  /** Rejects if a store fails or does not answer in time. Gauges that are collected together share one inspection. */
  async inspect (): Promise<QuotaStoreState> {
    this.#running ??= this.#inspectAll().finally(() => { this.#running = undefined })
    return await this.#running
  }

  async #inspectAll (): Promise<QuotaStoreState> {
    const states = await Promise.all(this.#stores().map(async (store) => await this.#timeLimit.within(Promise.resolve(store.inspect!()))))
    return states.reduce((sum, { trackedCallers, sweeps }) => {
      return { trackedCallers: sum.trackedCallers + trackedCallers, sweeps: sum.sweeps + sweeps }
    }, { trackedCallers: 0, sweeps: 0 })
  }
}
