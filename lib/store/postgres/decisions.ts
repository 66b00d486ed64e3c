import { shown } from '../../errors.js'
import type { Acquisition } from '../store.js'
import { compareTexts, type Database } from './database.js'

const mostInStatement = 64

// More statements at once would each decide on fewer requests.
const mostStatements = 2

// A decision that has waited for so long is not sent any more, in milliseconds: its request has long been answered.
const longestWait = 5_000

interface Decision {
  readonly callerKey: string
  readonly limit: number
  readonly cost: number
  readonly time: number | null
  readonly since: number
  readonly resolve: (acquisition: Acquisition) => void
  readonly reject: (error: unknown) => void
}

/**
 * Sends the decisions of one quota. If none is in flight, a decision is sent immediately. Decisions that arrive while others are in flight
 * are sent together.
 */
export class Decisions {
  readonly #database: Database
  readonly #quota: string
  readonly #window: number
  readonly #maxTrackedCallers: number
  #waiting: Decision[] = []
  #statements = 0
  #isScheduled = false

  constructor (database: Database, quota: string, window: number, maxTrackedCallers: number) {
    this.#database = database
    this.#quota = quota
    this.#window = window
    this.#maxTrackedCallers = maxTrackedCallers
  }

  /** @param time The time of the store's own clock; null for the server's. */
  acquire (callerKey: string, limit: number, cost: number, time: number | null): Promise<Acquisition> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ callerKey, limit, cost, time, since: performance.now(), resolve, reject })
      if (this.#statements === 0 && !this.#isScheduled) this.#send()
      else this.#schedule()
    })
  }

  /** Requests that were answered together often send their next decisions in the same turn of the event loop. */
  #schedule (): void {
    if (this.#isScheduled || this.#waiting.length === 0) return
    this.#isScheduled = true
    setImmediate(() => {
      this.#isScheduled = false
      this.#send()
    })
  }

  #send (): void {
    while (this.#statements < mostStatements && this.#waiting.length > 0) {
      this.#statements += 1
      void this.#decide(this.#next()).finally(() => {
        this.#statements -= 1
        this.#schedule()
      })
    }
  }

  /** Takes decisions that can share a statement: of the same time, if the store has a clock of its own. */
  #next (): Decision[] {
    const length = this.#waiting.findIndex(({ time }) => time !== this.#waiting[0]?.time)
    return this.#waiting.splice(0, Math.min(mostInStatement, length === -1 ? mostInStatement : length))
  }

  async #decide (decisions: Decision[]): Promise<void> {
    // All statements lock the counters in the same order, so they never wait for each other.
    let left = decisions.sort((one, other) => compareTexts(one.callerKey, other.callerKey))
    try {
      while (left.length > 0) {
        const earliest = performance.now() - longestWait
        for (const { since, reject } of left) if (since < earliest) reject(new Error('the server did not answer earlier decisions'))
        left = left.filter(({ since }) => since >= earliest)
        const reply = await this.#database.call('acquire',
          this.#quota, this.#window, this.#maxTrackedCallers, left[0]?.time ?? null,
          left.map(({ callerKey }) => callerKey), left.map(({ limit }) => limit), left.map(({ cost }) => cost))
        const replies = reply.split(',')
        left = left.filter(({ resolve }, index) => {
          // Nothing: a step of a sweep or the lock of the quota came first.
          if (replies[index] === '') return true
          resolve(readAcquisition(replies[index]))
          return false
        })
      }
    } catch (error) {
      for (const { reject } of left) reject(error)
    }
  }
}

/** Reads a counter of the form `count windowRemaining flags`: 1 for admitted, 2 for the overflow counter. */
export function readAcquisition (reply: string | undefined): Acquisition {
  const [count, windowRemaining, flags] = reply?.split(' ').map(Number) ?? []
  if (flags === undefined) throw new TypeError(`unexpected reply of the server: ${shown(reply)}`)
  return { admitted: flags % 2 === 1, count: count ?? NaN, windowRemaining: windowRemaining ?? NaN, overflow: flags >= 2 }
}
