import { isObject } from '../option-checks.js'
import { propertyOf } from './counts.js'
import { isForeign, isLabel } from './envelope-names.js'

/** Properties that hold the same reasoning, of which servers send several at once. */
const reasoningNames: ReadonlySet<string> = new Set([
  'reasoning',
  'reasoning_content',
  'reasoning_details', // OpenRouter
  'thinking_blocks' // LiteLLM
])

/** Properties that hold the arguments of a tool, if they are objects or lists. */
const argumentNames = new Set([
  'arguments',
  'args',
  'input',
  'partialArgs', // Gemini, which can stream them
  'action', // OpenAI's shell
  'operation' // OpenAI's patches
])

/** What tools of Groq's server did: a model wrote the arguments alone. */
const executedToolsName = 'executed_tools'

/**
 * Ends of the types of what no model wrote as text: what a tool found, why it or the API failed,
 * which tools there are, encrypted reasoning, and encoded images.
 */
const notWritten = new RegExp(
  [
    'result', // Anthropic
    'error', // OpenAI's responses, Anthropic
    'web_search_call', // OpenAI's responses
    'mcp_list_tools',
    'image_generation_call',
    'output-available', // AI SDK
    'redacted_thinking', // Anthropic
    'encrypted' // OpenRouter
  ].join('$|') + '$'
)

/** Properties that repeat what their object has under another name, by that name. */
const repeatedNames: ReadonlyMap<string, string> = new Map([
  ['message', 'delta'], // Perplexity: the whole message so far
  ['text', 'delta'], // Together
  ['segments', 'text'], // OpenAI's transcriptions
  ['words', 'text']
])

/** Events that repeat what earlier ones streamed, such as `response.output_text.done`. */
const repetition = /(\.|-)(added|completed?|created|done|end|failed|in_progress|incomplete)$/

/** What the last chunk of Hugging Face's server repeats, or its body states: the whole text. */
const wholeTextName = 'generated_text'

/** How many types of events are told apart, and how long they are. Bounds the memory. */
const mostTypes = 100
const longestType = 100

/**
 * Counts the bytes of what a model writes in the chunks of one response: each string under a name
 * that is not known to hold something else, so that no text is missed under a new one.
 */
export class TextCounter {
  #streamed = 0
  /** In the events that repeat what was streamed, by their type: each repeats a text once. */
  readonly #repeated = new Map<string, number>()

  /** Reads the next chunk. Returns the bytes of text in it that no earlier chunk held. */
  read (chunk: object): number {
    const type = propertyOf(chunk, 'type') ?? propertyOf(chunk, 'event_type')
    const wholeBytes = bytesOf(wholeTextName, chunk)
    if (wholeBytes > 0) this.#addRepeated(wholeTextName, wholeBytes)
    const bytes = isAudio(type) ? 0 : Math.max(0, bytesIn(chunk) - wholeBytes)
    if (typeof type === 'string' && repetition.test(type)) {
      this.#addRepeated(type, bytes)
      return 0
    }
    this.#streamed += bytes
    return bytes
  }

  /** Counts the bytes of text in a chunk that need not be read. */
  add (bytes: number): void {
    this.#streamed += bytes
  }

  #addRepeated (type: string, bytes: number): void {
    const earlier = this.#repeated.get(type)
    const isKnown = earlier !== undefined
    if (!isKnown && (this.#repeated.size === mostTypes || type.length > longestType)) return
    this.#repeated.set(type, (earlier ?? 0) + bytes)
  }

  /** The bytes in UTF-8: of content, reasoning and arguments of tools. */
  get bytes (): number {
    return Math.max(this.#streamed, ...this.#repeated.values())
  }
}

/** Whether an event holds encoded sound, under a name of text. */
function isAudio (type: unknown): boolean {
  return typeof type === 'string' && type.includes('audio') && !type.includes('transcript')
}

/** The nesting of a chunk is bounded, so that this ends: see `isCheapToParse`. */
function bytesIn (value: object): number {
  if (Array.isArray(value)) return bytesInAll(value)
  const type = propertyOf(value, 'type')
  if (typeof type === 'string' && notWritten.test(type)) return 0
  let bytes = 0
  let bytesOfReasoning = 0
  for (const name of Object.keys(value)) {
    const bytesOfProperty = bytesOf(name, value)
    if (!reasoningNames.has(name)) bytes += bytesOfProperty
    else bytesOfReasoning = Math.max(bytesOfReasoning, bytesOfProperty)
  }
  return bytes + bytesOfReasoning
}

/** Returns the bytes of text that an object has under a name. */
function bytesOf (name: string, holder: object): number {
  const property = propertyOf(holder, name)
  const isString = typeof property === 'string'
  // First the numbers, of which chunks have many.
  if (!isString && (typeof property !== 'object' || property === null)) return 0
  if (isForeign(name, holder) || isRepeated(name, holder)) return 0
  if (isString) return isLabel(name) ? 0 : Buffer.byteLength(property)
  if (argumentNames.has(name)) return bytesOfArguments(property)
  if (name === executedToolsName) return bytesOfExecutedTools(property)
  // Sound is encoded, and what it says stands beside.
  return bytesIn(name === 'audio' ? { ...property, data: null } : property)
}

function isRepeated (name: string, holder: object): boolean {
  const other = repeatedNames.get(name)
  return other !== undefined && propertyOf(holder, other) != null
}

function bytesInAll (values: readonly unknown[]): number {
  let bytes = 0
  for (const value of values) {
    if (typeof value === 'string') bytes += Buffer.byteLength(value)
    if (typeof value === 'object' && value !== null) bytes += bytesIn(value)
  }
  return bytes
}

function bytesOfExecutedTools (tools: object): number {
  let bytes = 0
  for (const tool of Object.values(tools)) {
    if (isObject(tool)) bytes += bytesOf('arguments', tool)
  }
  return bytes
}

function bytesOfArguments (value: object): number {
  const text = JSON.stringify(value)
  // Anthropic's API begins with an empty object and streams the arguments.
  return text === '{}' ? 0 : Buffer.byteLength(text)
}
