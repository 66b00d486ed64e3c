import { createParser, type EventSourceParser } from 'eventsource-parser'
import { JsonNesting } from './json-nesting.js'

/**
 * The longest chunk that is read, in characters: a body of one JSON object, a line, an event, or an
 * element of an array. What is longer is passed on and not read.
 */
const longestChunk = 16 * 1024 * 1024

/** Takes the text of a chunk; returns whether it is JSON. */
export type ChunkConsumer = (text: string) => boolean

/** Splits a text, as it arrives, into chunks. Both functions throw if one is too long. */
export interface Splitter {
  write(text: string): void
  /**
   * Reads what is left, a chunk that was cut off included. Returns whether the text is one JSON
   * object or array that is whole.
   */
  end(): boolean
}

/**
 * Returns the splitter for a body that begins with this text; null if it is not one that can be
 * split.
 *
 * @param text It begins with no white space.
 */
export function splitterFor (text: string, consume: ChunkConsumer): Splitter | null {
  const first = text.charAt(0)
  if (first === '{') return new LineSplitter(consume)
  if (first === '[') return new ArraySplitter(consume)
  // A comment, or the name of a field.
  return /[:a-z]/i.test(first) ? new EventSplitter(consume) : null
}

/** A text that grows, up to the longest chunk. */
class GrowingText {
  #parts: string[] = []
  #length = 0

  add (part: string): void {
    this.#length += part.length
    if (this.#length > longestChunk) throw new RangeError('a chunk is too long')
    if (part !== '') this.#parts.push(part)
  }

  /** Returns the text, and begins a new one. */
  take (): string {
    const text = this.#parts.join('')
    this.#parts = []
    this.#length = 0
    return text
  }
}

/** A chunk that is not JSON, in place of a line that is no part of an event. */
const foreignLine = '?'

/** Splits server-sent events: each one's data is a chunk. */
class EventSplitter implements Splitter {
  readonly #parser: EventSourceParser
  #isTooLong = false

  constructor (consume: ChunkConsumer) {
    this.#parser = createParser({
      maxBufferSize: longestChunk,
      onEvent: ({ data }) => consume(data),
      onError: ({ type }) => {
        if (type === 'max-buffer-size-exceeded') this.#isTooLong = true
        else if (type === 'unknown-field') consume(foreignLine)
      }
    })
  }

  write (text: string): void {
    this.#parser.feed(text)
    if (this.#isTooLong) throw new RangeError('a chunk is too long')
  }

  end (): boolean {
    // Some servers do not end their last event. One that was cut off is not JSON.
    this.write('\n\n')
    return false
  }
}

/**
 * Splits lines of JSON, or reads one JSON object, which can have several lines. Only a line feed
 * ends a line: JSON can contain U+2028, at which `node:readline` would split it.
 */
class LineSplitter implements Splitter {
  readonly #consume: ChunkConsumer
  readonly #pending = new GrowingText()
  #objects = 0
  #isOneObject = false

  constructor (consume: ChunkConsumer) {
    this.#consume = consume
  }

  write (text: string): void {
    let start = 0
    let end = this.#isOneObject ? -1 : text.indexOf('\n')
    while (end !== -1) {
      this.#pending.add(text.slice(start, end))
      this.#readLine(this.#pending.take())
      start = end + 1
      end = this.#isOneObject ? -1 : text.indexOf('\n', start)
    }
    this.#pending.add(text.slice(start))
  }

  end (): boolean {
    const rest = this.#pending.take()
    if (rest.trim() === '') return this.#objects === 1
    return this.#consume(rest) && this.#objects === 0
  }

  #readLine (line: string): void {
    if (line.trim() === '') return
    if (this.#consume(line)) {
      this.#objects += 1
    } else if (this.#objects === 0) {
      this.#isOneObject = true
      this.#pending.add(`${line}\n`)
    }
  }
}

/** Splits a JSON array into those of its elements that are objects or arrays. */
class ArraySplitter implements Splitter {
  readonly #consume: ChunkConsumer
  readonly #pending = new GrowingText()
  /** How many objects and arrays are open. */
  #depth = 0
  readonly #nesting = new JsonNesting()

  constructor (consume: ChunkConsumer) {
    this.#consume = consume
  }

  write (text: string): void {
    let start = 0
    for (let position = 0; position < text.length; position += 1) {
      const change = this.#nesting.change(text.charCodeAt(position))
      if (change === 0) continue
      if (change === 1 && this.#depth === 1) start = position
      this.#depth += change
      if (change === -1 && this.#depth === 1) {
        this.#pending.add(text.slice(start, position + 1))
        this.#consume(this.#pending.take())
      }
    }
    if (this.#depth > 1) this.#pending.add(text.slice(start))
  }

  end (): boolean {
    if (this.#depth > 1) this.#consume(this.#pending.take())
    return this.#depth === 0
  }
}
