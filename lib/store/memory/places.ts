import type { Entry } from '../store.js'

/** The places that requests in flight take, by caller. A caller without requests in flight is not kept. */
export class Places {
  readonly #taken = new Map<string, number>()

  enter (callerKey: string, limit: number): Entry {
    const count = this.#taken.get(callerKey) ?? 0
    if (count >= limit) return { admitted: false, count }
    this.#taken.set(callerKey, count + 1)
    return { admitted: true, count: count + 1, leave: () => { this.#leave(callerKey) } }
  }

  #leave (callerKey: string): void {
    const count = this.#taken.get(callerKey) ?? 0
    if (count > 1) this.#taken.set(callerKey, count - 1)
    else this.#taken.delete(callerKey)
  }
}
