import { required } from '../required.js'
import type { QuotaCount, QuotaStore } from '../store/store.js'
import type { QuotaTimers } from '../time-limit.js'
import { wallClock } from '../wall-clock.js'

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

/**
 * The requests of one quota that wait in this process (docs/rules.md, "Waiting"): a line for each
 * counter, and a bound for all of them together.
 */
export class Lines<Request extends Waiting = Waiting> {
  readonly #mostWaiting: number
  readonly #time: LineTime
  /** By the caller key of the counter. None is empty. */
  readonly #byCounter = new Map<string, Line<Request>>()
  /** The line of each request, in the order in which they joined. */
  readonly #byRequest = new Map<Request, Line<Request>>()

  /** @param mostWaiting How many requests can wait at the same time. */
  constructor (mostWaiting: number, time: LineTime) {
    this.#mostWaiting = mostWaiting
    this.#time = time
  }

  /** All requests, in the order in which they joined. */
  get waiting (): readonly Request[] {
    return [...this.#byRequest.keys()]
  }

  /** Refuses all requests, because the server closes. */
  close (): void {
    for (const request of this.waiting) request.close()
  }

  /** Returns the line of a counter; undefined if nobody waits for it. */
  lineOf (callerKey: string): Line<Request> | undefined {
    return this.#byCounter.get(callerKey)
  }

  /**
   * Adds a request at the end of the line of a counter.
   *
   * If too many wait then, rejects the newest request of the caller with the most, which can be the
   * arriving one.
   *
   * @param count The state of the counter, which has no room for the request.
   */
  join (callerKey: string, request: Request, count: QuotaCount): void {
    const line = this.#byCounter.get(callerKey) ?? new Line<Request>(callerKey, count, this.#time)
    this.#byCounter.set(callerKey, line)
    this.#byRequest.set(request, line)
    line.add(request)
    if (this.#byRequest.size <= this.#mostWaiting) return
    const surplus = this.#newestOfMost()
    this.leave(surplus)
    surplus.reject()
  }

  /** Takes a request out of its line. Does nothing if it is in none. */
  leave (request: Request): void {
    const line = this.#byRequest.get(request)
    if (line === undefined) return
    this.#byRequest.delete(request)
    line.remove(request)
    if (line.isEmpty) this.#byCounter.delete(line.callerKey)
  }

  /** Makes the first in the line of a counter ask at once, because something came free. */
  freed (callerKey: string): void {
    this.#byCounter.get(callerKey)?.askFirst()
  }

  /** Returns the newest request of the caller with the most. */
  #newestOfMost (): Request {
    const requests = this.waiting
    const counts = new Map<string, number>()
    let most = 0
    for (const { turn } of requests) {
      const count = (counts.get(turn) ?? 0) + 1
      counts.set(turn, count)
      most = Math.max(most, count)
    }
    const newest = requests.findLast(({ turn }) => counts.get(turn) === most)
    return required(newest, 'the newest request')
  }
}

/** The requests that wait for room in one counter, and the only one of them that asks. */
class Line<Request extends Waiting> {
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
    // The window of a caller whose time zone has changed can last longer than its end.
    if (remaining === null || remaining <= 0) return longestPause
    return Math.min(longestPause, remaining)
  }
}
