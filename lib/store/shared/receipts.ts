// A receipt is a text, so that any process can settle with it: fields with a space between them, of
// which the first says what was counted. Names stand there as they are stored, without spaces.
import { createHash } from 'node:crypto'
import { format } from '../../errors.js'
import { isNatural } from '../../option-checks.js'
import { required } from '../../required.js'
import { haveRoom } from '../side-by-side.js'
import type { Acquisition, Demand, Settled } from '../store.js'
import type { Decided, NamedPlace, Settlement } from './driver.js'
import { readStoredName, rowOf, storedName } from './stored-names.js'

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
  const acquisitions: Acquisition[] = []
  for (const [index, demand] of demands.entries()) {
    const decision = required(decided[index], 'the decision on a demand')
    const acquisition = acquisitionOf(decision)
    if (isCounted) {
      const { counters, callerKey, window } = demand
      const { windowId, overflow } = decision
      if (window === null) {
        acquisition.receipt = receiptOfPlace({ counters, callerKey, name: place })
      } else {
        const row = rowOf(callerKey, overflow)
        const reference = hasJournal ? demand.reference : null
        acquisition.receipt = receiptOfWindow({
          counters, row, windowId, period, window, reference
        })
      }
    }
    acquisitions.push(acquisition)
  }
  return acquisitions
}

/** An acquisition that is completed in place: a copy with a receipt took more than 1 µs. */
type Incomplete = { -readonly [Field in keyof Acquisition]: Acquisition[Field] }

/** Returns what a server has decided, without what only a receipt says. */
function acquisitionOf (decided: Decided): Incomplete {
  const { admitted, granted, count, held, windowRemaining, end, overflow } = decided
  const acquisition: Incomplete = { admitted, granted, count, held, windowRemaining, overflow }
  if (end !== undefined) acquisition.end = end
  return acquisition
}

function receiptOfWindow (counted: CountedInWindow): string {
  const { counters, row, windowId, period, window, reference } = counted
  const receipt = `window ${storedName(counters)} ${row} ${windowId} ${period} ${window}`
  return reference === null ? receipt : `${receipt} ${storedName(reference)}`
}

function receiptOfPlace ({ counters, callerKey, name }: NamedPlace): string {
  return `place ${storedName(counters)} ${storedName(callerKey)} ${name}`
}

/** @throws {TypeError} If the value is not a receipt of a store on a server. */
export function readReceipt (receipt: unknown): Receipt {
  const fields = typeof receipt === 'string' ? receipt.split(' ') : []
  const read = readPlace(fields) ?? readWindow(fields)
  if (read !== null) return read
  throw new TypeError(
    `a receipt must be one that acquire of this kind of store returned; it got ${format(receipt)}`
  )
}

function readPlace (fields: readonly string[]): Receipt | null {
  if (fields[0] !== 'place' || fields.length !== 4) return null
  const counters = readStoredName(fields[1])
  const callerKey = readStoredName(fields[2])
  const name = readWord(fields[3])
  if (counters === null || callerKey === null || name === null || name === '') return null
  return { kind: 'place', place: { counters, callerKey, name } }
}

function readWindow (fields: readonly string[]): Receipt | null {
  const hasReference = fields.length === 7
  if (fields[0] !== 'window' || (fields.length !== 6 && !hasReference)) return null
  const counters = readStoredName(fields[1])
  const row = readWord(fields[2])
  const windowId = readInteger(fields[3])
  const period = readInteger(fields[4])
  const window = readInteger(fields[5])
  const reference = hasReference ? readStoredName(fields[6]) : null
  if (counters === null || row === null || (hasReference && reference === null)) return null
  if (windowId === null || period === null || window === null) return null
  return { kind: 'window', counted: { counters, row, windowId, period, window, reference } }
}

/** Reads a field that is used as it is. */
function readWord (field = ''): string | null {
  return /\s/.test(field) ? null : field
}

function readInteger (field = ''): number | null {
  const integer = Number(field)
  return /^\d+$/.test(field) && isNatural(integer) ? integer : null
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
  const lessHeld = new Map<number, number>()
  if (less.held > 0) lessHeld.set(period, less.held)
  return {
    counters,
    row,
    windowId,
    window,
    lessCount: less.count,
    lessHeld,
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
