import { channel } from 'node:diagnostics_channel'
import type { FastifyRequest } from 'fastify'
import { isPromise, shownError } from '../errors.js'
import { assertAcquisition, assertEntry, type Acquisition, type Entry } from '../store/store.js'
import type { Quota } from './quota.js'

/** How long a decision waited for the store, whether the store decided or failed. */
export interface StoreDuration {
  readonly request: FastifyRequest
  readonly seconds: number
}

/** The channel on which each `StoreDuration` is published. Without a subscriber, no decision is timed. */
export const storeDurations = channel('fastify-llm-quota:store-duration')

/**
 * Asks the store of a quota and adds the cost if the caller is below the limit.
 *
 * @returns The result; undefined if the store fails, which is logged. A promise only if the store returned one.
 */
export function acquire (quota: Quota, callerKey: string, limit: number, cost: number, request: FastifyRequest): Acquisition | undefined | Promise<Acquisition | undefined> {
  const { store } = quota
  // One form for `acquire` and `enter` would need a closure, which costs 3 % of what the quota adds to a request, and more.
  try {
    const result = storeDurations.hasSubscribers ? timed(request, () => store.acquire(callerKey, limit, cost)) : store.acquire(callerKey, limit, cost)
    if (isPromise(result)) return later(result, assertAcquisition, quota, request)
    assertAcquisition(result)
    return result
  } catch (error) {
    return failed(error, quota, request)
  }
}

/** Takes a place for a request in flight; otherwise as `acquire`. */
export function enter (quota: Quota, callerKey: string, limit: number, request: FastifyRequest): Entry | undefined | Promise<Entry | undefined> {
  const { store } = quota
  try {
    const result = storeDurations.hasSubscribers ? timed(request, () => store.enter?.(callerKey, limit)) : store.enter?.(callerKey, limit)
    if (isPromise(result)) return later(result, assertEntry, quota, request)
    assertEntry(result)
    return result
  } catch (error) {
    return failed(error, quota, request)
  }
}

type Check<Result> = (result: Result | undefined) => asserts result is Result

async function later<Result> (promise: PromiseLike<Result | undefined>, check: Check<Result>, quota: Quota, request: FastifyRequest): Promise<Result | undefined> {
  try {
    const result = await promise
    check(result)
    return result
  } catch (error) {
    return failed(error, quota, request)
  }
}

function failed (error: unknown, { name }: Quota, { log }: FastifyRequest): undefined {
  log.error({ err: shownError(error), quota: name }, 'the quota store failed; the request is not counted')
}

/** Runs a step of the store and publishes how long it took. */
function timed<Result> (request: FastifyRequest, step: () => Result | Promise<Result>): Result | Promise<Result> {
  const startedAt = performance.now()
  const publish = (): void => { storeDurations.publish({ request, seconds: (performance.now() - startedAt) / 1000 } satisfies StoreDuration) }
  let result: Result | Promise<Result> | undefined
  try {
    const returned = step()
    // Of some clients' promises, each call of "then" runs the command again.
    result = isPromise(returned) ? Promise.resolve(returned) : returned
    return result
  } finally {
    if (result instanceof Promise) result.then(publish, publish)
    else publish()
  }
}
