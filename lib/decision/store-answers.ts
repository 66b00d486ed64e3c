import { channel } from 'node:diagnostics_channel'
import type { FastifyRequest } from 'fastify'
import type { Acquisition, QuotaStore } from '../store/store.js'
import { isThenable } from '../thenable.js'

/** How long a decision waited for the store, whether the store answered or failed. */
export class StoreAnswer {
  readonly request: FastifyRequest
  readonly seconds: number

  constructor (request: FastifyRequest, seconds: number) {
    this.request = request
    this.seconds = seconds
  }
}

/** The channel on which each `StoreAnswer` is published. Without a subscriber, no decision is timed. */
export const storeAnswers = channel('fastify-llm-quota:store-answer')

/** Runs the acquire step of a request and publishes its duration. */
export function timedAcquire (request: FastifyRequest, store: QuotaStore, callerKey: string, limit: number): Acquisition | Promise<Acquisition> {
  const startedAt = performance.now()
  const publish = (): void => { storeAnswers.publish(new StoreAnswer(request, (performance.now() - startedAt) / 1000)) }
  try {
    const answer = store.acquire(callerKey, limit)
    if (isThenable(answer)) return Promise.resolve(answer).finally(publish)
    publish()
    return answer
  } catch (error) {
    publish()
    throw error
  }
}
