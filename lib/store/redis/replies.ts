import { format } from '../../errors.js'
import type { Decided, Reply, StoredRequest } from '../shared/driver.js'
import type { CallerCount, CallerPage, Demand, QuotaCount, QuotaStoreState } from '../store.js'

// What decide.lua returns in place of a request that must be sent again, and in place of what was
// granted if there is no room.
const askAgain = -2
const noRoom = -1

/** Reads the integers of a reply one after the other. */
class ReplyReader {
  readonly #values: readonly unknown[]
  #position = 0

  constructor (reply: unknown) {
    if (!Array.isArray(reply)) throw unexpected(reply)
    this.#values = reply
  }

  get isAtEnd (): boolean {
    return this.#position === this.#values.length
  }

  get next (): unknown {
    return this.#values[this.#position]
  }

  integer (): number {
    return readInteger(this.#take())
  }

  natural (): number {
    const value = this.#take()
    const number = readInteger(value)
    if (number < 0) throw unexpected(value)
    return number
  }

  boolean (): boolean {
    const value = this.#take()
    const number = readInteger(value)
    if (number !== 0 && number !== 1) throw unexpected(value)
    return number === 1
  }

  text (): string {
    return String(this.#take())
  }

  /** Throws unless all has been read. */
  end (): void {
    if (!this.isAtEnd) throw unexpected(this.#values)
  }

  #take (): unknown {
    if (this.isAtEnd) throw unexpected(this.#values)
    const value = this.#values[this.#position]
    this.#position += 1
    return value
  }
}

/** Reads the reply of decide.lua. */
export function readReply (reply: unknown, requests: readonly StoredRequest[]): Reply {
  const reader = new ReplyReader(reply)
  const latestNumber = reader.natural()
  const decided = requests.map((demands) => {
    if (reader.isAtEnd) throw unexpected(reply)
    if (readInteger(reader.next) === askAgain) {
      reader.integer()
      return undefined
    }
    return demands.map((demand) => readDecided(reader, demand))
  })
  reader.end()
  return { decided, latestNumber }
}

function readDecided (reader: ReplyReader, demand: Demand): Decided {
  const grantedOrNoRoom = reader.integer()
  const admitted = grantedOrNoRoom !== noRoom
  const granted = admitted ? grantedOrNoRoom : 0
  if (granted < 0) throw unexpected(granted)
  const count = reader.natural()
  const held = reader.natural()
  const left = reader.natural()
  const windowId = reader.natural()
  const overflow = reader.boolean()
  const isOpenEnded = demand.window === null || demand.end !== null
  const windowRemaining = isOpenEnded ? null : left
  if (demand.end === null) {
    return { admitted, granted, count, held, windowRemaining, overflow, windowId }
  }
  return { admitted, granted, count, held, windowRemaining, end: left, overflow, windowId }
}

/** Reads the reply of peek.lua: the count, null, or the next cursor. */
export function readPeeked (reply: unknown, demand: Demand): QuotaCount | null | number {
  if (!Array.isArray(reply)) return readInteger(reply)
  if (reply.length === 0) return null
  const reader = new ReplyReader(reply)
  const count = reader.natural()
  const held = reader.natural()
  const left = reader.natural()
  const overflow = reader.boolean()
  reader.end()
  return { count, held, overflow, ...windowOf(demand, left) }
}

/** Reads the reply of list.lua. */
export function readPage (reply: unknown): CallerPage {
  const reader = new ReplyReader(reply)
  const cursor = reader.text()
  const callers: CallerCount[] = []
  while (!reader.isAtEnd) {
    const callerKey = reader.text()
    const count = reader.natural()
    const held = reader.natural()
    const left = reader.natural()
    const end = reader.natural()
    const windowRemaining = left === 0 ? null : left
    callers.push({ callerKey, count, held, windowRemaining, ...(end !== 0 && { end }) })
  }
  if (!/^\d+$/.test(cursor)) throw unexpected(reply)
  return { callers, cursor: cursor === '0' ? null : cursor }
}

/** Reads a reply of 1 or 0. */
export function readFlag (reply: unknown): boolean {
  return new ReplyReader([reply]).boolean()
}

/** Reads the reply of inspect.lua. */
export function readState (reply: unknown): QuotaStoreState {
  const reader = new ReplyReader(reply)
  const trackedCallers = reader.natural()
  const sweeps = reader.natural()
  reader.end()
  return { trackedCallers, sweeps }
}

/** @param left How long the window stays open, or when it ends; 0 for a place. */
function windowOf (
  { window, end }: Demand,
  left: number
): Pick<QuotaCount, 'windowRemaining' | 'end'> {
  if (window === null) return { windowRemaining: null }
  return end === null ? { windowRemaining: left } : { windowRemaining: null, end: left }
}

// Depending on their options, clients return an integer as a number, a string, a bigint or a
// Buffer.
function readInteger (value: unknown): number {
  if (typeof value === 'number' && Number.isSafeInteger(value)) return value
  const text = String(value)
  const number = text === '' ? NaN : Number(text)
  if (typeof value === 'number' || !Number.isSafeInteger(number)) throw unexpected(value)
  return number
}

function unexpected (reply: unknown): TypeError {
  return new TypeError(`unexpected reply of the server: ${format(reply)}`)
}
