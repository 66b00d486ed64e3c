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

/** Whether a chunk is one with which its API ends a stream: its last event, or a finish reason. */
export function isLastChunk (chunk: object): boolean {
  const type = propertyOf(chunk, 'type') ?? propertyOf(chunk, 'event_type')
  if (typeof type === 'string' && lastTypes.has(type)) return true
  return doneNames.some((name) => propertyOf(chunk, name) === true) || statesReason(chunk)
}

/** Whether a chunk says that others follow. */
export function isPartial (chunk: object): boolean {
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
