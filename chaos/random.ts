/** Pseudorandom numbers from a seed (mulberry32). */
export class Random {
  #state: number

  constructor (seed: number) {
    this.#state = seed >>> 0
  }

  /** Returns an integer from a range that includes both ends. */
  integer (least: number, most: number): number {
    return least + Math.floor(this.#next() * (most - least + 1))
  }

  pick<Item>(items: readonly Item[]): Item {
    const item = items[this.integer(0, items.length - 1)]
    if (item === undefined) throw new RangeError('there is nothing to pick from')
    return item
  }

  shuffle<Item>(items: readonly Item[]): Item[] {
    return items
      .map((item) => ({ item, rank: this.#next() }))
      .sort((one, other) => one.rank - other.rank)
      .map(({ item }) => item)
  }

  #next (): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}
