import { format } from '../../errors.js'
import type { Call, Decided, Reply } from '../shared/driver.js'
import { unstoredName } from '../shared/stored-names.js'
import type { CallerCount, CallerPage, Demand, QuotaCount } from '../store.js'

/** Reads the texts of a reply one after the other. */
class ReplyReader {
  readonly #reply: unknown
  readonly #texts: readonly unknown[]
  #position = 0

  /** @param texts Those of the reply. */
  constructor (reply: unknown, texts: readonly unknown[]) {
    this.#reply = reply
    this.#texts = texts
  }

  get hasMore (): boolean {
    return this.#position < this.#texts.length
  }

  /** Returns an integer of at least 0. */
  next (): number {
    const number = this.nextOrNull()
    if (number === null) throw unexpected(this.#reply)
    return number
  }

  /** Returns an integer of at least 0, or null for -1. */
  nextOrNull (): number | null {
    const text = this.text()
    const number = text === '' ? NaN : Number(text)
    if (number === -1) return null
    if (!Number.isSafeInteger(number) || number < 0) throw unexpected(this.#reply)
    return number
  }

  boolean (): boolean {
    const number = this.next()
    if (number > 1) throw unexpected(this.#reply)
    return number === 1
  }

  text (): string {
    const text = textOf(this.#texts[this.#position])
    if (text === null) throw unexpected(this.#reply)
    this.#position += 1
    return text
  }

  /** Returns the cursor of the next page, null after the last one. */
  cursor (): string | null {
    const cursor = this.text()
    if (!/^\d+$/.test(cursor)) throw unexpected(this.#reply)
    return cursor === '0' ? null : cursor
  }

  /** Throws unless all has been read. */
  end (): void {
    if (this.hasMore) throw unexpected(this.#reply)
  }
}

/** Returns a text, which a client can return as a Buffer; null for anything else. */
function textOf (value: unknown): string | null {
  if (typeof value === 'string') return value
  return value instanceof Buffer ? value.toString() : null
}

/** Reads the reply of decide.lua. */
export function readReply (reply: unknown, call: Call): Reply {
  const text = textOf(reply)
  if (text === null) throw unexpected(reply)
  const reader = new ReplyReader(reply, text.split(' '))
  const period = reader.next()
  const applied = call.settlements.map(({ once }) => once === null || reader.boolean())
  const decided = call.requests.map(({ demands }) =>
    demands.map((demand) => readDecided(reader, demand))
  )
  const standings = call.standings.map((demand) => readStanding(reader, demand))
  reader.end()
  return { period, applied, decided, standings }
}

function readDecided (reader: ReplyReader, demand: Demand): Decided {
  const granted = reader.nextOrNull()
  const windowId = reader.next()
  const count = readCount(reader, demand, reader.next())
  return { admitted: granted !== null, granted: granted ?? 0, ...count, windowId }
}

function readStanding (reader: ReplyReader, demand: Demand): QuotaCount | null {
  const count = reader.nextOrNull()
  return count === null ? null : readCount(reader, demand, count)
}

/** @param count What is counted, which was already read. */
function readCount (
  reader: ReplyReader,
  { window, end }: Demand,
  count: number
): QuotaCount & { readonly overflow: boolean } {
  const held = reader.next()
  const leftOrEnd = reader.next()
  const overflow = reader.boolean()
  if (window === null) return { count, held, windowRemaining: null, overflow }
  if (end === null) return { count, held, windowRemaining: leftOrEnd, overflow }
  return { count, held, windowRemaining: null, end: leftOrEnd, overflow }
}

/** Reads the reply of list.lua. */
export function readPage (reply: unknown): CallerPage {
  const reader = readerOfList(reply)
  const cursor = reader.cursor()
  const callers: CallerCount[] = []
  while (reader.hasMore) {
    const callerKey = unstoredName(reader.text())
    const count = reader.next()
    const held = reader.next()
    const left = reader.next()
    const end = reader.next()
    const caller = { callerKey, count, held, windowRemaining: left === 0 ? null : left }
    callers.push(end === 0 ? caller : { ...caller, end })
  }
  return { callers, cursor }
}

/** Reads the reply of inspect.lua. */
export function readCallers (reply: unknown): { count: number; cursor: string | null } {
  const reader = readerOfList(reply)
  const cursor = reader.cursor()
  const count = reader.next()
  reader.end()
  return { count, cursor }
}

function readerOfList (reply: unknown): ReplyReader {
  if (!Array.isArray(reply)) throw unexpected(reply)
  return new ReplyReader(reply, reply)
}

function unexpected (reply: unknown): TypeError {
  return new TypeError(`unexpected reply of the server: ${format(reply)}`)
}
