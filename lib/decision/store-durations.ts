import { channel } from 'node:diagnostics_channel'
import type { FastifyRequest } from 'fastify'

/** How long a decision waited for the store, whether the store decided or failed. */
export interface StoreDuration {
  readonly request: FastifyRequest
  readonly seconds: number
}

/** The channel on which each `StoreDuration` is published. Without a subscriber, no decision is timed. */
export const storeDurations = channel('fastify-llm-quota:store-duration')

/** Runs a step of the store, and publishes how long it took. */
export function timed<Result> (request: FastifyRequest, step: () => Result | Promise<Result>): Result | Promise<Result> {
  const startedAt = performance.now()
  const publish = (): void => { storeDurations.publish({ request, seconds: (performance.now() - startedAt) / 1000 } satisfies StoreDuration) }
  let result: Result | Promise<Result> | undefined
  try {
    result = step()
    return result
  } finally {
    if (result instanceof Promise) result.then(publish, publish)
    else publish()
  }
}
