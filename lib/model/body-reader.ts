import { StringDecoder } from 'node:string_decoder'
import { isObject } from '../option-checks.js'
import { LearnedShape } from './chunk-shape.js'
import { splitterFor, type Splitter } from './chunks.js'
import { closeJson } from './cut-json.js'
import { Ending } from './ending.js'
import { isCheapToParse, isClosed } from './json-nesting.js'
import { modelOf } from './model-name.js'
import { UsageReader } from './reader.js'
import { TextCounter } from './text.js'
import type { ModelUsage } from './usage.js'

/** The data with which OpenAI's API ends a stream. */
const lastData = '[DONE]'

/** What each chunk that states a usage contains: a name with `Token` or `token`, or Ollama's. */
const usageMarks = ['oken', 'eval_count']

/** In so many chunks a model is looked for. Later, only in those that can state a usage. */
const mostWithoutModel = 10

/**
 * Reads the bytes of a response of a model: server-sent events, lines of JSON, a JSON array or one
 * JSON object, told apart by how they begin. Never throws, whatever the bytes are.
 */
export class BodyReader {
  readonly #decoder = new StringDecoder('utf8')
  readonly #usageReader = new UsageReader()
  readonly #textCounter = new TextCounter()
  readonly #ending = new Ending()
  /** That of most chunks of a stream, which are not parsed. */
  readonly #shape = new LearnedShape()
  /** Null as long as there is nothing but white space. */
  #splitter: Splitter | null = null
  /** Nothing more can be read. */
  #hasStopped = false
  #hasReadChunk = false
  /** As stated, even if no usage is, with which `UsageReader` would name it. */
  #model: string | null = null
  #chunksWithoutModel = 0
  /** The last text of a chunk that is not JSON. */
  #unread = ''
  /** There was a text that is not JSON. */
  #hasReadOther = false

  /** The usage as last stated; null if none was. */
  get usage (): ModelUsage | null {
    return this.#usageReader.usage
  }

  /** The bytes in UTF-8 of what the model wrote: content, reasoning and arguments of tools. */
  get textBytes (): number {
    return this.#textCounter.bytes
  }

  /** The name of the model; null as long as it is not stated. */
  get model (): string | null {
    return this.#model
  }

  /** Whether an API ends a body as this one has ended so far. */
  get hasLastChunk (): boolean {
    return this.#ending.isReached
  }

  /** Whether all of the body could be read. False for a compressed one. */
  get isReadable (): boolean {
    return !this.#hasStopped && (this.#hasReadChunk || !this.#hasReadOther)
  }

  /** Whether the body has ended as its API ends one, and has stated its usage by then. */
  get isComplete (): boolean {
    return this.isReadable && this.#ending.hasUsage
  }

  /** Reads the next bytes. */
  write (bytes: Uint8Array): void {
    this.#read(this.#decoder.write(bytes))
  }

  /** Reads what is left when the body has ended by itself. */
  end (): void {
    if (this.#readRest()) this.#ending.whole()
  }

  /** Reads what is left when somebody has ended the body early. */
  cutOff (): void {
    this.#readRest()
  }

  /** Returns whether the body is one JSON object or array that is whole. */
  #readRest (): boolean {
    this.#read(this.#decoder.end())
    if (this.#hasStopped) return false
    this.#unread = ''
    const isWhole = this.#try((splitter) => splitter.end()) === true
    if (!isCheapToParse(this.#unread)) {
      this.#skip(this.#unread)
      return isWhole
    }
    const chunk = parse(closeJson(this.#unread))
    if (!isObject(chunk)) return isWhole
    // The text of a chunk that was cut off counts as far as it goes. Its numbers can be cut, too.
    this.#hasReadChunk = true
    this.#ending.text(this.#textCounter.read(chunk))
    return false
  }

  #read (text: string): void {
    if (this.#hasStopped || text === '') return
    if (this.#splitter !== null) {
      this.#try((splitter) => splitter.write(text))
      return
    }
    // With a byte order mark, which is white space for JavaScript.
    const beginning = text.trimStart()
    if (beginning === '') return
    this.#splitter = splitterFor(beginning, (chunk) => this.#readChunk(chunk))
    this.#hasStopped = this.#splitter === null
    this.#try((splitter) => splitter.write(beginning))
  }

  /** Stops reading if a chunk is too long, or anything else fails: the bytes pass all the same. */
  #try<Result> (step: (splitter: Splitter) => Result): Result | undefined {
    if (this.#splitter === null) return undefined
    try {
      return step(this.#splitter)
    } catch {
      this.#hasStopped = true
      return undefined
    }
  }

  /** Counts the text of a chunk that is too costly to parse: as if the model wrote all of it. */
  #skip (text: string): void {
    const bytes = Buffer.byteLength(text)
    this.#hasReadOther = true
    this.#textCounter.add(bytes)
    this.#ending.text(bytes)
  }

  /** Reads the text of a chunk; returns whether it is JSON. */
  #readChunk (text: string): boolean {
    const textBytes = this.#shape.textBytesIn(text)
    if (textBytes !== null) {
      this.#textCounter.add(textBytes)
      this.#ending.text(textBytes)
      return true
    }
    if (text === lastData) {
      this.#ending.lastData()
      return true
    }
    if (!isCheapToParse(text) && isClosed(text)) {
      this.#skip(text)
      return true
    }
    const chunk = parse(text)
    if (chunk === undefined) {
      this.#unread = text
      if (text !== '') this.#hasReadOther = true
      return false
    }
    if (isObject(chunk)) this.#readObject(chunk, text)
    return true
  }

  #readObject (chunk: object, text: string): void {
    this.#hasReadChunk = true
    const textBytes = this.#textCounter.read(chunk)
    this.#ending.text(textBytes)
    const isLast = this.#ending.chunk(chunk)
    const mayStateUsage = usageMarks.some((mark) => text.includes(mark))
    const looksForModel = this.#model === null && this.#chunksWithoutModel < mostWithoutModel
    if (mayStateUsage || looksForModel) this.#readUsage(chunk)
    if (!mayStateUsage && !isLast) this.#shape.learnFrom({ json: text, textBytes })
  }

  #readUsage (chunk: object): void {
    const earlier = this.usage
    this.#usageReader.read(chunk)
    this.#model = modelOf(chunk) ?? this.#model
    if (this.#model === null) this.#chunksWithoutModel += 1
    if (this.usage === null || this.usage === earlier) return
    // Servers state an output of 0 before they know it.
    const isKnown = this.usage.total > this.usage.input || this.textBytes === 0
    if (isKnown) this.#ending.usage(chunk)
    else this.#ending.usageSoFar()
  }
}

function parse (text: string): unknown {
  if (!isCheapToParse(text)) return undefined
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
