import type { Acquisition } from '../store/store.js'

/**
 * How many acquisitions of what was used beyond the grants can still be lowered. Of a permit that
 * reports more often, the earlier ones stay as they are.
 */
const mostBeyond = 16

/** An acquisition, and what the store counts for it now. */
export interface Part {
  readonly acquisition: Acquisition
  counts: number
}

/**
 * What the store counts for one permit in one quota: the grants, that is the admission and its
 * extensions, and what was used beyond them, for which acquisitions with the greatest limit are
 * made.
 */
export class CountedParts {
  readonly #grants: Part[] = []
  /** The grants that still hold what they count. */
  readonly #holding = new Set<Part>()
  readonly #beyond: Part[] = []
  #total = 0

  /** What is counted in all. */
  get total (): number {
    return this.#total
  }

  addGrant (acquisition: Acquisition): void {
    const grant = { acquisition, counts: acquisition.granted }
    this.#grants.push(grant)
    this.#holding.add(grant)
    this.#total += acquisition.granted
  }

  /**
   * Adds what the store is asked to count beyond the grants. It counts from now on, because it is
   * unknown whether a store that then fails has counted it.
   */
  expectBeyond (amount: number): void {
    this.#total += amount
  }

  /** Adds the acquisition of what was expected, which can be lowered from now on. */
  addBeyond (acquisition: Acquisition, amount: number): void {
    this.#beyond.push({ acquisition, counts: amount })
    if (this.#beyond.length > mostBeyond) this.#beyond.shift()
  }

  /**
   * Lowers what is counted to what is due: first what was used beyond the grants, and the latest
   * part first.
   *
   * @returns The parts that have changed, which the store must settle. They hold nothing any more.
   */
  lowerTo (due: number): Set<Part> {
    const changed = new Set<Part>()
    for (const parts of [this.#beyond, this.#grants]) {
      for (let part = parts.at(-1); part !== undefined; part = parts.at(-1)) {
        const excess = this.#total - due
        if (excess <= 0) return changed
        const less = Math.min(excess, part.counts)
        part.counts -= less
        this.#total -= less
        this.#holding.delete(part)
        changed.add(part)
        if (part.counts === 0) parts.pop()
      }
    }
    return changed
  }

  /** Returns the grants that still hold what they count. They hold nothing any more. */
  release (): readonly Part[] {
    const released = [...this.#holding]
    this.#holding.clear()
    return released
  }
}
