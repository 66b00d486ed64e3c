// A receipt is a text, so that any process can settle with it: an array as JSON, whose first
// element says what was counted.
import { createHash } from 'node:crypto'
import { format } from '../../errors.js'
import { isNatural } from '../../option-checks.js'
import { required } from '../../required.js'
import { haveRoom } from '../side-by-side.js'
import type { Acquisition, Demand, Settled } from '../store.js'
import type { Decided, NamedPlace, Settlement } from './driver.js'
import { rowOf } from './stored-names.js'

/** What an acquisition counted in a window. */
export interface CountedInWindow {
  readonly counters: string
  /** The row of the counters: that of the caller, or that of the overflow counter. */
  readonly row: string
  readonly windowId: number
  /** The period in which it was counted. */
  readonly period: number
  /** The greatest length of the window in milliseconds. */
  readonly window: number
  /** The reference of the demand, for a journal; otherwise null. */
  readonly reference: string | null
}

/** What a receipt says. */
export type Receipt =
  | { readonly kind: 'window'; readonly counted: CountedInWindow }
  | { readonly kind: 'place'; readonly place: NamedPlace }

/**
 * Returns what `acquire` returns for the demands of a request. There are receipts if all have room,
 * since only then is anything counted.
 *
 * @param place The name of the places that the request takes.
 * @param period The period in which the server has decided.
 * @param hasJournal Whether receipts have references.
 */
export function acquisitionsOf (
  demands: readonly Demand[],
  decided: readonly Decided[],
  { place, period, hasJournal }: { place: string; period: number; hasJournal: boolean }
): Acquisition[] {
  const isCounted = haveRoom(decided)
  return demands.map((demand, index) => {
    const { windowId, ...acquisition } = required(decided[index], 'the decision on a demand')
    if (!isCounted) return acquisition
    const { counters, callerKey, window } = demand
    if (window === null) {
      const receipt = receiptOfPlace({ counters, callerKey, name: place })
      return { ...acquisition, receipt }
    }
    const row = rowOf(callerKey, acquisition.overflow)
    const reference = hasJournal ? demand.reference : null
    const receipt = receiptOfWindow({ counters, row, windowId, period, window, reference })
    return { ...acquisition, receipt }
  })
}

function receiptOfWindow (counted: CountedInWindow): string {
  const { counters, row, windowId, period, window, reference } = counted
  return JSON.stringify(['window', counters, row, windowId, period, window, reference])
}

function receiptOfPlace ({ counters, callerKey, name }: NamedPlace): string {
  return JSON.stringify(['place', counters, callerKey, name])
}

/** @throws {TypeError} If the value is not a receipt of a store on a server. */
export function readReceipt (receipt: unknown): Receipt {
  const [kind, ...fields] = arrayIn(receipt)
  if (kind === 'place') {
    const [counters, callerKey, name] = fields
    if (
      typeof counters === 'string' &&
      typeof callerKey === 'string' &&
      typeof name === 'string'
    ) {
      return { kind, place: { counters, callerKey, name } }
    }
  }
  if (kind === 'window') {
    const [counters, row, windowId, period, window, reference] = fields
    if (
      typeof counters === 'string' &&
      typeof row === 'string' &&
      isNatural(windowId) &&
      isNatural(period) &&
      isNatural(window) &&
      (reference === null || typeof reference === 'string')
    ) {
      return { kind, counted: { counters, row, windowId, period, window, reference } }
    }
  }
  throw unknownReceipt(receipt)
}

/**
 * @param once The text with which the window is settled once; null if there is none.
 */
export function settlementOf (
  counted: CountedInWindow,
  less: Settled,
  once: string | null
): Settlement {
  const { counters, row, windowId, period, window, reference } = counted
  return {
    counters,
    row,
    windowId,
    window,
    lessCount: less.count,
    lessHeld: new Map(less.held > 0 ? [[period, less.held]] : []),
    once: once === null ? null : nameOfOnce(counted, once),
    reference
  }
}

/**
 * Returns the name under which a server remembers that a settlement was applied once: of one length
 * for every receipt and text.
 */
function nameOfOnce (counted: CountedInWindow, once: string): string {
  const { counters, row, windowId } = counted
  const named = JSON.stringify([counters, row, windowId, once])
  return createHash('sha256').update(named).digest('base64url')
}

function arrayIn (receipt: unknown): readonly unknown[] {
  if (typeof receipt !== 'string') throw unknownReceipt(receipt)
  let value: unknown
  try {
    value = JSON.parse(receipt)
  } catch {
    throw unknownReceipt(receipt)
  }
  if (!Array.isArray(value)) throw unknownReceipt(receipt)
  return value
}

function unknownReceipt (receipt: unknown): TypeError {
  return new TypeError(
    `a receipt must be one that acquire of this kind of store returned; it got ${format(receipt)}`
  )
}
