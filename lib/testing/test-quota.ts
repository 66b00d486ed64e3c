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

/** When a day begins and ends; null if it is not the day of a time zone. */
type Day = Pick<Demand, 'start' | 'end'>

/** Takes the place of the window's length in a quota of concurrent requests. */
const concurrent = Infinity

/** A caller cap so small that a few callers need overflow counters. */
export const smallCap = 4

/** As many callers as the small cap. */
export const tracked: readonly number[] = [0, 1, 2, 3]
/** One of them. */
export const own = 0
/** Callers that use the overflow counter meanwhile. */
export const overflowing: readonly number[] = [4, 5, 6]
export const all: readonly number[] = [...tracked, ...overflowing]
/** As many other callers as the small cap. */
export const later: readonly number[] = [7, 8, 9, 10]

/**
 * A quota in a store under test: creates the calls for its counters. Callers are numbers. Times are
 * in milliseconds.
 */
export class TestQuota {
  /** How long a counter is kept after its last request. */
  readonly retention: number

  /** @param day The day of a time zone, in milliseconds since the epoch. */
  constructor (
    readonly counters: string,
    readonly window: number,
    readonly unit = 'requests',
    readonly day: Day = { start: null, end: null }
  ) {
    this.retention = counterRetention(window)
  }

  /** Whether its changes belong in a journal, if the store has one. */
  get hasJournal (): boolean {
    return this.window !== concurrent && this.unit !== 'requests'
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
      ...this.day,
      unit: this.unit,
      reference: this.hasJournal ? `a request of caller ${number}` : null
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
      (number) => new StoreCall('forget', (store) => store.forget?.(this.counters, keyOf(number)))
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

  /** Reads what is counted and held for a caller, by each function that returns it. */
  see (number: number): Steps {
    return [this.peek(number), this.list(), this.count(number)]
  }

  /** Settles a request, and finds what is then counted for the caller. */
  settleAndCount (number: number, settled: StoreCall, used: number): Steps {
    return [settle(settled, used), this.count(number)]
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

  /** Reads the number of callers that have a counter, while no window is over. */
  tracked (): StoreCall {
    return new StoreCall('inspect', async (store) => {
      const state = await store.inspect?.(this.counters)
      ok(state, 'inspect returned no state')
      return state.trackedCallers
    })
  }

  /** Reads the state of a store that sweeps. */
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
export const streams = new TestQuota('streams.concurrent', concurrent, 'concurrent-requests')
export const jobs = new TestQuota('jobs.concurrent', concurrent, 'concurrent-requests')
export const tokens = new TestQuota('chat.tokens.hour', hour, 'tokens')
/** The quota of `tokens` with another unit and window, which has counters of its own. */
export const budget = new TestQuota('chat.microdollars.day', day, 'microdollars')
/** Another quota of the same unit as `tokens`. */
export const otherTokens = new TestQuota('team.tokens.day', day, 'tokens')
