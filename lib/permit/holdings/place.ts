import { placeChanges, type QuotaPlaceChange } from '../../channels.js'
import { logFailure } from '../../log.js'
import { required } from '../../required.js'
import type { Holding } from './holding.js'
import type { QuotaOfRequest } from '../quota-of-request.js'
import type { Requester } from '../requester.js'

/** The place of a concurrent request, until its permit ends. */
export class Place implements Holding {
  readonly granted = 1
  readonly isFinal = false
  readonly handedOver = null
  readonly #each: QuotaOfRequest
  readonly #requester: Requester

  constructor (each: QuotaOfRequest, requester: Requester) {
    this.#each = each
    this.#requester = requester
    this.#publish(1)
  }

  /** Does nothing: a place is taken or free. */
  async report (): Promise<void> {}

  async end (): Promise<void> {
    // In this process, the request has ended, whatever the store does.
    this.#publish(-1)
    const { quota, demand, acquisition } = this.#each
    try {
      await quota.store.settle?.(acquisition?.receipt, { count: 1, held: 1 })
      quota.lines?.freed(required(demand, 'the demand of a place').callerKey)
    } catch (error) {
      const message = 'the quota store failed; a place may stay taken for 30 seconds'
      logFailure(this.#requester.log, error, message, { quota: quota.name })
    }
  }

  /** Only the place of a shadow quota: a permit with others is not handed over. */
  handOver (): Promise<void> {
    return this.end()
  }

  cancel (): Promise<void> {
    return this.end()
  }

  #publish (change: 1 | -1): void {
    if (!placeChanges.hasSubscribers) return
    const { server } = this.#requester.server
    const quota = this.#each.quota.name
    placeChanges.publish({ server, quota, change } satisfies QuotaPlaceChange)
  }
}
