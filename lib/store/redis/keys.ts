import { storedName } from '../shared/stored-names.js'

/**
 * The version of the layout. It is in each key, so that no store reads what another version has
 * written: two versions count apart while a service is rolled out, and the old keys expire.
 */
const version = 'v9'

/**
 * The keys of a store. `<counters>` is a stored name.
 *
 * | key | what it has |
 * |---|---|
 * | `<root>windows:<counters>` | a hash: the counter of each row, as in layout.part.lua |
 * | `<root>places:<counters>` | a hash: the places of each caller, as in layout.part.lua |
 * | `<root>once:<name>` | nothing: a settlement of that name was applied |
 */
export class Keys {
  /** What all keys begin with. */
  readonly root: string

  /**
   * @param prefix The option `keyPrefix`. All keys begin with it, and are in the hash slot of its
   *   `{…}` or, without one, of the prefix.
   */
  constructor (prefix: string) {
    const inSlot = prefix.includes('{') ? prefix : `${prefix}{${prefix}}`
    this.root = `${inSlot}${version}:`
  }

  counters (counters: string): string {
    return `${this.root}windows:${storedName(counters)}`
  }

  places (counters: string): string {
    return `${this.root}places:${storedName(counters)}`
  }

  once (name: string): string {
    return `${this.root}once:${name}`
  }
}
