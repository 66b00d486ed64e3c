import { hasFunction, isPromise } from '../../errors.js'
import { MemoryQuotaStore } from '../memory/memory-store.js'
import { assertAcquisition, assertEntry, type Acquisition, type Entry, type QuotaCount, type QuotaStore, type QuotaStoreState } from '../store.js'
import { insuredStoreChanges, type InsuredQuotaStoreChange, type InsuredQuotaStoreState } from './changes.js'
import { CircuitBreaker } from './circuit-breaker.js'
import { assertInsuredOptions, type InsuredQuotaStoreOptions, type PrimaryQuotaStore } from './options.js'
import { ShardBreakers, type InsuredShards } from './shard-breakers.js'
import { TimeLimit } from '../time-limit.js'

// A function that a store lacks is not called, because the insured store then lacks it as well.
type Functions = Required<QuotaStore>
const optionalFunctions = ['quota', 'enter', 'peek', 'forget', 'clearCounters', 'inspect'] satisfies (keyof QuotaStore)[]

type Question<Answer> = (store: Functions) => Answer | Promise<Answer>

/** A question whose answer admits or rejects a request. */
interface Decision<Answer> {
  readonly ask: Question<Answer>
  readonly check: (answer: Answer) => void
  /** Receives an answer that comes after the other store was asked. */
  readonly late?: (answer: Answer) => void
}

/**
 * Uses a primary store, and a fallback store if the primary fails or does not answer within `timeout`. Every request is
 * counted by one of them. A late answer of the primary is ignored, and a place that it takes is given back. If the fallback fails as
 * well, the call fails. The store has the optional functions that both stores have.
 *
 * A stall of the process's own event loop is not a failure of the primary: an answer that has arrived by the end of the stall is used.
 *
 * Only `acquire` and `enter` change the state. After a failure, the primary is not called for `coolDown`. Then one request at a time tries
 * it again, while the fallback answers all others. The primary is used again as soon as its own server answers. A store on a server
 * can reject a caller from memory, in which case it answers synchronously although it otherwise returns promises. Such a rejection
 * is used but does not change the state. A wrapper around a primary must therefore return synchronous answers synchronously.
 *
 * A primary with a function `shardOf` fails and recovers by shard: the callers of the other shards are not affected. Each change of a
 * shard is published once on the diagnostics channel `fastify-llm-quota:insured-store`, and the plugin logs it.
 *
 * @throws {OptionError} If an option has an invalid value.
 *
 * @example
 * ```ts
 * import { Redis } from 'ioredis'
 * import { InsuredQuotaStore } from 'fastify-llm-quota'
 * import { RedisQuotaStore } from 'fastify-llm-quota/redis'
 *
 * // In a service, leave out lazyConnect: with it, the first request waits for the connection.
 * const redis = new Redis({ lazyConnect: true, maxRetriesPerRequest: 0 })
 * const store = new InsuredQuotaStore({ primary: new RedisQuotaStore({ client: redis }), timeout: 50 })
 * console.log(store.state) // primary
 * ```
 */
export class InsuredQuotaStore implements QuotaStore {
  /** The store that is used as long as it answers. */
  readonly primary: PrimaryQuotaStore
  /** The store that is used while the primary is unavailable. */
  readonly fallback: QuotaStore
  readonly #options: InsuredQuotaStoreOptions
  readonly #primary: Functions
  readonly #fallback: Functions
  // For each of the two stores.
  readonly #timeLimit: TimeLimit
  readonly #quotas = new Map<string, InsuredQuotaStore>()
  #breakers: ShardBreakers
  #primaryPromises = false

