import { entriesOf, isNatural, isObject } from '../option-checks.js'
import { choicesOf, type Choice } from './choices.js'
import {
  countsIn,
  greaterOf,
  propertyOf,
  sumOfChoices,
  sumOfCounts,
  type BesideUsage,
  type TokenCounts
} from './counts.js'
import { deepestHolder, holdersIn, readIn } from './holders.js'
import { modelOf } from './model-name.js'

/**
 * What a model used, as reported by its API: numbers of tokens. `total` is at least `input` and
 * `output` together; what the API does not assign to either is in `total` alone. `cachedInput` and
 * `cacheWrites` are parts of `input`, `reasoning` is a part of `output`. What is not stated is 0.
 */
export interface ModelUsage extends TokenCounts {
  /** The name of the model as its API states it; null if it does not. */
  readonly model: string | null
}

/**
 * Returns the usage that a model's API reports: in OpenAI's chat, completions, responses,
 * embeddings, images and transcriptions, Anthropic's messages, the results and steps of the AI SDK,
 * Gemini, Ollama, Cohere, Mistral, DeepSeek, Groq, xAI, Perplexity, Bedrock's Converse, and what
 * other servers send in OpenAI's form.
 *
 * If numbers contradict each other, the greater total counts. The numbers of an API that leaves out
 * cached input or reasoning are completed, so that they mean the same for each API. What a model
 * writes, such as arguments of tools, is never read.
 *
 * @param value A usage object, or what holds one: the body of a response, the last chunk of a
 *   stream, a result or step of the AI SDK, or a `ModelUsage`. Pass the AI SDK's whole result: its
 *   `providerMetadata` has cached input that its `usage` leaves out.
 * @returns The usage; null if none is stated, or if all its numbers are 0, which servers send
 *   before they know. Never an estimate.
 *
 * @example
 * ```ts
 * import { usageOf } from 'fastify-llm-quota'
 *
 * const body = { model: 'gpt-5', usage: { prompt_tokens: 12, completion_tokens: 30 } }
 * console.log(usageOf(body)?.total) // 42
 * const anthropic = { input_tokens: 2, cache_read_input_tokens: 10, output_tokens: 30 }
 * console.log(usageOf(anthropic)?.input) // 12
 * console.log(usageOf({ prompt_tokens: 0, completion_tokens: 0 })) // null
 * ```
 */
export function usageOf (value: unknown): ModelUsage | null {
  if (Array.isArray(value)) return usageOfLast(value)
  if (!isObject(value)) return null
  if (isModelUsage(value)) return withTotal(value)
  const counts = countsOf(value, deepestHolder)
  return counts === null ? null : { model: modelOf(value), ...counts }
}

/** The numbers of a `ModelUsage`: no API has all of these names. */
const numberNames = ['total', 'input', 'cachedInput', 'cacheWrites', 'output', 'reasoning'] as const

function isModelUsage (value: object): value is ModelUsage {
  const model = propertyOf(value, 'model')
  if (model !== null && typeof model !== 'string') return false
  return numberNames.every((name) => isNatural(propertyOf(value, name)))
}

/** A host can have changed one of the numbers. */
function withTotal (usage: ModelUsage): ModelUsage | null {
  const total = Math.max(usage.total, usage.input + usage.output)
  return total > 0 && isNatural(total) ? { ...usage, total } : null
}

/** Returns the last usage of an array, as Gemini streams one: each element has the usage so far. */
function usageOfLast (elements: readonly unknown[]): ModelUsage | null {
  const statesUsage = (each: unknown): boolean =>
    isObject(each) && readIn(each, 'usageMetadata') != null
  return usageOf(elements.findLast(statesUsage))
}

/**
 * Returns the greatest counts that a value states: as a usage itself, under the names by which APIs
 * hold a usage, and in the objects that hold one of these.
 */
function countsOf (value: object, depth: number): TokenCounts | null {
  const providers = providersOf(value)
  let counts = greaterOf(countsOfSteps(value, depth), countsOfChoices(value))
  for (const usage of usagesIn(value)) {
    counts = greaterOf(counts, countsOfUsage(usage, besideUsage(usage, providers)))
  }
  // What the API itself reported to the AI SDK.
  for (const provider of providers.values()) {
    for (const usage of usagesIn(provider)) counts = greaterOf(counts, countsOfUsage(usage))
  }
  if (depth > 0) {
    for (const holder of holdersIn(value)) counts = greaterOf(counts, countsOf(holder, depth - 1))
  }
  return counts !== null && isEmbeddings(value) ? asInput(counts) : counts
}

