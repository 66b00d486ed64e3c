import { channel } from 'node:diagnostics_channel'
import type { FastifyRequest } from 'fastify'
import { logFailure } from '../log.js'
import { attempt, promised } from '../promises.js'
import type { Acquisition } from '../store/store.js'
import type { Quota } from './quota.js'

/** A message that a request has taken or released a place. */
export interface QuotaPlaceChange {
  readonly request: FastifyRequest
  /** The name of the quota. */
  readonly quota: string
  /** 1 if the place was taken, -1 if it was released. */
  readonly change: 1 | -1
}

/** The channel on which each `QuotaPlaceChange` of an admitted request is published. */
export const quotaPlaces = channel('fastify-llm-quota:place')

/** The place of an admitted request in a quota of requests in flight. */
export class Place {
  readonly #quota: Quota
  readonly #acquisition: Acquisition
  readonly #request: FastifyRequest

  constructor (quota: Quota, acquisition: Acquisition, request: FastifyRequest) {
    this.#quota = quota
    this.#acquisition = acquisition
    this.#request = request
    this.#publish(1)
  }

  /** Releases the place. It never rejects: if the store fails, the place is free when its lease ends. */
  close (): void | Promise<void> {
    this.#publish(-1)
    const { name, store } = this.#quota
    return attempt<void>(() => promised(store.release?.(this.#acquisition, 1)), (error) => {
      logFailure(this.#request.log, error, 'a place of a request in flight could not be released', { quota: name })
    })
  }

  #publish (change: 1 | -1): void {
    if (!quotaPlaces.hasSubscribers) return
    quotaPlaces.publish({ request: this.#request, quota: this.#quota.name, change } satisfies QuotaPlaceChange)
  }
}
