import type { FastifyRequest } from 'fastify'
import { logLine } from '../log.js'
import { DecisionLog } from './decision-log.js'

// How often requests without a report are warned of, in milliseconds.
const warningInterval = 60_000

// How long to wait for stores when the server closes, in milliseconds.
const longestWait = 1000

/** What is to be settled at the end. */
interface Unsettled { end (): void | Promise<void> }

/** What a server has to settle, and the steps of stores that nobody else waits for. */
export class Ledger {
  /** Logs the decisions of the server. */
  readonly decisions = new DecisionLog()
  readonly #open = new Set<Unsettled>()
  readonly #pending = new Set<Promise<void>>()
  #warnedOfUnreportedAt = -Infinity
  #isWarnedOfTokens = false

  /** Keeps something until it ends. */
  opened (unsettled: Unsettled): void {
    this.#open.add(unsettled)
  }

  ended (unsettled: Unsettled): void {
    this.#open.delete(unsettled)
  }

  /** Returns a step of a request or of stores. If it is a promise, the server waits for it when it closes. */
  track<Result> (step: Result | Promise<Result>): Result | Promise<Result> {
    if (step instanceof Promise) {
      const ended = (): void => { this.#pending.delete(pending) }
      const pending = step.then(ended, ended)
      this.#pending.add(pending)
    }
    return step
  }

  /** Ends all permits, and waits until everything is settled, but no longer than a second. */
  async settle (): Promise<void> {
    if (this.#open.size + this.#pending.size === 0) return
    let timer: NodeJS.Timeout | undefined
    const timeout = new Promise<void>((resolve) => { timer = setTimeout(resolve, longestWait) })
    await Promise.race([this.#settleAll(), timeout]).finally(() => { clearTimeout(timer) })
  }

  async #settleAll (): Promise<void> {
    while (this.#open.size + this.#pending.size > 0) {
      for (const permit of this.#open) permit.end()
      await Promise.all(this.#pending)
    }
  }

  warnOfUnreported ({ log }: FastifyRequest, quota: string, unit: string): void {
    if (performance.now() - this.#warnedOfUnreportedAt < warningInterval) return
    this.#warnedOfUnreportedAt = performance.now()
    logLine(log, 'warn', { quota, unit }, `a request has ended, and its ${unit} were not reported with fastify.quotaCharge; it counts ` +
      '"unreported", or else what it counted when it was admitted; this warning is logged at most once a minute')
  }

  warnOfUncountedTokens ({ log, method, routeOptions }: FastifyRequest): void {
    if (this.#isWarnedOfTokens) return
    this.#isWarnedOfTokens = true
    const operation = { method, path: routeOptions.url }
    logLine(log, 'warn', { operation }, 'fastify.quotaCharge was called with a number of tokens, and no quota of the request counts ' +
      'tokens; report another unit as { unit: amount }; this warning is not repeated')
  }
}
