import { setImmediate as turn } from 'node:timers/promises'
import { TimeLimitError } from '../../errors.js'
import { isPromise } from '../../promises.js'
import { nodeTimers, withTimeout, type QuotaTimers } from '../../time-limit.js'
import { periodLength } from '../counter.js'
import type { SentCall } from './batch.js'
import type { CallQueue, FailureKind } from './call-queue.js'
import {
  NotRunError,
  TryAgainError,
  type Call,
  type Connection,
  type Driver,
  type Reply
} from './driver.js'
import { placeDuration } from './held-places.js'
import type { RunningClock } from './running-clock.js'
import { UniqueNames } from './unique-names.js'

/**
 * How long a call takes at most, in milliseconds, because a connection can become silent without
 * closing. A connection is waited for as long.
 */
export const longestCallTime = 2_500

/**
 * How often to look for something to send while this process holds places, or while something waits
 * because a call has failed.
 */
const wakeInterval = 1_000

/** How long after an attempt of which nothing has run the next one follows. */
const attemptPause = 50

/** What a `Sender` works with. */
export interface SenderOptions {
  readonly driver: Driver
  readonly queue: CallQueue
  /** Runs while something waits. */
  readonly running: RunningClock
  /** Returns monotonic milliseconds. */
  readonly clock: () => number
  /** Returns the time of a call. */
  readonly time: () => Call['time']
  readonly timers?: QuotaTimers
}

/**
 * Sends what waits in a queue, one call at a time; the next one takes with it what has arrived in
 * the meantime.
 *
 * | state | what happens | next state |
 * |---|---|---|
 * | idle | nothing waits | sending, when something is added |
 * | sending | a call is under way | sending, while something waits; else idle, or failing |
 * | failing | the latest call has failed | sending, with the next request or after a second |
 */
export class Sender {
  readonly #options: SenderOptions
  readonly #timers: QuotaTimers
  readonly #names = new UniqueNames()
  #sending: Promise<void> | undefined
  #isWakeSet = false
  // Whether something was added while a call was under way.
  #isWoken = false

  constructor (options: SenderOptions) {
    this.#options = options
    this.#timers = options.timers ?? nodeTimers
  }

  readonly #isBusy = (): boolean => this.#sending !== undefined || !this.#options.queue.isIdle

  /** Sends what waits. Must be called whenever something was added to the queue. */
  wake (): void {
    this.#options.running.start(this.#isBusy)
    this.#isWoken = true
    this.#sending ??= this.#sendAll()
  }

  async #sendAll (): Promise<void> {
    let hasMore = true
    while (hasMore) {
      // What arrives in one turn of the event loop goes into the same call.
      await turn()
      this.#isWoken = false
      const isMoreLeft = await this.#sendOne()
      hasMore = isMoreLeft || this.#isWoken
    }
    this.#sending = undefined
    if (!this.#options.queue.isIdle) this.#wakeLater()
  }

  #wakeLater (): void {
    if (this.#isWakeSet) return
    this.#isWakeSet = true
    this.#timers.setTimeout(() => {
      this.#isWakeSet = false
      if (!this.#options.queue.isIdle) this.wake()
    }, wakeInterval)
  }

  /** Returns whether another call follows at once. Never rejects. */
  async #sendOne (): Promise<boolean> {
    const { queue, clock } = this.#options
    try {
      await this.#call()
      return queue.hasRequests || queue.hasDuties(clock())
    } catch (error) {
      const kind = kindOf(error)
      queue.failed(kind, error instanceof NotRunError ? error.cause : error)
      if (kind === 'try-again' && queue.hasRequests) await this.#pause()
      return queue.hasRequests
    }
  }

  /**
   * Sends a call with what waits, if anything does. Only when it has what the call is sent through
   * does it take anything out of the queue.
   */
  async #call (): Promise<void> {
    const { queue, clock, time } = this.#options
    const connecting = this.#connect()
    const connection = isPromise(connecting) ? await connecting : connecting
    let sent
    let call: Call
    try {
      sent = queue.next(clock(), this.#names.callName())
      if (sent === null) {
        connection.release()
        return
      }
      call = this.#callOf(sent, time())
    } catch (error) {
      // The host's clock has failed.
      connection.release()
      throw new NotRunError(error)
    }
    queue.succeeded(await this.#run(connection, call, sent))
  }

  /** Rejects with a `NotRunError` in any case, since nothing was sent. */
  #connect (): Connection | Promise<Connection> {
    try {
      const connecting = this.#options.driver.connect()
      return isPromise(connecting) ? this.#connectInTime(connecting) : connecting
    } catch (error) {
      throw asNotRun(error)
    }
  }

  async #connectInTime (connecting: PromiseLike<Connection>): Promise<Connection> {
    try {
      return await this.#inTime(connecting, (connection) => {
        connection.release()
      })
    } catch (error) {
      throw error instanceof TimeLimitError ? new TryAgainError(error) : asNotRun(error)
    }
  }

  #run (connection: Connection, call: Call, sent: SentCall): Promise<Reply> {
    return this.#inTime(connection.run(call), (reply) => {
      this.#options.queue.arrivedLate(sent, reply)
      this.wake()
    })
  }

  /** @param late Receives what arrives after the time limit. */
  async #inTime<Result> (
    asked: PromiseLike<Result>,
    late: (result: Result) => void
  ): Promise<Result> {
    let isLate = false
    const answered = Promise.resolve(asked)
    answered.then(
      (result) => {
        if (isLate) late(result)
      },
      () => {}
    )
    try {
      return await withTimeout(longestCallTime, answered, { timers: this.#timers })
    } catch (error) {
      isLate = true
      throw error
    }
  }

  #callOf ({ content, number }: SentCall, time: Call['time']): Call {
    let demands = 0
    for (const request of content.requests) demands += request.demands.length
    const { process } = this.#names
    const firstWindowId = this.#names.windowIds(demands)
    return { process, number, time, placeDuration, periodLength, firstWindowId, ...content }
  }

  #pause (): Promise<void> {
    return new Promise((resolve) => {
      this.#timers.setTimeout(resolve, attemptPause)
    })
  }
}

function kindOf (error: unknown): FailureKind {
  if (error instanceof TryAgainError) return 'try-again'
  return error instanceof NotRunError ? 'not-run' : 'unknown'
}

function asNotRun (error: unknown): NotRunError {
  return error instanceof NotRunError ? error : new NotRunError(error)
}
