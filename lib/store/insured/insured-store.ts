import { isThenable } from './thenable.js'
import { MemoryQuotaStore } from '../memory/memory-store.js'
import { assertAcquisition, type Acquisition, type QuotaCount, type QuotaStore, type QuotaStoreState } from '../store.js'
import { Changeover } from './changeover.js'
import { InsuredQuotaStoreChange, insuredStoreChanges, type InsuredQuotaStoreState } from './changes.js'
import { assertInsuredOptions, type InsuredQuotaStoreOptions } from './options.js'
import { TimeLimit } from './time-limit.js'
import { nodeTimers } from './timers.js'

type Question<Answer> = (store: QuotaStore) => Answer | Promise<Answer>

/**
 * Uses a primary store, and a fallback store if the primary fails or does not answer within `timeout`. Every request is
 * counted by one of them. A late answer of the primary is ignored. `timeout` also applies to a fallback that returns promises. If
 * the fallback fails, the call fails.
 *
 * A stall of the process's own event loop is not a failure of the primary: `timeout` does not run during a stall, and an answer
 * that arrived during the stall is used.
 *
 * Only `acquire` changes the state. After a failure, the primary is not called for `coolDown`. Then one request at a time tries it
 * again, while the fallback answers all others. The primary is used again as soon as its own server answers. A store on a server
 * can reject a caller from memory, in which case it answers synchronously although it otherwise returns promises. Such a rejection
 * is used but does not change the state. A wrapper around a primary must therefore return synchronous answers synchronously.
 *
 * Each change is published once on the diagnostics channel `fastify-llm-quota:insured-store`, and the plugin logs it.
 *
 * @throws {OptionError} If an option has an invalid value.
 *
 * @example
 * ```ts
 * import { Redis } from 'ioredis'
 * import { InsuredQuotaStore } from 'fastify-llm-quota'
 * import { RedisQuotaStore } from 'fastify-llm-quota/redis'
 *
 * const redis = new Redis({ lazyConnect: true, maxRetriesPerRequest: 0 })
 * const store = new InsuredQuotaStore({ primary: new RedisQuotaStore({ client: redis }), timeout: 50 })
 * console.log(store.state) // primary
 * ```
 */
export class InsuredQuotaStore implements QuotaStore {
  get primary (): QuotaStore { return this.#primary }
  readonly #primary: QuotaStore
  readonly #fallback: QuotaStore
  readonly #timeLimit: TimeLimit
  readonly #changeover: Changeover
  #primaryPromises = false

  constructor (options: InsuredQuotaStoreOptions) {
    const { primary, timeout = 100, coolDown = 1000, clock = () => performance.now(), timers = nodeTimers } = options
    const { fallback = new MemoryQuotaStore({ clock }) } = options
    assertInsuredOptions({ primary, fallback, timeout, coolDown, clock, timers })
    this.#primary = primary
    this.#fallback = fallback
    this.#timeLimit = new TimeLimit(timeout, clock, timers)
    this.#changeover = new Changeover(coolDown, clock, (state, error) => {
      insuredStoreChanges.publish(new InsuredQuotaStoreChange(this, state, error))
    })
  }

  /** The store that currently answers. */
  get state (): InsuredQuotaStoreState {
    return this.#changeover.state
  }

  acquire (callerKey: string, limit: number): Acquisition | Promise<Acquisition> {
    const question: Question<Acquisition> = (store) => store.acquire(callerKey, limit)
    if (!this.#changeover.mayAskPrimary()) return this.#askFallback(question)
    const { era } = this.#changeover
    try {
      const answer = question(this.#primary)
      if (isThenable(answer)) return this.#awaitPrimary(answer, question, era)
      this.#updateState(answer, era)
      return answer
    } catch (error) {
      this.#changeover.failed(era, error)
      return this.#askFallback(question)
    }
  }

  /** Reads a caller's count from the store that currently answers, or from the fallback if the primary fails or does not answer in time. */
  peek (callerKey: string): QuotaCount | null | Promise<QuotaCount | null> {
    return this.#read((store) => store.peek!(callerKey))
  }

  /** Removes the caller's counter from both stores. Rejects if one of them fails or does not finish in time. */
  async forget (callerKey: string): Promise<void> {
    await this.#tellBoth((store) => store.forget!(callerKey))
  }

  /** Clears both stores. Rejects if one of them fails or does not finish in time. Does not change the state. */
  async clearCounters (): Promise<void> {
    await this.#tellBoth((store) => store.clearCounters!())
  }

  /** Inspects the store that currently answers, or the fallback if the primary fails or does not answer in time. */
  inspect (): QuotaStoreState | Promise<QuotaStoreState> {
    return this.#read((store) => store.inspect!())
  }

  async #awaitPrimary (promise: PromiseLike<Acquisition>, question: Question<Acquisition>, era: number): Promise<Acquisition> {
    this.#primaryPromises = true
    try {
      const answer = await this.#timeLimit.within(promise)
      assertAcquisition(answer)
      this.#changeover.succeeded(era)
      return answer
    } catch (error) {
      this.#changeover.failed(era, error)
      return this.#askFallback(question)
    }
  }

  /** Updates the state after a synchronous answer. An admission proves that the server answered; a rejection may come from memory. */
  #updateState (answer: Acquisition, era: number): void {
    assertAcquisition(answer)
    if (this.#primaryPromises && !answer.admitted) this.#changeover.provedNothing()
    else this.#changeover.succeeded(era)
  }

  #read<Answer> (question: Question<Answer>): Answer | Promise<Answer> {
    if (this.state === 'fallback') return this.#askFallback(question)
    try {
      const answer = question(this.#primary)
      return isThenable(answer) ? this.#timeLimit.within(answer).catch(() => this.#askFallback(question)) : answer
    } catch {
      return this.#askFallback(question)
    }
  }

  #askFallback<Answer> (question: Question<Answer>): Answer | Promise<Answer> {
    const answer = question(this.#fallback)
    return isThenable(answer) ? this.#timeLimit.within(answer) : answer
  }

  // Both are called in the same turn of the event loop, so that no request comes between the two calls.
  async #tellBoth (task: (store: QuotaStore) => void | Promise<void>): Promise<void> {
    const inTime = async (store: QuotaStore): Promise<void> => this.#timeLimit.within(Promise.resolve(task(store)))
    await Promise.all([inTime(this.#fallback), inTime(this.#primary)])
  }
}
