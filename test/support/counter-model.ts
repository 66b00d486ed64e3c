import type { Acquisition, QuotaCount } from '../../lib/index.js'

interface Entry { count: number, windowStart: number, lastSeen: number }

/**
 * An independent model of a store that follows the table under "Counter and window" in docs/rules.md row by row. Stores are compared
 * with it step by step.
 */
export class CounterModel {
  readonly #maxTrackedCallers: number
  #entries = new Map<string, Entry>()
  #overflow: Entry | null = null
  #sweptAt: number | null = null
  #sweeps = 0

  constructor (maxTrackedCallers: number) {
    this.#maxTrackedCallers = maxTrackedCallers
  }

  acquire (now: number, caller: string, limit: number): Acquisition {
    if (this.#sweptAt === null) this.#sweptAt = now
    if (now - this.#sweptAt >= 60_000) {
      this.#entries = new Map([...this.#entries].filter(([, entry]) => !(now - entry.lastSeen >= 120_000)))
      this.#sweptAt = now
      this.#sweeps++
    }
    const known = this.#entries.get(caller)
    if (known !== undefined) return step(known, now, limit, false)
    if (this.#entries.size < this.#maxTrackedCallers) {
      const entry = { count: 0, windowStart: now, lastSeen: now }
      this.#entries.set(caller, entry)
      return step(entry, now, limit, false)
    }
    if (this.#overflow === null) this.#overflow = { count: 0, windowStart: now, lastSeen: now }
    return step(this.#overflow, now, limit, true)
  }

  /** Returns the standing of the caller as it would be after a due sweep. */
  peek (now: number, caller: string): QuotaCount | null {
    const sweepIsDue = this.#sweptAt !== null && now - this.#sweptAt >= 60_000
    const left = [...this.#entries].filter(([, entry]) => !sweepIsDue || !(now - entry.lastSeen >= 120_000))
    const own = left.find(([name]) => name === caller)?.[1]
    const entry = own ?? (left.length < this.#maxTrackedCallers ? null : this.#overflow)
    if (entry === null || now - entry.windowStart >= 60_000) return null
    return { count: entry.count, windowRemaining: entry.windowStart + 60_000 - now, overflow: own === undefined }
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
}

function step (entry: Entry, now: number, limit: number, overflow: boolean): Acquisition {
  const expired = now - entry.windowStart >= 60_000
  if (expired) Object.assign(entry, { count: 0, windowStart: now })
  const admitted = entry.count < limit
  if (admitted) entry.count++
  entry.lastSeen = now
  return { admitted, count: entry.count, windowRemaining: entry.windowStart + 60_000 - now, overflow }
}
