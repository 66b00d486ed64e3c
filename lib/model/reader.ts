import { entriesOf, isObject } from '../option-checks.js'
import { choicesOf, mostChoices } from './choices.js'
import { greaterOf, propertyOf, sumOfChoices, sumOfCounts, type TokenCounts } from './counts.js'
import { modelOf } from './model-name.js'
import { countsOfChoice, countsOfUsage, usageOf, type ModelUsage } from './usage.js'

/**
 * Reads the usage from the parsed chunks of one stream of a model: that of any API that `usageOf`
 * knows, or the parts of the AI SDK's `fullStream`. Usage so far is replaced by what the server
 * states later, what Anthropic's API states in several events is merged, and what choices state of
 * themselves is added up, with their input once.
 *
 * For the bytes of a response, use the permit's `meter` instead, which also counts a stream that
 * ends early.
 *
 * @example
 * ```ts
 * import { UsageReader } from 'fastify-llm-quota'
 *
 * const reader = new UsageReader()
 * const started = { usage: { input_tokens: 12, output_tokens: 1 } }
 * reader.read({ type: 'message_start', message: started })
 * reader.read({ type: 'message_delta', usage: { output_tokens: 30 } })
 * console.log(reader.usage?.total) // 42
 * ```
 */
export class UsageReader {
  #model: string | null = null
  #usage: ModelUsage | null = null
  /** What Anthropic's API has stated so far. */
  #ofMessage: UsageOfMessage = {}
  /** What the steps of the AI SDK have used so far. */
  #ofSteps: TokenCounts | null = null
  /** What choices have stated so far, each of itself, by their index. */
  readonly #ofChoices = new Map<number, TokenCounts>()

  /**
   * Reads the next chunk. A chunk that states no usage changes nothing.
   *
   * @param chunk The chunk as an object, for example parsed from the data of a server-sent event.
   */
  read (chunk: unknown): void {
    if (!isObject(chunk)) return
    this.#model = modelOf(chunk) ?? this.#model
    const counts = this.#countsOf(chunk)
    // The chunk with the usage need not name the model.
    if (counts !== null) this.#usage = { ...counts, model: this.#model }
  }

  /** The usage as last stated; null as long as none is. Another object each time it is stated. */
  get usage (): ModelUsage | null {
    return this.#usage
  }

  #countsOf (chunk: object): TokenCounts | null {
    switch (propertyOf(chunk, 'type')) {
      case 'message_start':
        return this.#countsOfMessage(propertyOf(chunk, 'message'))
      case 'message_delta':
        return this.#countsOfMessage(chunk)
      case 'message_stop':
        return this.#countsOfLastEvent(chunk)
      case 'finish-step':
      case 'step-finish':
        return this.#countsOfStep(chunk)
      case 'finish':
        return greaterOf(this.#ofSteps, usageOf(chunk))
      default:
        return greaterOf(this.#countsOfChoices(chunk), usageOf(chunk))
    }
  }

  /** Each choice states its own usage. Returns the sum; null if the chunk has none. */
  #countsOfChoices (chunk: object): TokenCounts | null {
    let isStated = false
    for (const choice of choicesOf(chunk)) {
      const counts = countsOfChoice(choice)
      if (counts === null) continue
      isStated = true
      const isKnown = this.#ofChoices.has(choice.index)
      if (isKnown || this.#ofChoices.size < mostChoices) this.#ofChoices.set(choice.index, counts)
    }
    return isStated ? sumOfChoices([...this.#ofChoices.values()]) : null
  }

  /** Anthropic's events replace what earlier ones stated. */
  #countsOfMessage (holder: unknown): TokenCounts | null {
    const usage = isObject(holder) ? propertyOf(holder, 'usage') : undefined
    if (!isObject(usage)) return null
    this.#model = fallbackModelIn(usage) ?? this.#model
    const merged = { ...this.#ofMessage, ...changesIn(usage) }
    if (Object.keys(merged).length <= mostNames) this.#ofMessage = merged
    return countsOfUsage(this.#ofMessage)
  }

  /** Bedrock repeats the numbers there, and some of its models leave out what was cached. */
  #countsOfLastEvent (event: object): TokenCounts | null {
    const counts = usageOf(event)
    return counts === null ? null : greaterOf(this.#usage, counts)
  }

  /** The AI SDK streams the usage of each step, and then that of all of them. */
  #countsOfStep (step: object): TokenCounts | null {
    const counts = usageOf(step)
    if (counts === null) return null
    this.#ofSteps = this.#ofSteps === null ? counts : sumOfCounts([this.#ofSteps, counts])
    return this.#ofSteps
  }
}

/**
 * Returns the model that wrote a message of Anthropic's, where it is not the one that was asked and
 * declined, which the first event names; null otherwise.
 */
function fallbackModelIn (usage: object): string | null {
  const iterations = propertyOf(usage, 'iterations')
  const last: unknown = Array.isArray(iterations) ? iterations.at(-1) : undefined
  if (!isObject(last) || propertyOf(last, 'type') !== 'fallback_message') return null
  return modelOf(last)
}

type UsageOfMessage = Readonly<Record<string, unknown>>

/** How many names the events of a message can state. Bounds the memory: no API has as many. */
const mostNames = 100

const anthropicInputNames = [
  'input_tokens',
  'cache_creation_input_tokens',
  'cache_read_input_tokens'
]

/**
 * Returns what an event of Anthropic's API changes: null changes nothing, and nor does an input
 * whose numbers are all 0, which some servers send with the output.
 */
function changesIn (usage: object): UsageOfMessage {
  const stated = entriesOf(usage).filter(([, value]) => value !== null)
  const statesInput = stated.some(([name, value]) => anthropicInputNames.includes(name) && value)
  const changes = stated.filter(([name]) => statesInput || !anthropicInputNames.includes(name))
  return Object.fromEntries(changes)
}
