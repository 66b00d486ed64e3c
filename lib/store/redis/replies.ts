import { shown } from '../../errors.js'
import type { Decided, StoredRequest } from '../shared/driver.js'
import type { CallerCount, CallerPage, Demand, QuotaCount, QuotaStoreState } from '../store.js'

const askAgain = -1
const [admittedFlag, overflowFlag, flagsRange] = [1, 2, 4]

/** Reads the reply of acquire.lua. */
export function readDecided (reply: unknown, requests: readonly StoredRequest[]): (Decided[] | undefined)[] {
  const values = readList(reply).map(readInteger)
  let next = 0
  const decided = requests.map(({ demands }) => {
    const isUndecided = values[next] === askAgain
    const decisions = demands.map((demand) => {
      const [count = 0, ...others] = values.slice(next, next += demand.window === null ? 2 : 3)
      const [last = 0, rest = 0] = others.reverse()
      const flags = last % flagsRange
      const reached = countOf(demand, count, rest, (flags & overflowFlag) !== 0)
      return { admitted: (flags & admittedFlag) !== 0, ...reached, nonce: (last - flags) / flagsRange }
    })
    return isUndecided ? undefined : decisions
  })
  if (values.length !== next) throw unexpected(reply)
  return decided
}

/** Reads the reply of peek.lua: the count, null, or the next cursor. */
export function readPeeked (reply: unknown, demand: Demand): QuotaCount | null | string {
  if (!Array.isArray(reply)) return String(readInteger(reply))
  if (reply.length === 0) return null
  const [count, rest, overflow] = reply.map(readInteger)
  if (count === undefined || rest === undefined) throw unexpected(reply)
  return countOf(demand, count, rest, overflow === 1)
}

/** Reads the reply of list.lua. */
export function readPage (reply: unknown): CallerPage {
  const [cursor, ...values] = readList(reply)
  const next = readInteger(cursor)
  const callers: CallerCount[] = []
  for (let index = 0; index < values.length; index += 3) {
    const left = readInteger(values[index + 2])
    callers.push({ callerKey: String(values[index]), count: readInteger(values[index + 1]), windowRemaining: left === 0 ? null : left })
  }
  return { callers, cursor: next === 0 ? null : String(next) }
}

/** Reads the reply of inspect.lua. */
export function readState (reply: unknown): QuotaStoreState {
  const [trackedCallers, sweeps] = readList(reply).map(readInteger)
  if (trackedCallers === undefined || sweeps === undefined) throw unexpected(reply)
  return { trackedCallers, sweeps }
}

function countOf ({ window, end }: Demand, count: number, rest: number, overflow: boolean): QuotaCount {
  if (end !== null) return { count, windowRemaining: null, end: rest, overflow }
  return { count, windowRemaining: window === null ? null : rest, overflow }
}

function readList (reply: unknown): unknown[] {
  if (!Array.isArray(reply)) throw unexpected(reply)
  return reply
}

// Depending on their options, clients return an integer as a number, a string, a bigint or a Buffer.
function readInteger (value: unknown): number {
  const number = typeof value === 'number' ? value : Number(value === '' || value === null ? NaN : String(value))
  if (!Number.isSafeInteger(number)) throw unexpected(value)
  return number
}

function unexpected (reply: unknown): TypeError {
  return new TypeError(`unexpected reply of the server: ${shown(reply)}`)
}
