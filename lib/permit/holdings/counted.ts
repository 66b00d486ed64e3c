import { unlimited } from '../../store/counter.js'
import { handedOver } from '../handing-over/hand-over.js'
import type { HandedOverHolding } from '../handing-over/handed-over.js'
import type { Holding } from './holding.js'
import type { QuotaOfRequest } from '../quota-of-request.js'
import type { Requester } from '../requester.js'
import { Tally } from './tally.js'

/**
 * What a quota of requests counted for one of them, which is final unless something is reported: 0
 * for a request whose model failed, for example.
 */
export class Counted implements Holding {
  readonly granted: number
  isFinal = true
  readonly #each: QuotaOfRequest
  readonly #requester: Requester
  /** Only needed if something is reported. */
  #tally: Tally | undefined
  #reported: number | null = null
  #hasEnded = false

  constructor (each: QuotaOfRequest, granted: number, requester: Requester) {
    this.#each = each
    this.granted = granted
    this.#requester = requester
  }

  report (amount: number): Promise<void> {
    this.isFinal = false
    const reported = Math.min((this.#reported ?? 0) + amount, unlimited)
    this.#reported = reported
    // While the request runs, it counts at least what it was granted.
    return this.#bringTo(this.#hasEnded ? reported : Math.max(this.granted, reported))
  }

  async end (): Promise<void> {
    this.#hasEnded = true
    if (this.#reported !== null) await this.#bringTo(this.#reported)
  }

  get handedOver (): HandedOverHolding | null {
    return handedOver(this.#each, this.#reported, null)
  }

  /** It stays counted. */
  async handOver (): Promise<void> {}

  async cancel (): Promise<void> {
    // A store that cannot settle keeps what it counted.
    if (this.#each.quota.store.settle !== undefined) this.#reported ??= 0
    await this.end()
  }

  #bringTo (used: number): Promise<void> {
    this.#tally ??= new Tally(this.#each, this.#requester)
    return this.#tally.bringTo(() => ({ used, isHeld: false }))
  }
}
