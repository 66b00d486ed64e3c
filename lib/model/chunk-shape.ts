import { reasonNames } from './ending.js'
import { isLabel } from './envelope-names.js'
import { modelNames } from './model-name.js'

// Most chunks of a stream are the same text but for a few strings and numbers. They need not be
// parsed, as long as this holds: whatever in a chunk ends the response, states a usage or the
// model, or decides which strings are text stands outside of what can differ. It is then the same
// in each chunk of a shape, and says in each what it said in the two that were parsed.
//
// - Only digits can differ, and strings that are values of properties: `kindOf`. So neither a name
//   can, nor an end that is stated as `true`.
// - No string and no digits that a rule of another file compares: `meaningfulNames`.
// - The texts among them must be all that counted in the two chunks that were parsed. So nothing
//   that counts in another way, such as the arguments of a tool or a text that is stated twice, can
//   differ.
// - From a chunk that can state a usage, or that ends the response, `BodyReader` learns no shape.

/** A chunk that was parsed, and the bytes of what the model wrote in it. */
interface MeasuredChunk {
  readonly json: string
  readonly textBytes: number
}

/** A value that differs from chunk to chunk. */
interface Variable {
  /** What all chunks have in common before it, from the end of the variable before on. */
  readonly before: string
  /** A string whose text counts, another string, or digits. */
  readonly kind: 'text' | 'string' | 'digits'
}

const quotationMark = 0x22
const backslash = 0x5c

/** Strings and digits. */
const values = /("(?:[^"\\]|\\.)*"|\d+)/

/**
 * Names of the strings and digits that rules compare: those of an end (`Ending`), of the name of
 * the model (`modelOf`), and of what is text (`TextCounter`). A rule that compares another needs
 * its name here.
 */
const meaningfulNames = new Set([
  'index',
  'type',
  'event_type',
  'object',
  ...reasonNames,
  ...modelNames
])

/**
 * The shape of chunks that differ only in a text and in values without a meaning, such as the time.
 * In a stream, nearly all do, and to compare them with a shape takes a tenth of the time that it
 * takes to parse them and to look for a text, a usage and an end.
 */
class ChunkShape {
  readonly #variables: readonly Variable[]
  /** What all chunks have in common after the last variable. */
  readonly #rest: string

  private constructor (variables: readonly Variable[], rest: string) {
    this.#variables = variables
    this.#rest = rest
  }

  /**
   * Returns the shape that two chunks have; null if they differ in something with a meaning, or if
   * the texts in which they differ are not all that the model wrote in them.
   */
  static of (first: MeasuredChunk, second: MeasuredChunk): ChunkShape | null {
    const ofFirst = first.json.split(values)
    const ofSecond = second.json.split(values)
    const variables: Variable[] = []
    let common = ''
    for (const [index, part] of ofSecond.entries()) {
      if (part === ofFirst[index]) {
        common += part
        continue
      }
      const kind = kindOf(part, nameOf(ofSecond, index))
      if (kind === null) return null
      variables.push({ before: common, kind })
      common = ''
    }
    const shape = new ChunkShape(variables, common)
    return shape.#describes(first) && shape.#describes(second) ? shape : null
  }

  #describes ({ json, textBytes }: MeasuredChunk): boolean {
    return this.textBytesIn(json) === textBytes
  }

  /** Returns the bytes of what the model wrote in a chunk; null if it does not have this shape. */
  textBytesIn (json: string): number | null {
    let textBytes = 0
    let position = 0
    for (const { before, kind } of this.#variables) {
      const start = position + before.length
      // `startsWith` would take three times as long.
      if (json.slice(position, start) !== before) return null
      position = kind === 'digits' ? endOfDigits(json, start) : endOfString(json, start)
      if (position === -1) return null
      if (kind === 'text') {
        const bytes = bytesOfString(json, start, position)
        if (bytes === null) return null
        textBytes += bytes
      }
    }
    return json.slice(position) === this.#rest ? textBytes : null
  }
}

/** The longest chunk from which a shape is learned, in characters. Text comes in short ones. */
const longest = 4096

/** After so many chunks in a row of which no two have a shape, none is looked for. */
const mostNotFound = 20

/** The shape of most chunks of a stream, as far as it is known. */
export class LearnedShape {
  #shape: ChunkShape | null = null
  /** The latest chunk that was parsed, with which the next one is compared; null before any. */
  #previous: MeasuredChunk | null = null
  #notFound = 0

  /** Returns the bytes of what the model wrote in a chunk; null if it has to be parsed. */
  textBytesIn (json: string): number | null {
    return this.#shape === null ? null : this.#shape.textBytesIn(json)
  }

  /** Learns from a chunk that was parsed, and states neither a usage nor an end. */
  learnFrom (chunk: MeasuredChunk): void {
    const isShortText = chunk.textBytes > 0 && chunk.json.length <= longest
    if (!isShortText || this.#notFound > mostNotFound) return
    const shape = this.#previous === null ? null : ChunkShape.of(this.#previous, chunk)
    this.#previous = chunk
    if (shape === null) {
      this.#notFound += 1
      return
    }
    this.#shape = shape
    this.#notFound = 0
  }
}

/** Returns the name of a part that is the value of a property; null if it is none. */
function nameOf (parts: readonly string[], index: number): string | null {
  const name = parts[index - 2]
  const isProperty = name !== undefined && parts[index - 1]?.trim() === ':'
  return isProperty ? name.slice(1, -1) : null
}

/**
 * Returns of which kind a part is that differs; null if the difference can have a meaning.
 *
 * @param name That of the property whose value it is; null for any other part.
 */
function kindOf (part: string, name: string | null): Variable['kind'] | null {
  if (name !== null && meaningfulNames.has(name)) return null
  if (/^\d/.test(part)) return 'digits'
  if (name === null || !part.startsWith('"')) return null
  return isLabel(name) ? 'string' : 'text'
}

/** Returns the position after digits; -1 if there are none. */
function endOfDigits (json: string, start: number): number {
  let end = start
  while (json.charCodeAt(end) >= 0x30 && json.charCodeAt(end) <= 0x39) end += 1
  return end === start ? -1 : end
}

/** Returns the position after a string; -1 if there is none. */
function endOfString (json: string, start: number): number {
  if (json.charCodeAt(start) !== quotationMark) return -1
  let last = json.indexOf('"', start + 1)
  while (last !== -1 && isEscaped(json, last)) last = json.indexOf('"', last + 1)
  return last === -1 ? -1 : last + 1
}

/** Whether an odd number of backslashes precedes a character of a string. */
function isEscaped (json: string, position: number): boolean {
  let first = position
  while (json.charCodeAt(first - 1) === backslash) first -= 1
  return (position - first) % 2 === 1
}

/** Returns the bytes in UTF-8 of the text of a string; null if it is not JSON. */
function bytesOfString (json: string, start: number, end: number): number | null {
  if (isPlainAscii(json, start, end)) return end - start - 2
  try {
    return Buffer.byteLength(JSON.parse(json.slice(start, end)))
  } catch {
    return null
  }
}

/** Whether a string is ASCII without escapes, as most are: then, each character is a byte. */
function isPlainAscii (json: string, start: number, end: number): boolean {
  for (let position = start; position < end; position += 1) {
    const character = json.charCodeAt(position)
    if (character > 0x7f || character === backslash) return false
  }
  return true
}
