import { format } from '../../errors.js'
import type { Decided, Reply, RequestOfCall } from '../shared/driver.js'
import { unstoredName } from '../shared/stored-names.js'
import type { CallerCount, CallerPage, Demand, QuotaCount, QuotaStoreState } from '../store.js'

/** Reads the numbers of a reply, which are integers of at least 0, one after the other. */
class NumberReader {
  readonly #reply: unknown
  readonly #texts: readonly string[]
  #position = 0

  /** @param reply Numbers with spaces between them, as a string or a Buffer. */
  constructor (reply: unknown) {
    this.#reply = reply
    const isText = typeof reply === 'string' || reply instanceof Buffer
    const text = isText ? String(reply) : ''
    this.#texts = /^[-\d ]*$/.test(text) ? text.split(' ') : []
  }

  next (): number {
    const text = this.#texts[this.#position]
    this.#position += 1
    const number = Number(text)
    const isMissing = text === undefined || text === ''
    if (isMissing || number < 0 || !Number.isSafeInteger(number)) throw unexpected(this.#reply)
    return number
  }

  /** Returns null for -1. */
  nextOrNull (): number | null {
    if (this.#texts[this.#position] !== '-1') return this.next()
    this.#position += 1
    return null
  }

  boolean (): boolean {
    const number = this.next()
    if (number > 1) throw unexpected(this.#reply)
    return number === 1
  }

  /** Throws unless all has been read. */
  end (): void {
    if (this.#position !== this.#texts.length) throw unexpected(this.#reply)
  }
}

/** Reads the reply of decide.lua. */
export function readReply (reply: unknown, requests: readonly RequestOfCall[]): Reply {
  const reader = new NumberReader(reply)
  const period = reader.next()
  const decided = requests.map(({ demands }) =>
    demands.map((demand) => readDecided(reader, demand, period))
  )
  reader.end()
  return decided
}

function readDecided (reader: NumberReader, demand: Demand, period: number): Decided {
  const grantedIfRoom = reader.nextOrNull()
  const admitted = grantedIfRoom !== null
  const granted = grantedIfRoom ?? 0
  const count = reader.next()
  const held = reader.next()
  const { windowRemaining, end } = windowOf(demand, reader.next())
  const windowId = reader.next()
  const overflow = reader.boolean()
  const decided = { admitted, granted, count, held, windowRemaining, overflow, windowId, period }
  return end === undefined ? decided : { ...decided, end }
}

/** Reads the reply of peek.lua. */
export function readPeeked (reply: unknown, demand: Demand): QuotaCount | null {
  if (reply === '' || (reply instanceof Buffer && reply.length === 0)) return null
  const reader = new NumberReader(reply)
  const count = reader.next()
  const held = reader.next()
  const window = windowOf(demand, reader.next())
  const overflow = reader.boolean()
  reader.end()
  return { count, held, overflow, ...window }
}

/** Reads the reply of peek-places.lua. */
export function readPlaces (reply: unknown): QuotaCount {
  const reader = new NumberReader(reply)
  const count = reader.next()
  reader.end()
  return { count, held: count, windowRemaining: null, overflow: false }
}

/** Reads the reply of list.lua. */
export function readPage (reply: unknown): CallerPage {
  if (!Array.isArray(reply)) throw unexpected(reply)
  const [cursor, ...values]: readonly unknown[] = reply
  if (!/^\d+$/.test(String(cursor)) || values.length % 2 === 1) throw unexpected(reply)
  const callers: CallerCount[] = []
  for (let index = 0; index < values.length; index += 2) {
    const reader = new NumberReader(values[index + 1])
    const count = reader.next()
    const held = reader.next()
    const left = reader.next()
    const end = reader.next()
    reader.end()
    const windowRemaining = left === 0 ? null : left
    const callerKey = unstoredName(String(values[index]))
    const caller = { callerKey, count, held, windowRemaining }
    callers.push(end === 0 ? caller : { ...caller, end })
  }
  return { callers, cursor: String(cursor) === '0' ? null : String(cursor) }
}

/** Reads the reply of inspect.lua. */
export function readState (reply: unknown): QuotaStoreState {
  const reader = new NumberReader(reply)
  const trackedCallers = reader.next()
  const sweeps = reader.next()
  reader.end()
  return { trackedCallers, sweeps }
}

/** @param leftOrEnd How long the window stays open or, if the demand has an end, when it ends. */
function windowOf (
  { window, end }: Demand,
  leftOrEnd: number
): Pick<QuotaCount, 'windowRemaining' | 'end'> {
  if (window === null) return { windowRemaining: null }
  return end === null
    ? { windowRemaining: leftOrEnd }
    : { windowRemaining: null, end: leftOrEnd }
}

function unexpected (reply: unknown): TypeError {
  return new TypeError(`unexpected reply of the server: ${format(reply)}`)
}
