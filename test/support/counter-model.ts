import type { Acquisition, QuotaCount } from '../../lib/index.js'

interface Entry { count: number, windowStart: number, lastSeen: number }

/**
 * An independent model of one quota of a store that follows the table under "Counter and window" in docs/rules.md row by row. Stores are compared
 * with it step by step.
 */
export class CounterModel {
  readonly #maxTrackedCallers: number
  readonly #window: number
  readonly #inFlight: string[] = []
  #entries = new Map<string, Entry>()
  #overflow: Entry | null = null
  #sweptAt: number | null = null
  #sweeps = 0

  constructor (maxTrackedCallers: number, window = 60_000) {
    this.#maxTrackedCallers = maxTrackedCallers
    this.#window = window
  }

  acquire (now: number, caller: string, limit: number, cost = 1): Acquisition {
    if (this.#sweptAt === null) this.#sweptAt = now
    if (now - this.#sweptAt >= 60_000) {
      this.#entries = new Map([...this.#entries].filter(([, entry]) => !(now - entry.lastSeen >= this.#window + 60_000)))
      this.#sweptAt = now
      this.#sweeps++
    }
    const known = this.#entries.get(caller)
    if (known !== undefined) return this.#step(known, now, limit, cost, false)
    if (this.#entries.size < this.#maxTrackedCallers) {
      const entry = { count: 0, windowStart: now, lastSeen: now }
      this.#entries.set(caller, entry)
      return this.#step(entry, now, limit, cost, false)
    }
    if (this.#overflow === null) this.#overflow = { count: 0, windowStart: now, lastSeen: now }
    return this.#step(this.#overflow, now, limit, cost, true)
  }

  /** Returns the standing of the caller as it would be after a due sweep. */
  peek (now: number, caller: string): QuotaCount | null {
    const sweepIsDue = this.#sweptAt !== null && now - this.#sweptAt >= 60_000
    const left = [...this.#entries].filter(([, entry]) => !sweepIsDue || !(now - entry.lastSeen >= this.#window + 60_000))
    const own = left.find(([name]) => name === caller)?.[1]
    const entry = own ?? (left.length < this.#maxTrackedCallers ? null : this.#overflow)
    if (entry === null || now - entry.windowStart >= this.#window) return null
    return { count: entry.count, windowRemaining: entry.windowStart + this.#window - now, overflow: own === undefined }
  }

  forget (caller: string): void {
    this.#entries.delete(caller)
  }

  clear (): void {
    this.#entries.clear()
    this.#overflow = null
    this.#sweptAt = null
    this.#sweeps = 0
  }

  inspect () {
    return { trackedCallers: this.#entries.size, sweeps: this.#sweeps }
  }

  enter (caller: string, limit: number): { admitted: boolean, count: number } {
    const admitted = this.#placesOf(caller) < limit
    if (admitted) this.#inFlight.push(caller)
    return { admitted, count: this.#placesOf(caller) }
  }

  leave (caller: string): void {
    this.#inFlight.splice(this.#inFlight.indexOf(caller), 1)
  }

  #placesOf (caller: string): number {
    return this.#inFlight.filter((each) => each === caller).length
  }

  #step (entry: Entry, now: number, limit: number, cost: number, overflow: boolean): Acquisition {
    const expired = now - entry.windowStart >= this.#window
    if (expired) Object.assign(entry, { count: 0, windowStart: now })
    const admitted = entry.count < limit
    if (admitted) entry.count = Math.min(entry.count + cost, Number.MAX_SAFE_INTEGER)
    entry.lastSeen = now
    return { admitted, count: entry.count, windowRemaining: entry.windowStart + this.#window - now, overflow }
  }
}
