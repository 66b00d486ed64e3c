import { channel } from 'node:diagnostics_channel'
import { OptionError, shown } from './errors.js'
import { MemoryQuotaStore } from './memory-store.js'
import { assertStore, type Acquisition, type QuotaStore, type QuotaStoreState } from './store.js'
import { isThenable } from './thenable.js'

/**
 * What an `InsuredQuotaStore` can be told.
 *
 * @example
 * ```ts
 * import { InsuredQuotaStore, MemoryQuotaStore, type InsuredQuotaStoreOptions } from 'fastify-llm-quota'
 *
 * const options: InsuredQuotaStoreOptions = {
 *   primary: new MemoryQuotaStore(), // in earnest a RedisQuotaStore
 *   fallback: new MemoryQuotaStore({ maxTrackedCallers: 2_000 }),
 *   timeout: 50,
 *   coolDown: 5_000
 * }
 * console.log(new InsuredQuotaStore(options).state) // primary
 * ```
 */
export interface InsuredQuotaStoreOptions {
  /** The store that is asked as long as it answers. */
  readonly primary: QuotaStore
  /** The store that answers in its place. Default: a new `MemoryQuotaStore`. */
  readonly fallback?: QuotaStore
  /** How long the primary has to answer, in milliseconds. Default 100. */
  readonly timeout?: number
  /** How long the primary rests after it failed, in milliseconds, before one request tries it again. Default 1000. */
  readonly coolDown?: number
}

/**
 * Which store answers.
 *
 * @example
 * ```ts
 * import type { InsuredQuotaStoreState } from 'fastify-llm-quota'
 *
 * // As the value of a gauge.
 * function primaryAnswers (state: InsuredQuotaStoreState): number {
 *   return state === 'primary' ? 1 : 0
 * }
 *
 * console.log(primaryAnswers('fallback')) // 0
 * ```
 */
export type InsuredQuotaStoreState = 'primary' | 'fallback'

/**
 * A message about an insured store that changed over.
 *
 * @example
 * ```ts
 * import { subscribe } from 'node:diagnostics_channel'
 * import { InsuredQuotaStore, type InsuredQuotaStoreChange, type QuotaStore } from 'fastify-llm-quota'
 *
 * subscribe('fastify-llm-quota:insured-store', (message) => {
 *   const { state, error } = message as InsuredQuotaStoreChange
 *   console.log(`the ${state} answers`, error instanceof Error ? error.message : '')
 * })
 *
 * const failing: QuotaStore = {
 *   acquire () { throw new Error('no connection') },
 *   clearCounters () {},
 *   inspect: () => ({ trackedCallers: 0, sweeps: 0 })
 * }
 * await new InsuredQuotaStore({ primary: failing }).acquire('a digest', 10) // the fallback answers no connection
 * ```
 */
export class InsuredQuotaStoreChange {
  /** The store that changed over. */
  readonly store: InsuredQuotaStore
  /** Which store answers from now on. */
  readonly state: InsuredQuotaStoreState
  /** Why the primary is not asked any more; undefined when it is asked again. */
  readonly error: unknown

  constructor (store: InsuredQuotaStore, state: InsuredQuotaStoreState, error: unknown) {
    this.store = store
    this.state = state
    this.error = error
  }
}

// The longest delay that a timer of Node takes.
const longestTimer = 2 ** 31 - 1

/** Each change of an insured store, once: a channel of `node:diagnostics_channel`. */
export const insuredStoreChanges = channel('fastify-llm-quota:insured-store')

/**
 * Asks one store, and another in its place while the first fails or does not answer in time. No request waits longer
 * than `timeout`, and none is admitted unmetered. Late answers are dropped.
 *
 * Each change of store is published once on the diagnostics channel `fastify-llm-quota:insured-store`; the plugin logs it.
 *
 * @throws {OptionError} When an option cannot be used.
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
  readonly #primary: QuotaStore
  readonly #fallback: QuotaStore
  readonly #timeout: number
  readonly #coolDown: number
  #state: InsuredQuotaStoreState = 'primary'
  #restsUntil = 0
  #isBeingTried = false
  // Counts the changes, so that an answer that was asked for before the latest one changes nothing.
  #era = 0

  constructor ({ primary, fallback = new MemoryQuotaStore(), timeout = 100, coolDown = 1000 }: InsuredQuotaStoreOptions) {
    assertStore('primary', primary)
    assertStore('fallback', fallback)
    assertMilliseconds('timeout', timeout)
    assertMilliseconds('coolDown', coolDown)
    this.#primary = primary
    this.#fallback = fallback
    this.#timeout = timeout
    this.#coolDown = coolDown
  }

  /** Which store answers now. */
  get state (): InsuredQuotaStoreState {
    return this.#state
  }

  acquire (callerKey: string, limit: number): Acquisition | Promise<Acquisition> {
    return this.#ask((store) => store.acquire(callerKey, limit))
  }

  /** Clears both stores; it rejects where the primary cannot be cleared in time. */
  async clearCounters (): Promise<void> {
    await this.#fallback.clearCounters()
    await this.#inTime(this.#primary.clearCounters())
  }

  inspect (): QuotaStoreState | Promise<QuotaStoreState> {
    return this.#ask((store) => store.inspect())
  }

  #ask<Answer extends object> (question: (store: QuotaStore) => Answer | Promise<Answer>): Answer | Promise<Answer> {
    if (this.#isResting()) return question(this.#fallback)
    const era = this.#era
    try {
      const answer = question(this.#primary)
      if (isThenable(answer)) return this.#await(answer, question, era)
      this.#succeeded(era)
      return answer
    } catch (error) {
      this.#failed(era, error)
      return question(this.#fallback)
    }
  }

  async #await<Answer extends object> (promise: PromiseLike<Answer>, question: (store: QuotaStore) => Answer | Promise<Answer>, era: number): Promise<Answer> {
    try {
      const answer = await this.#inTime(promise)
      this.#succeeded(era)
      return answer
    } catch (error) {
      this.#failed(era, error)
      return question(this.#fallback)
    }
  }

  async #inTime<Answer> (answer: Answer | PromiseLike<Answer>): Promise<Answer> {
    let timer: NodeJS.Timeout | undefined
    const deadline = new Promise<never>((_resolve, reject) => {
      timer = setTimeout(() => { reject(new Error(`no answer within ${this.#timeout} ms`)) }, this.#timeout).unref()
    })
    try {
      return await Promise.race([answer, deadline])
    } finally {
      clearTimeout(timer)
    }
  }

  /** Whether the primary is left alone; when its rest is over, the request that asks first may try it. */
  #isResting (): boolean {
    if (this.#state === 'primary') return false
    if (this.#isBeingTried || performance.now() < this.#restsUntil) return true
    this.#isBeingTried = true
    return false
  }

  #succeeded (era: number): void {
    if (era === this.#era && this.#state === 'fallback') this.#change('primary')
  }

  #failed (era: number, error: unknown): void {
    if (era !== this.#era) return
    this.#restsUntil = performance.now() + this.#coolDown
    this.#isBeingTried = false
    if (this.#state === 'primary') this.#change('fallback', error)
  }

  #change (state: InsuredQuotaStoreState, error?: unknown): void {
    this.#state = state
    this.#era += 1
    this.#isBeingTried = false
    insuredStoreChanges.publish(new InsuredQuotaStoreChange(this, state, error))
  }
}

function assertMilliseconds (name: string, value: unknown): void {
  if (typeof value !== 'number' || !(value > 0) || value > longestTimer) {
    throw new OptionError(name, `must be a number of milliseconds above 0, at most ${longestTimer}`, shown(value))
  }
}
