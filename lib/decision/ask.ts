import type { FastifyRequest } from 'fastify'
import { shownError } from '../errors.js'
import { assertAcquisition, assertEntry, type Acquisition, type Entry } from '../store/store.js'
import type { Quota } from './quota.js'
import { storeDurations, timed } from './store-durations.js'

/**
 * Asks the store of a quota, and adds the cost if the caller is below the limit.
 *
 * @returns The result; undefined if the store fails, which is logged. A promise only if the store returned one.
 */
export function acquire (quota: Quota, callerKey: string, limit: number, cost: number, request: FastifyRequest): Acquisition | undefined | Promise<Acquisition | undefined> {
  const { store } = quota
  try {
    return settled(storeDurations.hasSubscribers ? timed(request, () => store.acquire(callerKey, limit, cost)) : store.acquire(callerKey, limit, cost), assertAcquisition, quota, request)
  } catch (error) {
    return failed(error, quota, request)
  }
}

/** Takes a place for a request in flight; otherwise as `acquire`. */
export function enter (quota: Quota, callerKey: string, limit: number, request: FastifyRequest): Entry | undefined | Promise<Entry | undefined> {
  const { store } = quota
  try {
    return settled(storeDurations.hasSubscribers ? timed(request, () => store.enter?.(callerKey, limit)) : store.enter?.(callerKey, limit), assertEntry, quota, request)
  } catch (error) {
    return failed(error, quota, request)
  }
}

type Check<Result> = (result: Result | undefined) => asserts result is Result

function settled<Result> (result: Result | undefined | Promise<Result | undefined>, check: Check<Result>, quota: Quota, request: FastifyRequest): Result | Promise<Result | undefined> {
  return typeof result === 'object' && result !== null && 'then' in result ? later(result, check, quota, request) : checked(result, check)
}

function checked<Result> (result: Result | undefined, check: Check<Result>): Result {
  check(result)
  return result
}

async function later<Result> (promise: PromiseLike<Result | undefined>, check: Check<Result>, quota: Quota, request: FastifyRequest): Promise<Result | undefined> {
  try {
    return checked(await promise, check)
  } catch (error) {
    return failed(error, quota, request)
  }
}

function failed (error: unknown, { name }: Quota, { log }: FastifyRequest): undefined {
  log.error({ err: shownError(error), quota: name }, 'the quota store failed; the request is not counted')
}
