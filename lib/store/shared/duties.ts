import type { Ended } from './ended.js'

/** The result of a duty: whether a settlement with `once` was the first, otherwise undefined. */
export type DutyResult = boolean | undefined

/** Something that a call must do before it decides. */
export interface Duty<Item> {
  item: Item
  /** Duties of one key are one. */
  readonly key: string
  /** The name of the counter that it changes. */
  readonly counter: string
  /** The age from which on it is not done any more. */
  readonly until: number
  readonly ended: Ended<DutyResult>[]
}

/** The duties of one kind that wait for a call. The oldest is the first. */
export class Duties<Item> {
  readonly #join: (older: Item, newer: Item) => Item
  #byKey = new Map<string, Duty<Item>>()
  #byCounter = new Map<string, Set<Duty<Item>>>()

  /** @param join Joins two duties of one key. */
  constructor (join: (older: Item, newer: Item) => Item) {
    this.#join = join
  }

  get size (): number {
    return this.#byKey.size
  }

  /** Whether a duty of the counter waits. */
  has (counter: string): boolean {
    return this.#byCounter.has(counter)
  }

  add (duty: Duty<Item>): void {
    const older = this.#byKey.get(duty.key)
    if (older === undefined) this.#insert(duty)
    else this.#joinTo(older, duty)
  }

  /** Adds duties of a call again of which nothing has run. They are older than all that wait. */
  addAgain (duties: readonly Duty<Item>[]): void {
    if (duties.length === 0) return
    const newer = [...this.#byKey.values()]
    this.#clear()
    for (const duty of duties) this.#insert(duty)
    for (const duty of newer) this.add(duty)
  }

  /** Removes and returns the oldest ones. */
  take (most: number): Duty<Item>[] {
    return this.#takeFrom(this.#byKey.values(), most)
  }

  /** Removes and returns the oldest ones of a counter. */
  takeOf (counter: string, most: number): Duty<Item>[] {
    return this.#takeFrom(this.#byCounter.get(counter) ?? [], most)
  }

  /** Removes and returns those whose time is over. */
  takeExpired (age: number): Duty<Item>[] {
    const expired: Duty<Item>[] = []
    for (const duty of this.#byKey.values()) {
      if (duty.until <= age) expired.push(duty)
    }
    return this.#takeFrom(expired, Infinity)
  }

  #insert (duty: Duty<Item>): void {
    this.#byKey.set(duty.key, duty)
    const ofCounter = this.#byCounter.get(duty.counter)
    if (ofCounter === undefined) this.#byCounter.set(duty.counter, new Set([duty]))
    else ofCounter.add(duty)
  }

  #joinTo (older: Duty<Item>, newer: Duty<Item>): void {
    older.item = this.#join(older.item, newer.item)
    older.ended.push(...newer.ended)
  }

  #takeFrom (duties: Iterable<Duty<Item>>, most: number): Duty<Item>[] {
    const taken: Duty<Item>[] = []
    for (const duty of duties) {
      if (taken.length >= most) break
      taken.push(duty)
    }
    for (const duty of taken) this.#remove(duty)
    // A map that changes with each request keeps alive what it has contained, as a set does: see
    // unordered-list.ts.
    if (this.#byKey.size === 0) this.#clear()
    return taken
  }

  #remove (duty: Duty<Item>): void {
    this.#byKey.delete(duty.key)
    const ofCounter = this.#byCounter.get(duty.counter)
    ofCounter?.delete(duty)
    if (ofCounter?.size === 0) this.#byCounter.delete(duty.counter)
  }

  #clear (): void {
    this.#byKey = new Map()
    this.#byCounter = new Map()
  }
}
