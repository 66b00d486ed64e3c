import { isObject } from '../option-checks.js'
import { choicesOf, mostChoices, type Choice } from './choices.js'
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

/** Objects and lists that can state why a model ended, beside the lists of choices. */
const holderNames = ['delta', 'output', 'response', 'messageStop']

/** Types of the ends of a step of the AI SDK: others can follow. They state why a model ended. */
const stepTypes = new Set(['finish-step', 'step-finish'])

/**
 * Whether a body has ended as its API ends one, and has stated its usage by then. What is read in a
 * body are events. What each changes, in the order in which those of one chunk come:
 *
 * | event | is the end reached? | is the usage the last word? | are others announced? |
 * |---|---|---|---|
 * | `text`, if there is some | no | no | |
 * | `chunk` | as its choices say | no, if it begins a choice | as it says, else no |
 * | `usage` | | yes; no, if it is the beginning of a message, or not of all choices | |
 * | `usageSoFar` | | no | |
 * | `lastData` | yes | | |
 * | `whole` | yes, unless others are announced | | |
 *
 * A chunk with a last event or a reason of its own reaches the end. One with choices does when each
 * choice that was seen has ended; while one is open, the end is not reached.
 */
export class Ending {
  #isReached = false
  #isUsageFinal = false
  #announcesOthers = false
  readonly #choices = new SeenChoices()

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

  /** A chunk that is JSON; returns whether it states an end: of the body, or of a choice. */
  chunk (chunk: object): boolean {
    const choices = choicesIn(chunk)
    if (this.#choices.add(choices)) this.#isUsageFinal = false
    this.#announcesOthers = isPartial(chunk)
    const endsChoice = choices.some(hasEnded)
    const isLast = isLastChunk(chunk)
    if (isLast || (endsChoice && !this.#choices.hasOpen)) this.#isReached = true
    else if (choices.length > 0 && this.#choices.hasOpen) this.#isReached = false
    return isLast || endsChoice
  }

  /** A chunk that states a usage. */
  usage (chunk: object): void {
    // Anthropic's first event states the output before there is any.
    const isFirst = propertyOf(chunk, 'type') === 'message_start'
    this.#isUsageFinal = !isFirst && this.#choices.areAllIn(choicesIn(chunk))
  }

  /** A usage that cannot be that of all that the model wrote. */
  usageSoFar (): void {
    this.#isUsageFinal = false
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

/** The choices of a body, which can be written side by side. */
class SeenChoices {
  readonly #seen = new Set<number>()
  readonly #open = new Set<number>()
  /** Those that have stated a usage of their own with their end, or after it. */
  readonly #withUsage = new Set<number>()

  /** Adds those of a chunk. Returns whether one of them was not seen before. */
  add (choices: readonly Choice[]): boolean {
    const earlier = this.#seen.size
    for (const choice of choices) this.#add(choice)
    return this.#seen.size > earlier
  }

  #add (choice: Choice): void {
    const { index, value } = choice
    if (!this.#seen.has(index)) {
      if (this.#seen.size === mostChoices) return
      this.#seen.add(index)
      this.#open.add(index)
    }
    if (hasEnded(choice)) this.#open.delete(index)
    const hasUsage = isObject(propertyOf(value, 'usage'))
    if (hasUsage && !this.#open.has(index)) this.#withUsage.add(index)
  }

  /** Of as many as can be told apart, it is not known. */
  get hasOpen (): boolean {
    return this.#open.size > 0 || this.#seen.size === mostChoices
  }

  /**
   * Whether the usage in a chunk is that of all choices. Some servers state in each chunk the usage
   * of the choice that it holds.
   *
   * @param choices Those of the chunk.
   */
  areAllIn (choices: readonly Choice[]): boolean {
    const held = new Set(choices.map(({ index }) => index)).size
    const seen = this.#seen.size
    return held === 0 || held === seen || this.#withUsage.size === seen
  }
}

/** Returns the choices of a chunk, which DashScope holds one level deeper. */
function choicesIn (chunk: object): Choice[] {
  const holders = [chunk, propertyOf(chunk, 'output'), propertyOf(chunk, 'response')]
  return holders.filter(isObject).flatMap(choicesOf)
}

function hasEnded ({ value }: Choice): boolean {
  return statesReason(value)
}

/** Whether a chunk is one with which its API ends a stream: its last event, or a finish reason. */
function isLastChunk (chunk: object): boolean {
  const type = propertyOf(chunk, 'type') ?? propertyOf(chunk, 'event_type')
  if (typeof type === 'string' && lastTypes.has(type)) return true
  if (typeof type === 'string' && stepTypes.has(type)) return false
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
