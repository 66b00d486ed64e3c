import { assertBoolean, assertFunction, checkThat, isNatural } from '../../option-checks.js'
import { wallClock } from '../../wall-clock.js'
import { nodeTimers, withTimeout } from '../../time-limit.js'
import {
  assertCallerKey,
  assertDemand,
  assertDemands,
  assertSettlement
} from '../argument-checks.js'
import type {
  Acquisitions,
  CallerPage,
  Demand,
  QuotaCount,
  QuotaStore,
  QuotaStoreState,
  Settled
} from '../store.js'
import { CallQueue } from './call-queue.js'
import type { Driver } from './driver.js'
import type { DutyResult } from './duties.js'
import { KnownRejections } from './known-rejections.js'
import { readReceipt, settlementOf } from './receipts.js'
import { RunningClock } from './running-clock.js'
import { longestCallTime, Sender } from './sender.js'
import { longestQueueTime } from './queued-requests.js'
import type { Ended } from './ended.js'

/** Options of a store on a server. */
export interface SharedQuotaStoreOptions {
  /**
   * The caller cap: how many callers can have a counter of their own in each quota. Default
   * `Infinity`: every caller has one.
   */
  readonly maxTrackedCallers?: number
  /**
   * Whether to reject, for up to a second and without asking the server, requests that are known to
   * have no room. Default true.
   */
  readonly rememberRejections?: boolean
  /** Returns monotonic milliseconds. Default: the server's clock. Replace it in tests. */
  readonly clock?: () => number
}

export const sharedChecks = {
  maxTrackedCallers: checkThat(
    'must be an integer of at least 1, or Infinity',
    (value) => value === Infinity || (isNatural(value) && value >= 1)
  ),
  rememberRejections: assertBoolean,
  clock: assertFunction
}

/** How long the server is asked for what is no decision, in milliseconds. */
const longestQuestion = longestQueueTime + longestCallTime

/**
 * Keeps the counters of quotas on a server that several processes share, through a driver for that
 * server.
 */
export class SharedStore implements QuotaStore {
  /** The caller cap: how many callers can have a counter of their own in each quota. */
  readonly maxTrackedCallers: number
  readonly #driver: Driver
  readonly #clock: () => number
  readonly #time: () => number | null
  readonly #queue: CallQueue
  readonly #sender: Sender
  #rejections: KnownRejections | undefined

  constructor (options: SharedQuotaStoreOptions, driver: Driver) {
    const { maxTrackedCallers = Infinity, rememberRejections = true, clock } = options
    this.maxTrackedCallers = maxTrackedCallers
    this.#driver = driver
    const monotonic = (): number => performance.now()
    this.#clock = clock ?? monotonic
    this.#time = () => (clock === undefined ? null : Math.floor(clock()))
    const running = new RunningClock(monotonic, nodeTimers)
    this.#queue = new CallQueue({
      mostDemands: driver.mostDemands,
      hasJournal: driver.hasJournal,
      canRepeat: driver.canRepeat,
      ages: running.now,
      recall: (demands) => this.#rejections?.recall(demands) ?? null,
      onGivenBack: (counters, row) => this.#rejections?.drop(counters, row)
    })
    this.#rejections = rememberRejections ? this.#createRejections() : undefined
    this.#sender = new Sender({
      driver,
      queue: this.#queue,
      running,
      clock: this.#clock,
      time: this.#time
    })
  }

  /**
   * Returns a value if the request is rejected from memory, so that a flood takes no turns of the
   * event loop, and otherwise a promise. The demands of a request that waits (`isWaiting`) are not
   * rejected from memory.
   */
  acquire (demands: readonly Demand[]): Acquisitions | Promise<Acquisitions> {
    assertDemands(demands)
    for (const demand of demands) this.#driver.assertStorable?.(demand)
    const rejections = this.#rejections
    const known = rejections?.recall(demands) ?? rejections?.recallAsked(demands)
    return known ?? this.#ask(demands)
  }

  /**
   * As `QuotaStore.settle`. A settlement that may not have been applied rejects and is not sent
   * again; one with `once` can be tried again. Freeing a place takes no text for `once`.
   */
  async settle (receipt: unknown, less: Settled, once?: string): Promise<void | boolean> {
    assertSettlement(less, once)
    const read = readReceipt(receipt)
    if (read.kind === 'place') {
      if (once !== undefined) throw new TypeError('a place cannot be settled with a text')
      if (less.count === 0) return
      await this.#giveBack((ended) => {
        this.#queue.addFreed(read.place, ended)
      })
      return
    }
    const hasNothing = less.count === 0 && less.held === 0
    if (hasNothing && once === undefined) return
    const settlement = settlementOf(read.counted, less, once ?? null)
    return await this.#giveBack((ended) => {
      this.#queue.addSettlement(settlement, ended)
    })
  }

  /** As `QuotaStore.peek`. What is asked in one moment shares a call, and equal ones are one. */
  async peek (demand: Demand): Promise<QuotaCount | null> {
    assertDemand(demand)
    this.#driver.assertStorable?.(demand)
    return await new Promise((resolve, reject) => {
      this.#queue.addStanding(demand, { resolve, reject })
      this.#sender.wake()
    })
  }

  async forget (counters: string, callerKey: string): Promise<void> {
    assertCallerKey(callerKey)
    await this.#removeCounters(this.#driver.forget(counters, callerKey, this.#time()))
  }

  async list (counters: string, cursor?: string): Promise<CallerPage> {
    const page = this.#driver.list(counters, cursor ?? null, this.#time(), wallClock())
    return await withTimeout(longestQuestion, page)
  }

  async inspect (counters: string): Promise<QuotaStoreState> {
    return await withTimeout(longestQuestion, this.#driver.inspect(counters, this.#time()))
  }

  /**
   * As `QuotaStore.clearCounters`. Other processes that hold places take them again with their next
   * renewal, within 11 s, and a call that is under way can still count.
   */
  clearCounters (): Promise<void> {
    this.#queue.dropPlaces()
    return this.#removeCounters(this.#driver.clear(this.#time()))
  }

  #createRejections (): KnownRejections {
    return new KnownRejections(this.#queue, this.#clock)
  }

  /** @param add Adds to the queue what was given back. */
  #giveBack (add: (ended: Ended<DutyResult>) => void): Promise<DutyResult> {
    return new Promise((resolve, reject) => {
      add({ resolve, reject })
      this.#sender.wake()
    })
  }

  /**
   * Asks the server. `forget` and `clearCounters` replace what is known, so a reply that is older
   * than such a call is not remembered.
   */
  #ask (demands: readonly Demand[]): Promise<Acquisitions> {
    const rejections = this.#rejections
    rejections?.asks(demands)
    return new Promise((resolve, reject) => {
      this.#queue.addRequest(demands, {
        resolve: (decided) => {
          rejections?.answered(demands, decided)
          resolve(decided.acquisitions)
        },
        reject: (error) => {
          rejections?.failed(demands)
          reject(error)
        }
      })
      this.#sender.wake()
    })
  }

  /**
   * Awaits a call that removes counters. Replaces what is remembered before and after it, because
   * replies that arrive in the meantime can be older than the call.
   */
  async #removeCounters (call: Promise<unknown>): Promise<void> {
    const startAnew = (): void => {
      this.#rejections &&= this.#createRejections()
    }
    startAnew()
    await withTimeout(longestQuestion, call).finally(startAnew)
  }
}
