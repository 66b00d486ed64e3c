import { required } from '../../required.js'
import type { QuotaCount } from '../../store/store.js'
import { Line, type LineTime, type Waiting } from './line.js'

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
