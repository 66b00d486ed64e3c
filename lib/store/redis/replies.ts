import { shown } from '../../errors.js'
import type { Acquisition, QuotaCount, QuotaStoreState } from '../store.js'
import { newWindow } from './peek-script.js'
import { askAgain } from './sweep-parts.js'

/** Reads the acquire script's reply to one decision. Returns undefined if the decision must be sent again. */
export function readAcquisition (reply: unknown): Acquisition | undefined {
  const integer = readInteger(reply)
  return integer === askAgain ? undefined : readCounter(integer, reply)
}

/** Reads the peek script's reply: the count, null, or the next cursor. */
export function readCount (reply: unknown): QuotaCount | null | string {
  const integer = readInteger(reply)
  if (integer === newWindow) return null
  const [, cursor] = /^next (\d+)$/.exec(String(reply)) ?? []
  if (cursor !== undefined) return cursor
  const { count, windowRemaining, overflow } = readCounter(integer, reply)
  return { count, windowRemaining, overflow }
}

/** Reads the inspect script's reply: the state of one page, and the next cursor. */
export function readPage (reply: unknown): QuotaStoreState & { cursor: string } {
  const [, trackedCallers, sweeps, cursor] = /^(\d+) (\d+) (\d+)$/.exec(String(reply)) ?? []
  if (cursor === undefined) throw notUnderstood(reply)
  return { trackedCallers: Number(trackedCallers), sweeps: Number(sweeps), cursor }
}

function readCounter (integer: number | undefined, reply: unknown): Acquisition {
  if (integer === undefined) return readText(String(reply), reply)
  const packed = integer % 2 ** 28
  if (packed < 4) throw notUnderstood(reply)
  return { admitted: (packed & 1) === 1, count: (integer - packed) / 2 ** 28, windowRemaining: (packed >>> 2) / 1000, overflow: (packed & 2) === 2 }
}

function readText (text: string, reply: unknown): Acquisition {
  const [, count, microseconds, overflow, admitted] = /^(\d+) (\d+) ([01]) ([01])$/.exec(text) ?? []
  if (count === undefined) throw notUnderstood(reply)
  return { admitted: admitted === '1', count: Number(count), windowRemaining: Number(microseconds) / 1000, overflow: overflow === '1' }
}

// Depending on their options, clients return an integer as a number, a string, a bigint or a Buffer.
function readInteger (reply: unknown): number | undefined {
  if (typeof reply === 'number') return reply
  const text = String(reply)
  return /^-?\d+$/.test(text) ? Number(text) : undefined
}

function notUnderstood (reply: unknown): TypeError {
  return new TypeError(`unexpected reply of the server: ${shown(reply)}`)
}
