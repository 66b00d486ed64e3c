import { reasonNames } from './ending.js'
import { isLabel } from './envelope-names.js'
import { modelNames } from './model-name.js'

// Most chunks of a stream are the same text but for a few strings and numbers. They need not be
// parsed, as long as this holds: whatever in a chunk ends the response, states a usage or the
// model, or decides which strings are text stands outside of what can differ. It is then the same
// in each chunk of a shape, and says in each what it said in the two that were parsed.
//
// - Only the values of properties can differ, and no name: `variableAt`.
// - Of these, only strings and digits. An end that is stated as `true` cannot differ.
// - No string and no digits that a rule of another file compares: `meaningfulNames`.
// - The texts among them must be all that counted in the two chunks that were parsed. So nothing
//   that counts in another way, such as the arguments of a tool or a text that is stated twice, can
//   differ.
// - No shape is learned from a chunk that can state a usage, or that ends the response: see
//   `LearnedShape.learnFrom`.

/** A chunk that was parsed, and the bytes of what the model wrote in it. */
interface MeasuredChunk {
  readonly json: string
  readonly textBytes: number
}

/** A value that differs from chunk to chunk: a string, of which the text counts, or digits. */
type Variable = 'text' | 'string' | 'digits'

/** The longest chunk whose shape is looked for, in characters. Text comes in short ones. */
const longest = 4096

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
  /** What all chunks of the shape have in common, with a variable between each two. */
  readonly #common: readonly string[]
  readonly #variables: readonly Variable[]

  private constructor (common: readonly string[], variables: readonly Variable[]) {
    this.#common = common
    this.#variables = variables
  }

  /**
   * Returns the shape that two chunks have; null if they differ in something with a meaning, or if
   * the texts in which they differ are not all that the model wrote in them.
   */
  static of (first: MeasuredChunk, second: MeasuredChunk): ChunkShape | null {
    if (first.json.length > longest || second.json.length > longest) return null
    const ofFirst = first.json.split(values)
    const ofSecond = second.json.split(values)
    const common: string[] = []
    const variables: Variable[] = []
    let text = ''
    for (const [index, part] of ofSecond.entries()) {
      if (part === ofFirst[index]) {
        text += part
        continue
      }
      const variable = variableAt(ofSecond, index)
      if (variable === null) return null
      const mark = variable === 'digits' ? '' : '"'
      common.push(text + mark)
      variables.push(variable)
      text = mark
    }
    common.push(text)
    const shape = new ChunkShape(common, variables)
    return shape.#describes(first) && shape.#describes(second) ? shape : null
  }

  #describes ({ json, textBytes }: MeasuredChunk): boolean {
    return this.textBytesIn(json) === textBytes
  }

  /** Returns the bytes of what the model wrote in a chunk; null if it does not have this shape. */
  textBytesIn (json: string): number | null {
    let textBytes = 0
    let position = 0
    let index = 0
    for (const common of this.#common) {
      // `startsWith` would take three times as long.
      if (json.slice(position, position + common.length) !== common) return null
      position += common.length
      const variable = this.#variables[index]
      if (variable === undefined) break
      index += 1
      const end = variable === 'digits' ? endOfDigits(json, position) : endOfString(json, position)
      if (end === -1) return null
      if (variable === 'text') {
        const bytes = bytesOfString(json, position, end)
        if (bytes === null) return null
        textBytes += bytes
      }
      position = end
    }
    return position === json.length ? textBytes : null
  }
}

/** After so many chunks in a row of which no two have a shape, none is looked for. */
const mostNotFound = 20

/** The shape of most chunks of a stream, as far as it is known. */
export class LearnedShape {
  #shape: ChunkShape | null = null
  #last: MeasuredChunk | null = null
  #notFound = 0

  /** Returns the bytes of what the model wrote in a chunk; null if it has to be parsed. */
  textBytesIn (json: string): number | null {
    return this.#shape === null ? null : this.#shape.textBytesIn(json)
  }

  /** Learns from a chunk that was parsed, and states neither a usage nor an end. */
  learnFrom (chunk: MeasuredChunk): void {
    if (chunk.textBytes === 0 || this.#notFound > mostNotFound) return
    const shape = this.#last === null ? null : ChunkShape.of(this.#last, chunk)
    this.#shape = shape ?? this.#shape
    this.#notFound = shape === null ? this.#notFound + 1 : 0
    this.#last = chunk
  }
}

/** Returns what differs; null if it can have a meaning. */
function variableAt (parts: readonly string[], index: number): Variable | null {
  const [name, colon, part] = parts.slice(index - 2, index + 1)
  const property = colon?.trim() === ':' ? name?.slice(1, -1) : undefined
  if (property !== undefined && meaningfulNames.has(property)) return null
  if (part !== undefined && /^\d/.test(part)) return 'digits'
  if (property === undefined || part?.startsWith('"') !== true) return null
  return isLabel(property) ? 'string' : 'text'
}

function endOfDigits (json: string, start: number): number {
  let end = start
  while (json.charCodeAt(end) >= 0x30 && json.charCodeAt(end) <= 0x39) end += 1
  return end === start ? -1 : end
}

/** Returns the position of the quotation mark that ends a string; -1 if there is none. */
function endOfString (json: string, start: number): number {
  let end = json.indexOf('"', start)
  while (end !== -1 && isEscaped(json, start, end)) end = json.indexOf('"', end + 1)
  return end
}

const backslash = 0x5c

/** Whether an odd number of backslashes precedes a character. */
function isEscaped (json: string, start: number, position: number): boolean {
  let first = position
  while (first > start && json.charCodeAt(first - 1) === backslash) first -= 1
  return (position - first) % 2 === 1
}

/** Returns the bytes in UTF-8 of a string of JSON between two positions; null if it is not JSON. */
function bytesOfString (json: string, start: number, end: number): number | null {
  if (isPlainAscii(json, start, end)) return end - start
  try {
    return Buffer.byteLength(JSON.parse(json.slice(start - 1, end + 1)))
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
