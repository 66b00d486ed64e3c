import { CircuitBreaker } from './circuit-breaker.js'

/** The numbers of the shards that a call has reached, by the store that answers their callers. */
export interface InsuredShards {
  /** The shards whose callers the primary counts. */
  readonly primary: readonly number[]
  /** The shards whose callers the fallback counts. */
  readonly fallback: readonly number[]
}

/** A circuit breaker for each shard of the primary. A store and its named quotas share them, because they share the server. */
export class ShardBreakers {
  /** How many calls of `acquire` and `enter` each store has answered. */
  readonly answers = { primary: 0, fallback: 0 }
  readonly #breakers = new Map<number, CircuitBreaker>()
  readonly #shardOf: (callerKey: string) => number
  readonly #create: (shard: number) => CircuitBreaker

  constructor (shardOf: (callerKey: string) => number, create: (shard: number) => CircuitBreaker) {
    this.#shardOf = shardOf
    this.#create = create
  }

  of (callerKey: string): CircuitBreaker {
    const shard = this.#shardOf(callerKey)
    let breaker = this.#breakers.get(shard)
    if (breaker === undefined) {
      breaker = this.#create(shard)
      this.#breakers.set(shard, breaker)
    }
    return breaker
  }

  get shards (): InsuredShards {
    const all = [...this.#breakers].sort(([one], [other]) => one - other)
    const numbers = (isOpen: boolean): number[] => all.filter(([, breaker]) => breaker.isOpen === isOpen).map(([shard]) => shard)
    return { primary: numbers(false), fallback: numbers(true) }
  }
}