/** Names under which APIs state a usage, in a body or a chunk. */
export const usageNames = [
  'totalUsage', // AI SDK 5 and 6: that of all steps
  'usage',
  'usageMetadata', // Gemini
  'usage_metadata',
  'meta', // Cohere's first version
  'token_count', // Cohere, earlier
  'stats', // LM Studio
  'amazon-bedrock-invocationMetrics' // Bedrock's InvokeModel
]

/** Returns the value itself, such as the last chunk of Ollama, and each usage that it holds. */
function usagesIn (value: object): object[] {
  const usages = usageNames.map((name) => readIn(value, name))
  return [value, ...usages.filter(isObject)]
}

/** Returns the sum of the usages that stand in choices; null if there are none. */
function countsOfChoices (value: object): TokenCounts | null {
  const stated = choicesOf(value).map(countsOfChoice)
  return sumOfChoices(stated.filter((counts) => counts !== null))
}

/** Returns the usage of one choice alone, as Kimi states it with the end of each; null if none. */
export function countsOfChoice ({ value }: Choice): TokenCounts | null {
  const usage = readIn(value, 'usage')
  return isObject(usage) ? countsOfUsage(usage) : null
}

/** Returns the counts of what an API states as a usage. */
export function countsOfUsage (usage: object, beside?: BesideUsage): TokenCounts | null {
  // Cohere states the tokens one level deeper. What it bills is less, and all that it states for
  // embeddings.
  for (const name of ['tokens', 'billed_units']) {
    const tokens = readIn(usage, name)
    const cohere = { parts: [usage], hasSeparateCache: false, hasSeparateImages: true }
    if (isObject(tokens)) return countsIn(tokens, cohere)
  }
  const counts = countsIn(usage, beside)
  // The AI SDK 6 adds what the API itself reported.
  const raw = readIn(usage, 'raw')
  return isObject(raw) ? greaterOf(counts, countsOfUsage(raw)) : counts
}

/** Returns what the AI SDK passes on from each provider, by its name. */
function providersOf (value: object): Map<string, object> {
  const providers = new Map<string, object>()
  const metadata = readIn(value, 'providerMetadata')
  if (!isObject(metadata)) return providers
  for (const [name, provider] of entriesOf(metadata)) {
    if (isObject(provider)) providers.set(name, provider)
  }
  return providers
}

/** Returns what the providers of the AI SDK say in addition to a usage. */
function besideUsage (usage: object, providers: ReadonlyMap<string, object>): BesideUsage {
  const parts = [...providers.values()].flatMap((each) => [each, readIn(each, 'usage')])
  // The AI SDK 6 lists the parts of an input that is whole.
  const listsParts =
    isObject(readIn(usage, 'inputTokenDetails')) || isObject(readIn(usage, 'inputTokens'))
  // The AI SDK 4 and 5 leave out what these cached.
  const hasSeparateCache = providers.has('anthropic') || providers.has('bedrock')
  return {
    parts: parts.filter(isObject),
    hasSeparateCache: hasSeparateCache && !listsParts,
    hasSeparateImages: false
  }
}

/** Returns the sum of the steps of the AI SDK, each with its own metadata; null without steps. */
function countsOfSteps (value: object, depth: number): TokenCounts | null {
  const steps = readIn(value, 'steps')
  if (!Array.isArray(steps) || depth === 0) return null
  const stated: TokenCounts[] = []
  for (const step of steps.filter(isObject)) {
    const counts = countsOf(step, depth - 1)
    if (counts !== null) stated.push(counts)
  }
  return sumOfCounts(stated)
}

/** Whether a value is a response with embeddings, which have no output. */
function isEmbeddings (value: object): boolean {
  if (Array.isArray(readIn(value, 'embeddings'))) return true
  const data = readIn(value, 'data')
  return Array.isArray(data) && isObject(data[0]) && 'embedding' in data[0]
}

function asInput (counts: TokenCounts): TokenCounts {
  return { ...counts, input: counts.total - counts.output }
}
