import { shown } from '../../errors.js'
import type { Decided } from '../shared/driver.js'
import type { CallerCount, CallerPage, Demand, QuotaCount, QuotaStoreState } from '../store.js'
import type { Decision } from './arguments.js'

const [askAgain, admittedFlag, overflowFlag, flagsRange, nonces, times] = [
  -1,
  1,
  2,
  4,
  2 ** 16,
  2 ** 32
]

/**
 * Reads the reply of acquire.lua to requests. In the columns, their decisions are in the order of
 * the reply.
 */
export function readDecided (
  reply: unknown,
  requests: readonly (readonly Decision[])[],
  columns: readonly (readonly Decision[])[]
): (Decided[] | undefined)[] {
  const values = readList(reply).map(readInteger)
  const decided = new Map<Decision, Decided>()
  let next = 0
  for (const column of columns) {
    const now = values[next++]
    for (const decision of column) {
      decided.set(decision, readCount(decision.demand, now, values[next++], values[next++]))
    }
  }
  if (values.length !== next) throw unexpected(reply)
  return requests.map((decisions) => {
    const results = decisions.map((decision): Decided => Object(decided.get(decision)))
    return results.some(({ count }) => count === askAgain) ? undefined : results
  })
}

/** Reads the reply of peek.lua: the count, null, or the next cursor. */
export function readPeeked (reply: unknown, demand: Demand): QuotaCount | null | string {
  if (!Array.isArray(reply)) return String(readInteger(reply))
  if (reply.length === 0) return null
  if (reply.length !== 3) throw unexpected(reply)
  const { admitted, nonce, ...count } = readCount(demand, ...reply.map(readInteger))
  return count
}

/** Reads the reply of list.lua. */
export function readPage (reply: unknown): CallerPage & QuotaStoreState {
  const [rows, count, cursor, ...values] = readList(reply)
  const [trackedCallers, sweeps, next] = [
    readInteger(rows),
    readInteger(count),
    readInteger(cursor)
  ]
  const callers: CallerCount[] = []
  for (let index = 0; index < values.length; index += 3) {
    const left = readInteger(values[index + 2])
    callers.push({
      callerKey: String(values[index]),
      count: readInteger(values[index + 1]),
      windowRemaining: left === 0 ? null : left
    })
  }
  return { trackedCallers, sweeps, callers, cursor: next === 0 ? null : String(next) }
}

// The age of a window is how long ago it began, or how much later than the demand's end it ends.
function readCount ({ window, end }: Demand, now = 0, count = 0, last = 0): Decided {
  const flags = last % flagsRange
  const age = Math.floor(last / flagsRange / nonces)
  const opened = end === null ? now - age : end + age
  const nonce = (opened % times) * nonces + (Math.floor(last / flagsRange) % nonces)
  const [admitted, overflow] = [(flags & admittedFlag) !== 0, (flags & overflowFlag) !== 0]
  if (end !== null) return { admitted, count, windowRemaining: null, end: opened, overflow, nonce }
  return {
    admitted,
    count,
    windowRemaining: window === null ? null : window - age,
    overflow,
    nonce
  }
}

function readList (reply: unknown): unknown[] {
  if (!Array.isArray(reply)) throw unexpected(reply)
  return reply
}

// Depending on their options, clients return an integer as a number, a string, a bigint or a
// Buffer.
function readInteger (value: unknown): number {
  const number =
    typeof value === 'number' ? value : Number(value === '' || value === null ? NaN : String(value))
  if (!Number.isSafeInteger(number)) throw unexpected(value)
  return number
}

function unexpected (reply: unknown): TypeError {
  return new TypeError(`unexpected reply of the server: ${shown(reply)}`)
}
