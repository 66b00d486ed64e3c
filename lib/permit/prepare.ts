import timers from 'node:timers'
import { Unidentified } from '../caller/caller-key.js'
import { Caller } from '../caller/request-caller.js'
import { formatType } from '../errors.js'
import type { ReadLimit } from '../limit/limit.js'
import { ignoreRejection, isPromise } from '../promises.js'
import { required } from '../required.js'
import { unlimited } from '../store/counter.js'
import type { Demand } from '../store/store.js'
import { withTimeout } from '../time-limit.js'
import { costRule, rangeOf, type CostRange } from './cost.js'
import type { Quota } from './quota.js'
import type { QuotaOfRequest } from './quota-of-request.js'
import type { Requester } from './requester.js'

/**
 * Finds out one thing about a quota of a request, or decides on it without its store. A promise
 * only if something of the host's returned one. Neither throws nor rejects.
 */
type Step = (each: QuotaOfRequest, requester: Requester) => PromiseLike<void> | undefined

const limitFirst: readonly Step[] = [readLimit, identify]
// A limit that is a function needs the caller.
const callerFirst: readonly Step[] = [identify, readLimit]

/**
 * Determines what the store of each quota is asked for (docs/rules.md, "Decision"), or the decision
 * if its store need not be asked. A promise only if something of the host's returned one. Neither
 * throws nor rejects.
 */
export function prepare (
  quotas: readonly QuotaOfRequest[],
  requester: Requester
): PromiseLike<void> | undefined {
  let waiting: PromiseLike<void>[] | undefined
  for (const each of quotas) {
    const steps = each.quota.isLimitOfCaller ? callerFirst : limitFirst
    const preparing = takeSteps(steps, each, requester)
    if (preparing === undefined) continue
    waiting ??= []
    waiting.push(preparing)
  }
  return waiting === undefined ? undefined : Promise.all(waiting).then(() => {})
}

/** Takes the steps in their order, until one of them decides, and then reads the cost. */
function takeSteps (
  steps: readonly Step[],
  each: QuotaOfRequest,
  requester: Requester
): PromiseLike<void> | undefined {
  let taken = 0
  for (const step of steps) {
    if (each.decision !== null) return undefined
    const taking = step(each, requester)
    taken += 1
    if (taking !== undefined) {
      return taking.then(() => takeSteps(steps.slice(taken), each, requester))
    }
  }
  return readCost(each, requester)
}

function identify (each: QuotaOfRequest, requester: Requester): PromiseLike<void> | undefined {
  const caller = requester.callerOf(each.quota)
  if (caller instanceof Caller) {
    each.caller = caller
    return undefined
  }
  if (isPromise(caller)) return caller.then((read) => noteCaller(each, read))
  noteCaller(each, caller)
  return undefined
}

function noteCaller (each: QuotaOfRequest, caller: Caller | Unidentified): void {
  if (caller instanceof Caller) each.caller = caller
  else decideWithoutCaller(each, caller)
}

function decideWithoutCaller (each: QuotaOfRequest, { reason }: Unidentified): void {
  if (reason === null) return each.fail('authentication')
  each.decideWithout({ outcome: 'unauthenticated', reason, callerKey: null, retryAfter: null })
}

function readLimit (each: QuotaOfRequest, requester: Requester): PromiseLike<void> | undefined {
  const limit = each.quota.limitOf(requester.request, each.caller, requester.log)
  if (typeof limit === 'number') {
    each.limit = limit
    return undefined
  }
  if (isPromise(limit)) return limit.then((read) => noteLimit(each, read))
  noteLimit(each, limit)
  return undefined
}

function noteLimit (each: QuotaOfRequest, limit: ReadLimit): void {
  if (limit === 'disabled') {
    each.decideWithout({ outcome: 'disabled', reason: null, callerKey: null, retryAfter: null })
  } else if (limit === 'failed') {
    each.fail('limit')
  } else {
    each.limit = limit
  }
}

/** Reads the cost, with which all is known that the store is asked for. */
function readCost (each: QuotaOfRequest, requester: Requester): PromiseLike<void> | undefined {
  const { caller, decision } = each
  if (caller === null || decision !== null) return undefined
  // That of a handler comes first.
  const cost = each.cost ?? each.quota.cost
  if (typeof cost !== 'function') {
    addDemand(each, caller, cost, requester)
    return undefined
  }
  try {
    const read: unknown = cost(required(requester.request, 'the request of a cost'))
    if (isPromise(read)) return readCostLater(read, each, caller, requester)
    addDemand(each, caller, costIn(read, each.quota), requester)
  } catch (error) {
    failCost(error, each, requester)
  }
  return undefined
}

async function readCostLater (
  promise: PromiseLike<unknown>,
  each: QuotaOfRequest,
  caller: Caller,
  requester: Requester
): Promise<void> {
  try {
    // Referenced timers, as for limits and preferences: a process that does nothing else must not
    // end before the decision.
    const cost = await withTimeout(requester.server.hostTimeout, promise, { timers })
    addDemand(each, caller, costIn(cost, each.quota), requester)
  } catch (error) {
    failCost(error, each, requester)
  }
}

/** Returns the cost that a function returned. Throws if it is none. */
function costIn (cost: unknown, { unit }: Quota): CostRange {
  const range = rangeOf(cost)
  if (range !== null && (unit !== 'requests' || typeof cost === 'number')) return range
  ignoreRejection(cost)
  throw new RangeError(`a cost ${costRule}; it got ${formatType(cost)}`)
}

function failCost (error: unknown, each: QuotaOfRequest, { server, log }: Requester): void {
  server.quotaLog.costFailed(error, each.quota.name, log)
  each.fail('cost')
}

/** Never throws. */
function addDemand (
  each: QuotaOfRequest,
  caller: Caller,
  cost: CostRange,
  { server, log }: Requester
): void {
  each.cost = cost
  try {
    each.demand = demandOf(each, caller, cost)
  } catch (error) {
    server.quotaLog.windowFailed(error, each.quota.name, log)
    each.fail('time-zone')
  }
}

/**
 * Returns what the store of a quota is asked for, and notes its calendar window. Throws if the time
 * zone of the caller, or when its windows begin, cannot be determined.
 */
export function demandOf (
  each: QuotaOfRequest,
  caller: Caller,
  { least, most }: CostRange
): Demand {
  const { quota, limit } = each
  const window = quota.windowNow === null ? null : quota.windowNow(caller)
  each.calendarWindow = window
  const isEstimate = quota.unit !== 'requests'
  const isInJournal = isEstimate && quota.longestWindow !== null && quota.isEnforced
  return {
    counters: quota.counters,
    callerKey: caller.callerKey,
    limit: limit === Infinity ? unlimited : limit,
    least,
    most,
    isEstimate,
    window: quota.longestWindow,
    start: window === null ? null : window.start,
    end: window === null ? null : window.end,
    unit: quota.unit,
    reference: isInJournal ? (each.reference ?? '') : null
  }
}
