import { logFailure } from '../../log.js'
import { unlimited } from '../../store/counter.js'
import { acquireBeyond } from '../holdings/beyond.js'
import type { HandedOverHolding } from './handed-over.js'
import type { Reportable } from '../holdings/holding.js'
import type { Quota } from '../quota.js'
import type { Requester } from '../requester.js'
import { publishSettlement, usedWithoutReport } from '../holdings/usage.js'
import { settledInTime } from '../settled-in-time.js'

/**
 * What a permit that was handed over has of one quota. What was reported before its first end
 * counts: it is settled once, in whichever process comes first.
 */
export class ResumedHolding implements Reportable {
  readonly granted: number
  readonly #quota: Quota
  readonly #handed: HandedOverHolding
  readonly #text: string
  readonly #requester: Requester
  #reported: number | null
  #isReportExpected = false
  /** What the permit counts, which the first end determines; null before. */
  #used: number | null = null
  /** How many settlements were sent and have got no reply, yet or ever. */
  #unanswered = 0
  /** Whether what was used beyond was counted, and published. */
  #isCounted = false
  #hasEnded = false

  /** @param text The text of the permit. */
  constructor (quota: Quota, handed: HandedOverHolding, text: string, requester: Requester) {
    this.granted = handed.granted
    this.#quota = quota
    this.#handed = handed
    this.#text = text
    this.#requester = requester
    this.#reported = handed.reported
  }

  expectReport (): void {
    this.#isReportExpected = true
  }

  async report (amount: number): Promise<void> {
    this.#reported = Math.min((this.#reported ?? 0) + amount, unlimited)
  }

  /** Rejects if the store fails or does not answer in time. It can be tried again. */
  async end (): Promise<void> {
    if (this.#hasEnded) return
    // That a request was counted is final unless something is reported.
    if (this.#quota.unit === 'requests' && this.#reported === null) return
    this.#used ??= this.#usedInTheEnd()
    await settledInTime(this.#settle(this.#used))
    this.#hasEnded = true
  }

  #usedInTheEnd (): number {
    if (this.#reported !== null) return this.#reported
    if (this.#isReportExpected) return this.granted
    return usedWithoutReport(this.#quota, this.granted, this.#requester)
  }

  /** Goes on after the time limit, too: whoever is the first counts what was used beyond. */
  async #settle (used: number): Promise<void> {
    const { store, lines } = this.#quota
    const { receipt, callerKey, reported } = this.#handed
    const counted = Math.max(this.granted, reported ?? 0)
    const less = { count: Math.max(0, counted - used), held: 0 }
    this.#unanswered += 1
    const isFirst = await store.settle?.(receipt, less, this.#text)
    this.#unanswered -= 1
    // Another process has ended the permit, unless it may have been an earlier attempt of this one,
    // whose reply was lost: then it is rather counted twice than not at all.
    if (isFirst === false && this.#unanswered === 0) return
    if (this.#isCounted) return
    this.#isCounted = true
    lines?.freed(callerKey)
    const isBeyondCounted = used <= counted || (await this.#countBeyond(used - counted))
    // What the admission counted beyond what was used may not have been taken off.
    this.#publish(used, isFirst === false || !isBeyondCounted)
  }

  /** Returns whether the store has counted it. */
  async #countBeyond (amount: number): Promise<boolean> {
    const { name, counters, store, longestWindow: window } = this.#quota
    const { callerKey, unit, start, end } = this.#handed
    const reference = unit === 'requests' ? null : (this.#requester.reference ?? '')
    // The window of the admission is open, or nothing would have been settled; if only the reply
    // was lost, it can have ended since.
    const counter = { counters, callerKey, window, start, end, unit, reference }
    try {
      await acquireBeyond(store, counter, amount)
      return true
    } catch (error) {
      const message = 'the quota store failed; what the request counts may be wrong'
      logFailure(this.#requester.log, error, message, { quota: name, unit, counters })
      return false
    }
  }

  #publish (used: number, failed: boolean): void {
    const { callerKey, windowEnd } = this.#handed
    if (windowEnd === null) return
    publishSettlement(this.#quota, this.#requester, {
      callerKey,
      granted: this.granted,
      used,
      before: 0,
      reported: this.#reported !== null,
      windowEnd,
      failed
    })
  }
}
