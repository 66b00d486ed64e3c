import type { Caller } from '../shared/driver.js'
import { storedName } from '../shared/stored-names.js'

/**
 * The version of the layout. It is in each key, so that no store reads what another version has
 * written: two versions count apart while a service is rolled out, and the old keys expire.
 */
const version = 'v7'

/** What the key of counters ends with to be that of when each of them is dead. */
export const deathsEnd = ' deaths'

/**
 * The keys of a store. No name of counters or of a caller has a space, as it is stored.
 *
 * | key | what it has |
 * |---|---|
 * | `<root>quotas` | a set: the keys of all counters and holders, for clear.lua |
 * | `<root>windows:<counters>` | a hash: the counter of each row, as in layout.part.lua |
 * | `<root>windows:<counters> deaths` | a sorted set: from when on each row is dead |
 * | `<root>places:<counters>` | a sorted set: each holder until the end of its latest place |
 * | `<root>places:<counters> <caller>` | a sorted set: the name of each place until its end |
 * | `<root>once:<name>` | nothing: a settlement of that name was applied |
 */
export class Keys {
  readonly #root: string

  /**
   * @param prefix The option `keyPrefix`. All keys begin with it, and are in the hash slot of its
   *   `{…}` or, without one, of the prefix.
   */
  constructor (prefix: string) {
    const inSlot = prefix.includes('{') ? prefix : `${prefix}{${prefix}}`
    this.#root = `${inSlot}${version}:`
  }

  get quotas (): string {
    return `${this.#root}quotas`
  }

  counters (counters: string): string {
    return `${this.#root}windows:${storedName(counters)}`
  }

  deaths (counters: string): string {
    return this.counters(counters) + deathsEnd
  }

  holders (counters: string): string {
    return `${this.#root}places:${storedName(counters)}`
  }

  places ({ counters, callerKey }: Caller): string {
    return `${this.holders(counters)} ${storedName(callerKey)}`
  }

  once (name: string): string {
    return `${this.#root}once:${name}`
  }
}