  constructor (options: InsuredQuotaStoreOptions) {
    assertInsuredOptions(options)
    const { primary, timeout = 100, coolDown = 1000, clock = () => performance.now(), timers } = options
    const { maxTrackedCallers } = primary
    const { fallback = new MemoryQuotaStore({ clock, ...(maxTrackedCallers !== undefined && { maxTrackedCallers }) }) } = options
    this.primary = primary
    this.fallback = fallback
    this.#options = options
    this.#primary = primary as Functions
    this.#fallback = fallback as Functions
    this.#timeLimit = new TimeLimit(fallback instanceof MemoryQuotaStore ? timeout : timeout / 2, clock, timers)
    this.#breakers = new ShardBreakers((callerKey) => primary.shardOf?.(callerKey) ?? 0, (shard) => new CircuitBreaker(coolDown, clock, (isOpen, error) => {
      const state = isOpen ? 'fallback' : 'primary'
      insuredStoreChanges.publish({ store: this, shard, state, error } satisfies InsuredQuotaStoreChange)
    }))
    for (const name of optionalFunctions) {
      if (!hasFunction(primary, name) || !hasFunction(fallback, name)) Object.defineProperty(this, name, { value: undefined })
    }
  }

  /** The store that currently answers. */
  get state (): InsuredQuotaStoreState {
    const { primary, fallback } = this.shards
    if (fallback.length === 0) return 'primary'
    return primary.length === 0 ? 'fallback' : 'both'
  }

  /** The shards of the primary that a call has reached, by the store that currently answers. A primary without shards has only shard 0. */
  get shards (): InsuredShards {
    return this.#breakers.shards
  }

  /** How many calls of `acquire` and `enter` each store has answered, in all quotas. */
  get answers (): Readonly<Record<'primary' | 'fallback', number>> {
    return this.#breakers.answers
  }

  acquire (callerKey: string, limit: number, cost?: number): Acquisition | Promise<Acquisition> {
    return this.#decide(callerKey, { ask: (store) => store.acquire(callerKey, limit, cost), check: assertAcquisition })
  }

  /** Returns the insured store of a named quota, which has the same state. */
  quota (name: string, window: number): InsuredQuotaStore {
    let quota = this.#quotas.get(name)
    if (quota === undefined) {
      quota = new InsuredQuotaStore({ ...this.#options, primary: this.#primary.quota(name, window), fallback: this.#fallback.quota(name, window) })
      quota.#breakers = this.#breakers
      this.#quotas.set(name, quota)
    }
    return quota
  }

  /** Takes a place from the store that currently answers. Its `leave` gives the place back to the same store and never fails. */
  enter (callerKey: string, limit: number): Entry | Promise<Entry> {
    const entry = this.#decide<Entry>(callerKey, { ask: (store) => store.enter(callerKey, limit), check: assertEntry, late: leave })
    return isPromise(entry) ? entry.then(withSafeLeave) : withSafeLeave(entry)
  }

  /** Reads a caller's count from the store that currently answers, or from the fallback if the primary fails or does not answer in time. */
  peek (callerKey: string): QuotaCount | null | Promise<QuotaCount | null> {
    return this.#read(this.#breakers.of(callerKey).isOpen, (store) => store.peek(callerKey))
  }

  /** Removes the caller's counter from both stores. Rejects if one of them fails or does not finish in time. */
  async forget (callerKey: string): Promise<void> {
    await this.#tellBoth((store) => store.forget(callerKey))
  }

  /** Clears both stores. Rejects if one of them fails or does not finish in time. Does not change the state. */
  async clearCounters (): Promise<void> {
    await this.#tellBoth((store) => store.clearCounters())
  }

  /** Inspects the primary, or the fallback if it answers for all callers, or if the primary fails or does not answer in time. */
  inspect (): QuotaStoreState | Promise<QuotaStoreState> {
    return this.#read(this.state === 'fallback', (store) => store.inspect())
  }

  #decide<Answer extends Acquisition | Entry> (callerKey: string, decision: Decision<Answer>): Answer | Promise<Answer> {
    const breaker = this.#breakers.of(callerKey)
    if (!breaker.allowsCall()) return this.#decideByFallback(decision)
    const { era } = breaker
    const accept = (answer: Answer, isAwaited: boolean): Answer => {
      decision.check(answer)
      // An admission proves that the server answered. A rejection that was not awaited may come from memory.
      if (isAwaited || answer.admitted || !this.#primaryPromises) breaker.succeeded(era)
      else breaker.provedNothing()
      this.#breakers.answers.primary += 1
      return answer
    }
    const fail = (error: unknown): Answer | Promise<Answer> => {
      breaker.failed(era, error)
      return this.#decideByFallback(decision)
    }
    try {
      const answer = decision.ask(this.#primary)
      if (!isPromise(answer)) return accept(answer, false)
      this.#primaryPromises = true
      return this.#timeLimit.within(answer, decision.late).then((answer) => accept(answer, true)).catch(fail)
    } catch (error) {
      return fail(error)
    }
  }

  #decideByFallback<Answer> ({ ask, check, late }: Decision<Answer>): Answer | Promise<Answer> {
    const accept = (answer: Answer): Answer => {
      check(answer)
      this.#breakers.answers.fallback += 1
      return answer
    }
    const answer = ask(this.#fallback)
    return isPromise(answer) ? this.#timeLimit.within(answer, late).then(accept) : accept(answer)
  }

  #read<Answer> (isPrimaryDown: boolean, question: Question<Answer>): Answer | Promise<Answer> {
    const askFallback = (): Answer | Promise<Answer> => {
      const answer = question(this.#fallback)
      return isPromise(answer) ? this.#timeLimit.within(answer) : answer
    }
    if (isPrimaryDown) return askFallback()
    try {
      const answer = question(this.#primary)
      return isPromise(answer) ? this.#timeLimit.within(answer).catch(askFallback) : answer
    } catch {
      return askFallback()
    }
  }

  // Both are called in the same turn of the event loop, so that no request comes between the two calls.
  async #tellBoth (task: (store: Functions) => void | Promise<void>): Promise<void> {
    const tell = async (store: Functions): Promise<void> => this.#timeLimit.within(task(store))
    await Promise.all([tell(this.#fallback), tell(this.#primary)])
  }
}

/** Gives a place back. An error is ignored: the request has ended, and a store on a server frees the place when its lease ends. */
async function leave (entry: Entry): Promise<void> {
  try {
    await entry.leave?.()
  } catch {}
}

function withSafeLeave (entry: Entry): Entry {
  return entry.admitted ? { admitted: true, count: entry.count, leave: () => leave(entry) } : entry
}
