import type { QuotaRedisClient } from './client.js'
import { Shard } from './shard.js'

const endOfDigest = /[0-9a-f]{8}$/

/** Assigns callers to shards, and divides the caller cap among the shards as evenly as possible. */
export class Shards {
  readonly #client: QuotaRedisClient
  readonly #keyPrefix: string
  readonly #count: number
  readonly #maxTrackedCallers: number
  readonly #clock: (() => number) | undefined
  readonly #shards = new Map<number, Shard>()

  constructor (client: QuotaRedisClient, keyPrefix: string, count: number, maxTrackedCallers: number, clock: (() => number) | undefined) {
    this.#client = client
    this.#keyPrefix = keyPrefix
    this.#count = count
    this.#maxTrackedCallers = maxTrackedCallers
    this.#clock = clock
  }

  of (callerKey: string): Shard {
    return this.#at(this.#count === 1 ? 0 : numberOf(callerKey) % this.#count)
  }

  all (): Shard[] {
    return Array.from({ length: this.#count }, (_, index) => this.#at(index))
  }

  #at (index: number): Shard {
    const made = this.#shards.get(index)
    if (made !== undefined) return made
    const maxTrackedCallers = Math.floor(this.#maxTrackedCallers / this.#count) + (index < this.#maxTrackedCallers % this.#count ? 1 : 0)
    // With the braces, the hash slot depends only on the shard's number.
    const shard = new Shard(this.#client, `${this.#keyPrefix}{${index}}:callers`, maxTrackedCallers, this.#clock)
    this.#shards.set(index, shard)
    return shard
  }
}

// The last bytes of a digest are evenly distributed. Any other key uses the sum of its characters.
function numberOf (callerKey: string): number {
  const [end] = endOfDigest.exec(callerKey) ?? []
  if (end !== undefined) return Number.parseInt(end, 16)
  let sum = 0
  for (let index = 0; index < callerKey.length; index++) sum += callerKey.charCodeAt(index)
  return sum
}
