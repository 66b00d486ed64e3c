import { randomBytes } from 'node:crypto'

/** The name of a call, which no other call has, of no process, and its number in its process. */
export interface CallName {
  readonly text: string
  readonly number: number
}

/** Gives calls and windows names that no other process gives. */
export class UniqueNames {
  readonly process = randomBytes(9).toString('base64url')
  #calls = 0
  #latestWindowId = randomId()

  callName (): CallName {
    this.#calls += 1
    return { text: `${this.process}:${this.#calls.toString(36)}`, number: this.#calls }
  }

  /**
   * Returns the first of so many ids for windows. An id of another process is one of 2^52, and only
   * the windows of one counter must differ. They stay below 2^53 for longer than any process lives.
   */
  windowIds (count: number): number {
    const first = this.#latestWindowId + 1
    this.#latestWindowId += count
    return first
  }
}

/** Returns a random integer below 2^52. */
function randomId (): number {
  return Number(randomBytes(8).readBigUInt64BE() >> 12n)
}
