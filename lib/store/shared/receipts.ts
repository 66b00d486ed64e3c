// A receipt is a text, so that any process can settle with it: fields with a space between them, of
// which the first says what was counted. Names stand there as they are stored, without spaces.
import { createHash } from 'node:crypto'
import { format } from '../../errors.js'
import { isNatural } from '../../option-checks.js'
import { required } from '../../required.js'
import { haveRoom } from '../side-by-side.js'
import type { Acquisition, Demand, Settled } from '../store.js'
import type { Decided, NamedPlace, Settlement } from './driver.js'
import { rowOf, storedName, storedPattern, unstoredName } from './stored-names.js'

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
    const decision = required(decided[index], 'the decision on a demand')
    const acquisition = acquisitionOf(decision)
    if (!isCounted) return acquisition
    const { counters, callerKey, window } = demand
    if (window === null) {
      const receipt = receiptOfPlace({ counters, callerKey, name: place })
      return { ...acquisition, receipt }
    }
    const { windowId, overflow } = decision
    const row = rowOf(callerKey, overflow)
    const reference = hasJournal ? demand.reference : null
    const receipt = receiptOfWindow({ counters, row, windowId, period, window, reference })
    return { ...acquisition, receipt }
  })
}

/** Returns what a server has decided, without what only a receipt says. */
function acquisitionOf (decided: Decided): Acquisition {
  const { admitted, granted, count, held, windowRemaining, end, overflow } = decided
  const acquisition = { admitted, granted, count, held, windowRemaining, overflow }
  return end === undefined ? acquisition : { ...acquisition, end }
}

function receiptOfWindow (counted: CountedInWindow): string {
  const { counters, row, windowId, period, window, reference } = counted
  const receipt = `window ${storedName(counters)} ${row} ${windowId} ${period} ${window}`
  return reference === null ? receipt : `${receipt} ${storedName(reference)}`
}

function receiptOfPlace ({ counters, callerKey, name }: NamedPlace): string {
  return `place ${storedName(counters)} ${storedName(callerKey)} ${name}`
}

const placePattern = new RegExp(`^place (${storedPattern}) (${storedPattern}) (\\S+)$`)
const windowPattern = new RegExp(
  `^window (${storedPattern}) (\\S*) (\\d+) (\\d+) (\\d+)(?: (${storedPattern}))?$`
)

/** @throws {TypeError} If the value is not a receipt of a store on a server. */
export function readReceipt (receipt: unknown): Receipt {
  const text = typeof receipt === 'string' ? receipt : ''
  const read = readPlace(text) ?? readWindow(text)
  if (read !== null) return read
  throw new TypeError(
    `a receipt must be one that acquire of this kind of store returned; it got ${format(receipt)}`
  )
}

function readPlace (receipt: string): Receipt | null {
  const fields = placePattern.exec(receipt)
  if (fields === null) return null
  const [, counters = '', callerKey = '', name = ''] = fields
  return {
    kind: 'place',
    place: { counters: unstoredName(counters), callerKey: unstoredName(callerKey), name }
  }
}

function readWindow (receipt: string): Receipt | null {
  const fields = windowPattern.exec(receipt)
  if (fields === null) return null
  const [, counters = '', row = '', ...others] = fields
  const [windowId, period, window] = others.map(Number)
  if (!isNatural(windowId) || !isNatural(period) || !isNatural(window)) return null
  const stored = others[3]
  const reference = stored === undefined ? null : unstoredName(stored)
  return {
    kind: 'window',
    counted: { counters: unstoredName(counters), row, windowId, period, window, reference }
  }
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
