/** A part of the callers, which has its share of the cap and an overflow counter of its own. */
export interface Shard {
  /** The keys of its counters and of their order; one hash slot of a cluster holds both. */
  readonly keys: readonly [counters: string, order: string]
  readonly maxTrackedCallers: number
}

/** Divides the callers over shards, and the cap among these as evenly as it goes. */
export class Shards {
  readonly #keyPrefix: string
  readonly #count: number
  readonly #maxTrackedCallers: number

  constructor (keyPrefix: string, count: number, maxTrackedCallers: number) {
    this.#keyPrefix = keyPrefix
    this.#count = count
    this.#maxTrackedCallers = maxTrackedCallers
  }

  /** The shard that a caller belongs to; digests spread evenly by their last bytes. */
  of (caller: Buffer): Shard {
    return this.#at(caller.readUInt32BE(caller.length - 4) % this.#count)
  }

  all (): Shard[] {
    return Array.from({ length: this.#count }, (_, index) => this.#at(index))
  }

  #at (index: number): Shard {
    return {
      keys: [`${this.#keyPrefix}{${index}}:counters`, `${this.#keyPrefix}{${index}}:order`],
      maxTrackedCallers: Math.floor(this.#maxTrackedCallers / this.#count) + (index < this.#maxTrackedCallers % this.#count ? 1 : 0)
    }
  }
}

const digest = /^[0-9a-f]{64}$/

/** A caller's digest as the server keeps it: its 32 bytes. Another key is kept as it is, apart from every digest. */
export function packCaller (callerKey: string): Buffer {
  return digest.test(callerKey) ? Buffer.from(callerKey, 'hex') : Buffer.from(`key:${callerKey}`)
}
