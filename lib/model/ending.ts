import { isObject } from '../option-checks.js'
import { propertyOf } from './counts.js'

/** Types of the events with which APIs end a stream. */
const lastTypes = new Set([
  'message_stop', // Anthropic
  'message-end', // Cohere
  'stream-end', // Cohere's first version
  'response.completed', // OpenAI's responses
  'response.incomplete',
  'response.failed',
  'response.done', // OpenAI's realtime API
  'image_generation.completed',
  'image_edit.completed',
  'transcript.text.done',
  'transcription.done', // Mistral
  'speech.audio.done',
  'conversation.response.done', // Mistral
  'interaction.completed', // Gemini's interactions
  'interaction.complete',
  'chat.end', // LM Studio
  'finish' // AI SDK
])

/** Properties that say whether a chunk is the last one. */
const doneNames = [
  'done', // Ollama
  'is_finished', // Cohere's first version
  'stop' // llama.cpp
]

/** Names under which APIs state why a model ended. */
export const reasonNames = ['finish_reason', 'finishReason', 'stop_reason', 'stopReason']

/** Objects and lists that can state why a model ended. */
const holderNames = ['choices', 'candidates', 'delta', 'output', 'response', 'messageStop']

/**
 * Whether a body has ended as its API ends one, and has stated its usage by then. What is read in a
 * body are events. What each changes, in the order in which those of one chunk come:
 *
 * | event | is the end reached? | is the usage the last word? | are others announced? |
 * |---|---|---|---|
 * | `text`, if there is some | no | no | |
 * | `chunk` | yes, if it is a last one; else as before | | as it says, else no |
 * | `usage` | | yes; no, if it is the beginning of a message | |
 * | `lastData` | yes | | |
 * | `whole` | yes, unless others are announced | | |
 */
export class Ending {
  #isReached = false
  #isUsageFinal = false
  #announcesOthers = false

  /** Whether an API ends a body as this one has ended so far. */
  get isReached (): boolean {
    return this.#isReached
  }

  /** Whether no text followed the usage, either. */
  get hasUsage (): boolean {
    return this.#isReached && this.#isUsageFinal
  }

  /** What the model wrote, of this many bytes: it shows that an earlier end was none. */
  text (bytes: number): void {
    if (bytes === 0) return
    this.#isReached = false
    this.#isUsageFinal = false
  }

  /** A chunk that is JSON; returns whether it is a last one. */
  chunk (chunk: object): boolean {
    const isLast = isLastChunk(chunk)
    if (isLast) this.#isReached = true
    this.#announcesOthers = isPartial(chunk)
    return isLast
  }

  /** A chunk that states a usage. */
  usage (chunk: object): void {
    // Anthropic's first event states the output before there is any.
    this.#isUsageFinal = propertyOf(chunk, 'type') !== 'message_start'
  }

  /** The data with which OpenAI's API ends a stream. */
  lastData (): void {
    this.#isReached = true
  }

  /** The body has ended as one JSON object or array that is whole. */
  whole (): void {
    if (!this.#announcesOthers) this.#isReached = true
  }
}

/** Whether a chunk is one with which its API ends a stream: its last event, or a finish reason. */
function isLastChunk (chunk: object): boolean {
  const type = propertyOf(chunk, 'type') ?? propertyOf(chunk, 'event_type')
  if (typeof type === 'string' && lastTypes.has(type)) return true
  return doneNames.some((name) => propertyOf(chunk, name) === true) || statesReason(chunk)
}

/** Whether a chunk says that others follow. */
function isPartial (chunk: object): boolean {
  return doneNames.some((name) => propertyOf(chunk, name) === false)
}

/** The nesting of a chunk is bounded, so that this ends: see `isCheapToParse`. */
function statesReason (value: object): boolean {
  if (reasonNames.some((name) => isReason(propertyOf(value, name)))) return true
  return holderNames.some((name) => holdsReason(propertyOf(value, name)))
}

function holdsReason (held: unknown): boolean {
  if (Array.isArray(held)) return held.some((each) => isObject(each) && statesReason(each))
  return isObject(held) && statesReason(held)
}

function isReason (reason: unknown): boolean {
  // DashScope states 'null' before the end.
  return typeof reason === 'string' && reason !== '' && reason !== 'null'
}
