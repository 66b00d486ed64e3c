import { required } from './required.js'

/** What an `UnorderedList` can contain. It is in one list at a time. */
export interface Listed {
  /** Where the list has it; undefined if it is in none. */
  position: number | undefined
}

/**
 * A list to which each request adds something that it removes again, in whatever order.
 *
 * Not a set: of a set that changes with each request, V8 keeps alive what it has ever contained
 * until the next major garbage collection, because each table of the set refers to the one that has
 * replaced it. With a set of the open permits, a request on Redis took a quarter more CPU time;
 * with one of the calls that wait, a call of an insured store took twice as much.
 */
export class UnorderedList<Item extends Listed> {
  readonly #items: Item[] = []

  get length (): number {
    return this.#items.length
  }

  /** Returns a copy, so that each can be deleted. */
  all (): readonly Item[] {
    return [...this.#items]
  }

  add (item: Item): void {
    item.position = this.#items.push(item) - 1
  }

  /** Does nothing if the item is in no list. */
  delete (item: Item): void {
    const { position } = item
    if (position === undefined) return
    item.position = undefined
    const last = required(this.#items.pop(), 'the last item')
    if (last === item) return
    this.#items[position] = last
    last.position = position
  }
}
