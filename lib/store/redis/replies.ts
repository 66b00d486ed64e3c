import { format } from '../../errors.js'
import type { Call, Decided, Reply } from '../shared/driver.js'
import { unstoredName } from '../shared/stored-names.js'
import type { CallerCount, CallerPage, Demand, QuotaCount } from '../store.js'

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
    return this.isNull() ? null : this.next()
  }

  /** Whether -1 follows, which is then read. */
  isNull (): boolean {
    if (this.#texts[this.#position] !== '-1') return false
    this.#position += 1
    return true
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
export function readReply (reply: unknown, call: Call): Reply {
  const reader = new NumberReader(reply)
  const period = reader.next()
  const applied = call.settlements.map(({ once }) => once === null || reader.boolean())
  const decided = call.requests.map(({ demands }) =>
    demands.map((demand) => readDecided(reader, demand))
  )
  const standings = call.standings.map((demand) => readStanding(reader, demand))
  reader.end()
  return { period, applied, decided, standings }
}

function readDecided (reader: NumberReader, demand: Demand): Decided {
  const granted = reader.nextOrNull()
  const count = readCount(reader, demand)
  const windowId = reader.next()
  return { admitted: granted !== null, granted: granted ?? 0, ...count, windowId }
}

function readStanding (reader: NumberReader, demand: Demand): QuotaCount | null {
  return reader.isNull() ? null : readCount(reader, demand)
}

function readCount (
  reader: NumberReader,
  { window, end }: Demand
): QuotaCount & { readonly overflow: boolean } {
  const count = reader.next()
  const held = reader.next()
  const leftOrEnd = reader.next()
  const overflow = reader.boolean()
  if (window === null) return { count, held, windowRemaining: null, overflow }
  if (end === null) return { count, held, windowRemaining: leftOrEnd, overflow }
  return { count, held, windowRemaining: null, end: leftOrEnd, overflow }
}

/** Reads the reply of list.lua. */
export function readPage (reply: unknown): CallerPage {
  const { cursor, values } = readCursor(reply)
  if (values.length % 2 === 1) throw unexpected(reply)
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
  return { callers, cursor }
}

/** Reads the reply of inspect.lua. */
export function readCallers (reply: unknown): { count: number; cursor: string | null } {
  const { cursor, values: [text, ...others] } = readCursor(reply)
  if (others.length > 0) throw unexpected(reply)
  const reader = new NumberReader(text)
  const count = reader.next()
  reader.end()
  return { count, cursor }
}

/** Reads a list with the cursor of the next page, null after the last one, and other values. */
function readCursor (reply: unknown): { cursor: string | null; values: readonly unknown[] } {
  if (!Array.isArray(reply)) throw unexpected(reply)
  const [first, ...values]: readonly unknown[] = reply
  const cursor = String(first)
  if (!/^\d+$/.test(cursor)) throw unexpected(reply)
  return { cursor: cursor === '0' ? null : cursor, values }
}

function unexpected (reply: unknown): TypeError {
  return new TypeError(`unexpected reply of the server: ${format(reply)}`)
}
