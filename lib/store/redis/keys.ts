import type { QuotaCaller } from '../shared/driver.js'
import { storedName } from '../shared/stored-names.js'

/**
 * The version of the layout. It is in each key, so that no store reads what another version has
 * written: two versions count apart while a service is rolled out, and the old keys expire.
 */
const version = 'v9'

/**
 * The keys of a store. No name of counters or of a caller has a space, as it is stored.
 *
 * | key | what it has |
 * |---|---|
 * | `<root>windows:<counters>` | a hash: the counter of each row, as in layout.part.lua |
 * | `<root>places:<counters>` | a sorted set: each holder until the end of its latest place |
 * | `<root>places:<counters> <caller>` | a sorted set: the name of each place until its end |
 * | `<root>once:<name>` | the call that applied the settlement of that name |
 * | `<root>calls:<process>` | the number of the latest call of the process that settled |
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

  holders (counters: string): string {
    return `${this.root}places:${storedName(counters)}`
  }

  places ({ counters, callerKey }: QuotaCaller): string {
    return `${this.holders(counters)} ${storedName(callerKey)}`
  }

  once (name: string): string {
    return `${this.root}once:${name}`
  }

  calls (process: string): string {
    return `${this.root}calls:${process}`
  }
}
