import { shown } from '../../errors.js'
import type { Acquisition, Entry, QuotaCount, QuotaStoreState } from '../store.js'

const [admittedFlag, overflowFlag] = [1, 2]
const [flagsRange, windowRange] = [4, 2 ** 27]

/** Reads the reply of acquire.lua to one decision. Returns undefined if the decision must be sent again. */
export function readAcquisition (reply: unknown): Acquisition | undefined {
  const packed = readInteger(reply)
  if (packed === -1) return undefined
  const [count, windowRemaining, flags] = packed === undefined ? readNumbers(reply, 3) : unpacked(packed)
  assertCounter(reply, count, windowRemaining)
  return { admitted: (flags & admittedFlag) !== 0, count, windowRemaining, overflow: (flags & overflowFlag) !== 0 }
}

/** Reads the reply of peek.lua: the count, null, or the next cursor. */
export function readCount (reply: unknown): QuotaCount | null | string {
  const text = String(reply)
  if (text === '0') return null
  if (/^\d+$/.test(text)) return text
  const [count, windowRemaining, overflow] = readNumbers(reply, 3)
  assertCounter(reply, count, windowRemaining)
  return { count, windowRemaining, overflow: overflow === 1 }
}

/** Reads the reply of inspect.lua. */
export function readState (reply: unknown): QuotaStoreState {
  const [trackedCallers, sweeps] = readNumbers(reply, 2)
  return { trackedCallers, sweeps }
}

/** Reads the reply of places.lua to one entry. */
export function readEntry (reply: unknown): Entry {
  const taken = readInteger(reply)
  if (taken === undefined || taken === 0) throw notUnderstood(reply)
  return taken > 0 ? { admitted: true, count: taken } : { admitted: false, count: -taken - 1 }
}

function unpacked (packed: number): [number, number, number] {
  const flags = packed % flagsRange
  const rest = (packed - flags) / flagsRange
  return [Math.floor(rest / windowRange), rest % windowRange, flags]
}

// Depending on their options, clients return an integer as a number, a string, a bigint or a Buffer.
function readInteger (reply: unknown): number | undefined {
  if (typeof reply === 'number') return reply
  const text = String(reply)
  return /^-?\d+$/.test(text) ? Number(text) : undefined
}

function readNumbers (reply: unknown, length: 2): [number, number]
function readNumbers (reply: unknown, length: 3): [number, number, number]
function readNumbers (reply: unknown, length: number): number[] {
  const parts = String(reply).split(' ')
  if (parts.length !== length || !parts.every((part) => /^\d[\d.e+-]*$/.test(part) && Number.isFinite(Number(part)))) throw notUnderstood(reply)
  return parts.map(Number)
}

function assertCounter (reply: unknown, count: number, windowRemaining: number): void {
  if (!Number.isSafeInteger(count) || count < 0 || !(windowRemaining > 0)) throw notUnderstood(reply)
}

function notUnderstood (reply: unknown): TypeError {
  return new TypeError(`unexpected reply of the server: ${shown(reply)}`)
}
