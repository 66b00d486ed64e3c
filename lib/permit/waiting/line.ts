import { required } from '../../required.js'
import type { QuotaCount, QuotaStore } from '../../store/store.js'
import type { QuotaTimers } from '../../time-limit.js'
import { wallClock } from '../../wall-clock.js'

/**
 * How long the first in a line waits at most until it asks again, in milliseconds: nothing else
 * notices what other processes free.
 */
const longestPause = 500

/** A request in a line. */
export interface Waiting {
  /** Whose request it is: the callers in a line take turns. */
  readonly turn: string
  /**
   * Decides on the request anew, because it is the first in its line, and takes it out of the line
   * unless it goes on waiting. Neither throws nor rejects.
   */
  ask(): void | Promise<void>
  /** Takes the request out of the line if by this count, there is room too late for it. */
  consider(count: QuotaCount): void
  /** Refuses the request, and takes it out of the line, if it needs a store that has failed. */
  fail(store: QuotaStore): void
  /** Rejects the request, which has left the line, because too many wait. */
  reject(): void
  /** Refuses the request, and takes it out of the line, because the server closes. */
  close(): void
}

/** The clock and the timers of lines. */
export interface LineTime {
  /** Returns monotonic milliseconds. */
  readonly clock: () => number
  readonly timers: QuotaTimers
}

/** The requests that wait for room in one counter, and the only one of them that asks. */
export class Line<Request extends Waiting> {
  /** The caller key of the counter. */
  readonly callerKey: string
  readonly #time: LineTime
  /** The requests of each caller, in their order. The first caller is the next. */
  readonly #byTurn = new Map<string, Request[]>()
  /** The latest state of the counter, and when it was noted. */
  #count: QuotaCount
  #notedAt: number
  #isAsking = false
  #cameFree = false
  #timer: unknown = null

  constructor (callerKey: string, count: QuotaCount, time: LineTime) {
    this.callerKey = callerKey
    this.#time = time
    this.#count = count
    this.#notedAt = time.clock()
  }

  get isEmpty (): boolean {
    return this.#byTurn.size === 0
  }

  /** The latest known state of the counter. */
  get count (): QuotaCount {
    const { windowRemaining } = this.#count
    if (windowRemaining === null) return this.#count
    const elapsed = this.#time.clock() - this.#notedAt
    return { ...this.#count, windowRemaining: Math.max(1, windowRemaining - elapsed) }
  }

  /** Notes the state of the counter, which all who wait for it consider. */
  note (count: QuotaCount): void {
    this.#count = count
    this.#notedAt = this.#time.clock()
    for (const request of [...this.#byTurn.values()].flat()) request.consider(count)
  }

  /**
   * A store has failed the request that asked. The others do not ask one after another, which would
   * take as long for each as the store takes to fail.
   */
  fail (store: QuotaStore): void {
    for (const request of [...this.#byTurn.values()].flat()) request.fail(store)
  }

  /** Adds a request at the end. */
  add (request: Request): void {
    const ofCaller = this.#byTurn.get(request.turn)
    if (ofCaller === undefined) this.#byTurn.set(request.turn, [request])
    else ofCaller.push(request)
    if (this.#timer === null && !this.#isAsking) this.#startTimer()
  }

  /** Removes a request. The next one of the same caller has its place. */
  remove (request: Request): void {
    const ofCaller = required(this.#byTurn.get(request.turn), 'the caller of a request')
    ofCaller.splice(ofCaller.indexOf(request), 1)
    if (ofCaller.length === 0) this.#byTurn.delete(request.turn)
    if (this.isEmpty) this.#stopTimer()
  }

  /** Lets the first request ask, and those after it for as long as they leave. */
  async askFirst (): Promise<void> {
    // What came free may have come too late for the request that asks.
    this.#cameFree = true
    if (this.#isAsking) return
    this.#isAsking = true
    this.#stopTimer()
    let mayHaveRoom = true
    for (let first = this.#first; first !== undefined && mayHaveRoom; first = this.#first) {
      this.#cameFree = false
      await first.ask()
      const hasLeft = this.#byTurn.get(first.turn)?.includes(first) !== true
      if (hasLeft) this.#endTurn(first.turn)
      mayHaveRoom = hasLeft || this.#cameFree
    }
    this.#isAsking = false
    if (!this.isEmpty) this.#startTimer()
  }

  get #first (): Request | undefined {
    const [ofCaller] = this.#byTurn.values()
    return ofCaller?.[0]
  }

  /** Puts a caller behind the others, if it has more requests. */
  #endTurn (turn: string): void {
    const ofCaller = this.#byTurn.get(turn)
    if (ofCaller === undefined) return
    this.#byTurn.delete(turn)
    this.#byTurn.set(turn, ofCaller)
  }

  #startTimer (): void {
    this.#timer = this.#time.timers.setTimeout(() => {
      this.#timer = null
      this.askFirst()
    }, this.#pause)
  }

  #stopTimer (): void {
    if (this.#timer === null) return
    this.#time.timers.clearTimeout(this.#timer)
    this.#timer = null
  }

  /** How long it takes until the first request asks by itself, in milliseconds. */
  get #pause (): number {
    const { windowRemaining, end } = this.count
    const remaining = end === undefined ? windowRemaining : end - wallClock()
    // If the caller's calendar has changed, a window stays in force after its end, until the next
    // window of the new calendar starts.
    if (remaining === null || remaining <= 0) return longestPause
    return Math.min(longestPause, remaining)
  }
}
