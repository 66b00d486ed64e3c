import type { Acquisition, QuotaStore, QuotaStoreState } from 'fastify-llm-quota'

/** Another store, and how long each of its answers took. */
export class TimedStore implements QuotaStore {
  readonly #store: QuotaStore
  readonly #observe: (seconds: number) => void

  constructor (store: QuotaStore, observe: (seconds: number) => void) {
    this.#store = store
    this.#observe = observe
  }

  acquire (callerKey: string, limit: number): Acquisition | Promise<Acquisition> {
    const started = performance.now()
    const done = (): void => { this.#observe((performance.now() - started) / 1000) }
    const answer = this.#store.acquire(callerKey, limit)
    if (answer instanceof Promise) return answer.finally(done)
    done()
    return answer
  }

  clearCounters (): void | Promise<void> {
    return this.#store.clearCounters()
  }

  inspect (): QuotaStoreState | Promise<QuotaStoreState> {
    return this.#store.inspect()
  }
}
