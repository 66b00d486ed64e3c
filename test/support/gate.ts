import type { QuotaStore } from '../../lib/index.js'

/** Lets requests ask their store only when a test says so. */
export class Gate {
  #isOpen = true
  readonly #asking: (() => void)[] = []

  /** How many requests ask, and have not been let through. */
  get asking (): number {
    return this.#asking.length
  }

  /** Puts the gate in front of a store. */
  readonly wrap = (store: QuotaStore): QuotaStore => ({
    ...store,
    acquire: async (demands) => {
      if (!this.#isOpen) {
        await new Promise<void>((resolve) => {
          this.#asking.push(resolve)
        })
      }
      return store.acquire(demands)
    }
  })

  close (): void {
    this.#isOpen = false
  }

  open (): void {
    this.#isOpen = true
    for (const resolve of this.#asking.splice(0)) resolve()
  }
}
