import { ok } from 'node:assert/strict'
import { localAuthentication } from '../caller/authentication.js'
import { callerKey } from '../caller/caller-key.js'
import { required } from '../required.js'
import { counterRetention, unlimited } from '../store/counter.js'
import type { CallerCount, Demand } from '../store/store.js'
import { StoreCall, peek, request, settle, type Steps } from './steps.js'

/** In milliseconds. */
export const minute = 60_000
export const hour = 3_600_000
export const day = 86_400_000

/** Takes the place of the window's length in a quota of concurrent requests. */
const concurrent = Infinity

/**
 * Callers of a shard: as many as it tracks, some that use its overflow counter meanwhile, all of
 * these, and as many more as it tracks.
 */
export type Callers = Readonly<
  Record<'tracked' | 'overflowing' | 'all' | 'later', readonly number[]>
>

/**
 * A quota in a store under test: creates the calls for its counters. Callers are numbers. Times are
 * in milliseconds.
 */
export class TestQuota {
  /** How long a counter is kept after its last request. */
  readonly retention: number

  /**
   * @param start When the day of a time zone begins, in milliseconds since the epoch.
   * @param end When it ends.
   */
  constructor (
    readonly counters: string,
    readonly window: number,
    readonly start: number | null = null,
    readonly end: number | null = null
  ) {
    this.retention = counterRetention(window)
  }

  /** A demand of exactly a cost. */
  demand (number: number, limit = unlimited, cost = 1): Demand {
    return {
      counters: this.counters,
      callerKey: keyOf(number),
      limit,
      least: cost,
      most: cost,
      isEstimate: this.window === concurrent,
      window: this.window === concurrent ? null : this.window,
      start: this.start,
      end: this.end
    }
  }

  acquire (number: number, limit?: number, cost?: number): StoreCall {
    return request(this.demand(number, limit, cost))
  }

  /** A request of each caller. */
  visit (numbers: readonly number[], limit?: number, cost?: number): StoreCall[] {
    return numbers.map((number) => this.acquire(number, limit, cost))
  }

  /** A request whose cost is an estimate, which is held until it is settled. */
  hold (number: number, least: number, most = least, limit = unlimited): StoreCall {
    return request({ ...this.demand(number, limit), least, most, isEstimate: true })
  }

  peek (...numbers: readonly number[]): StoreCall[] {
    return numbers.map((number) => peek(this.demand(number)))
  }

  forget (...numbers: readonly number[]): StoreCall[] {
    return numbers.map(
      (number) => new StoreCall('forget', (store) => store.forget?.(keyOf(number), this.counters))
    )
  }

  /**
   * Finds what is counted for a caller, by a request that counts nothing or a place that is freed
   * immediately. It opens a window.
   */
  count (number: number): StoreCall[] {
    const found = this.acquire(number, unlimited, this.window === concurrent ? 1 : 0)
    return this.window === concurrent ? [found, settle(found)] : [found]
  }

  /** Settles a request several times, and finds each time what is counted for the caller. */
  settleAndCount (number: number, settled: StoreCall, ...used: readonly number[]): Steps {
    return used.map((each) => [settle(settled, each), this.count(number)])
  }

  /** Reads all pages. */
  list (): StoreCall {
    return new StoreCall('list', async (store) => {
      const listed = new Map<string, Omit<CallerCount, 'callerKey'>>()
      let cursor: string | undefined
      let pages = 0
      let isLast = false
      while (!isLast) {
        pages += 1
        ok(pages <= 100, 'list returned more than 100 pages')
        const page = await store.list?.(this.counters, cursor)
        ok(page, 'list returned no page')
        for (const { callerKey, ...fields } of page.callers) {
          const { count, held, windowRemaining, end } = fields
          listed.set(callerKey, {
            count,
            held,
            windowRemaining,
            ...(end !== undefined && { end })
          })
        }
        isLast = page.cursor === null
        cursor = page.cursor ?? undefined
      }
      return listed
    })
  }

  inspect (): StoreCall {
    return new StoreCall('inspect', async (store) => {
      const state = await store.inspect?.(this.counters)
      ok(state, 'inspect returned no state')
      return { trackedCallers: state.trackedCallers, sweeps: state.sweeps }
    })
  }
}

function keyOf (number: number): string {
  return required(
    callerKey(localAuthentication(`caller ${number}`)),
    'the caller key of a local account'
  )
}

/** A second quota like the one under test. */
export const otherQuota = new TestQuota('chat-2.requests.minute', minute)
export const streams = new TestQuota('streams.concurrent', concurrent)
export const jobs = new TestQuota('jobs.concurrent', concurrent)
export const tokens = new TestQuota('chat.tokens.hour', hour)
/** With the name of `tokens`: a quota with another unit and window has counters of its own. */
export const budget = new TestQuota('chat.microdollars.day', day)
