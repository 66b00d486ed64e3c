// What the package's own stores check of the arguments of their functions: of demands, of
// settlements and of a caller key. The checks of each request stand without calls of `isNatural`,
// which were a tenth of the calls of a decision in memory.
import { format, formatType } from '../errors.js'
import { isNatural, isObject } from '../option-checks.js'
import type { Demand, Settled } from './store.js'

/** Throws a `TypeError` unless all demands are as described, and on different counters. */
export function assertDemands (demands: readonly Demand[]): void {
  for (const demand of demands) assertDemand(demand)
  // Most requests have one demand.
  if (demands.length > 1) assertDifferent(demands)
}

function assertDifferent (demands: readonly Demand[]): void {
  for (const [index, { counters }] of demands.entries()) {
    if (demands.slice(0, index).some((earlier) => earlier.counters === counters)) {
      throw new TypeError(`two demands of a request have the same counters ${format(counters)}`)
    }
  }
}

/** Throws a `TypeError` that names the field and its value unless the demand is as described. */
export function assertDemand (demand: Demand): void {
  const { counters, callerKey, limit, least, most, isEstimate, unit, reference } = demand
  const { window, start, end } = demand
  if (typeof counters !== 'string') rejectDemand('counters', 'a string', counters)
  if (typeof callerKey !== 'string') rejectDemand('callerKey', 'a string', callerKey)
  if (!Number.isSafeInteger(limit) || limit < 0) {
    rejectDemand('limit', 'an integer of at least 0', limit)
  }
  if (!Number.isSafeInteger(most) || most < 0) {
    rejectDemand('most', 'an integer of at least 0', most)
  }
  if (!Number.isSafeInteger(least) || least < 0 || least > most) {
    rejectDemand('least', 'an integer from 0 to most', least)
  }
  if (typeof isEstimate !== 'boolean') rejectDemand('isEstimate', 'true or false', isEstimate)
  if (typeof unit !== 'string') rejectDemand('unit', 'a string', unit)
  if (typeof reference !== 'string' && reference !== null) {
    rejectDemand('reference', 'a string or null', reference)
  }
  if (window === null) return assertPlace(demand)
  if (!Number.isSafeInteger(window) || window < 1) {
    rejectDemand('window', 'an integer of at least 1, or null', window)
  }
  if (start === null && end === null) return
  if (!isNatural(start)) rejectDemand('start', 'milliseconds since the epoch, as end is', start)
  if (!isNatural(end) || end <= start) {
    rejectDemand('end', 'milliseconds since the epoch, after start', end)
  }
}

/** Throws a `TypeError` unless the demand of a place is as described. */
function assertPlace ({ least, most, isEstimate, start, end }: Demand): void {
  if (least !== 1) rejectDemand('least', '1 for a concurrent request', least)
  if (most !== 1) rejectDemand('most', '1 for a concurrent request', most)
  if (!isEstimate) rejectDemand('isEstimate', 'true for a concurrent request', isEstimate)
  if (start !== null) rejectDemand('start', 'null for a concurrent request', start)
  if (end !== null) rejectDemand('end', 'null for a concurrent request', end)
}

function rejectDemand (field: keyof Demand, rule: string, value: unknown): never {
  throw new TypeError(`the field ${field} of a demand must be ${rule}; it got ${format(value)}`)
}

/**
 * Throws a `TypeError` unless a settlement is as described.
 *
 * @param less By how much an acquisition is lowered.
 * @param once The text with which it is applied only once, or undefined.
 */
export function assertSettlement (less: unknown, once: unknown): void {
  const { count, held }: { [Field in keyof Settled]?: unknown } = isObject(less) ? less : {}
  if (!isNatural(count)) rejectSettlement('count', 'an integer of at least 0', count)
  if (!isNatural(held)) rejectSettlement('held', 'an integer of at least 0', held)
  if (once !== undefined && typeof once !== 'string') {
    rejectSettlement('once', 'a string or undefined', once)
  }
}

function rejectSettlement (field: keyof Settled | 'once', rule: string, value: unknown): never {
  throw new TypeError(`the ${field} of a settlement must be ${rule}; it got ${format(value)}`)
}

const callerKeyPattern = /^[0-9a-f]{64}$/

/** Whether a value is a digest as `callerKey` returns it. */
export function isCallerKey (value: unknown): value is string {
  return typeof value === 'string' && callerKeyPattern.test(value)
}

/** Throws a `TypeError` unless the value is a digest as `callerKey` returns it. */
export function assertCallerKey (value: unknown): asserts value is string {
  if (!isCallerKey(value)) {
    throw new TypeError(
      'the callerKey of a call of forget must be 64 hexadecimal digits, as callerKey() ' +
        `returns them; it got ${formatType(value)}`
    )
  }
}
