import { propertyOf } from './counts.js'

/** Properties that hold what a model wrote, if they are strings. */
export const textNames: ReadonlySet<string> = new Set([
  'content',
  'text',
  'delta',
  'arguments',
  'refusal',
  'transcript',
  'partial_json', // Anthropic
  'thinking',
  'input', // a tool's, in Converse
  'response', // Ollama
  'tool_plan', // Cohere
  'code',
  'generation', // Llama on Bedrock
  'outputText' // Titan on Bedrock
])

/** Properties that hold the same reasoning, of which servers send several at once. */
export const reasoningTextNames: readonly string[] = [
  'reasoning',
  'reasoning_content',
  'reasoning_details', // OpenRouter
  'thinking_blocks' // LiteLLM
]

/** Properties that hold objects or arrays with what a model wrote. */
const holderNames = new Set([
  'audio', // its transcript
  'candidates',
  'choices',
  'completion_message',
  'content',
  'content_block',
  'contentBlockDelta',
  'custom',
  'delta',
  'executableCode',
  'function',
  'functionCall',
  'function_call',
  'interaction',
  'item',
  'message',
  'output',
  'outputs',
  'part',
  'parts',
  'reasoningContent',
  'reasoningText',
  'response',
  'step',
  'steps',
  'summary',
  'thinking',
  'token',
  'toolUse',
  'tool_calls'
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

/** Types of what a tool of the server found, and of why it or the API failed. */
const notWritten = /(result|error|web_search_call)$/

/** Properties of a choice that repeat what its delta holds. */
const namesBesideDelta = new Set([
  'message', // Perplexity: the whole message so far
  'text' // Together
])

/** Events that repeat what earlier ones streamed, such as `response.output_text.done`. */
const repetition = /(\.|-)(added|completed?|created|done|end|failed|in_progress|incomplete)$/

/** How many types of events are told apart, and how long they are. Bounds the memory. */
const mostTypes = 100
const longestType = 100

/** Counts the bytes of what a model writes in the chunks of one response. */
export class TextCounter {
  #streamed = 0
  /** In the events that repeat what was streamed, by their type: each repeats a text once. */
  readonly #repeated = new Map<string, number>()

  /** Reads the next chunk. Returns the bytes of text in it that no earlier chunk held. */
  read (chunk: object): number {
    const type = propertyOf(chunk, 'type') ?? propertyOf(chunk, 'event_type')
    const bytes = isAudio(type) ? 0 : bytesIn(chunk)
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
  const hasDelta = propertyOf(value, 'delta') != null
  let bytes = reasoningBytesIn(value)
  for (const name of Object.keys(value)) {
    if (hasDelta && namesBesideDelta.has(name)) continue
    bytes += bytesOf(name, propertyOf(value, name))
  }
  return bytes
}

function bytesOf (name: string, property: unknown): number {
  if (typeof property === 'string') return textNames.has(name) ? Buffer.byteLength(property) : 0
  if (typeof property !== 'object' || property === null) return 0
  if (argumentNames.has(name)) return bytesOfArguments(property)
  return holderNames.has(name) ? bytesIn(property) : 0
}

function bytesInAll (values: readonly unknown[]): number {
  let bytes = 0
  for (const value of values) {
    if (typeof value === 'object' && value !== null) bytes += bytesIn(value)
  }
  return bytes
}

function reasoningBytesIn (value: object): number {
  let greatest = 0
  for (const name of reasoningTextNames) {
    const reasoning = propertyOf(value, name)
    if (typeof reasoning === 'string') greatest = Math.max(greatest, Buffer.byteLength(reasoning))
    if (Array.isArray(reasoning)) greatest = Math.max(greatest, bytesInAll(reasoning))
  }
  return greatest
}

function bytesOfArguments (value: object): number {
  const text = JSON.stringify(value)
  // Anthropic's API begins with an empty object and streams the arguments.
  return text === '{}' ? 0 : Buffer.byteLength(text)
}
