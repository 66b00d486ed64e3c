import { isNatural, isObject } from '../option-checks.js'

/** Numbers of model tokens. */
export interface TokenCounts {
  /** All of them: at least input and output together. */
  readonly total: number
  /** What the model read, whatever of it came from a cache. */
  readonly input: number
  /** The part of the input that was read from a cache. */
  readonly cachedInput: number
  /** The part of the input that was written to a cache. */
  readonly cacheWrites: number
  /** What the model wrote, its reasoning included. */
  readonly output: number
  /** The part of the output that is reasoning. */
  readonly reasoning: number
}

const totalNames = [
  'total_tokens', // OpenAI and most others
  'totalTokens', // AI SDK, Converse
  'totalTokenCount', // Gemini
  'total_token_count'
]

const inputNames = [
  'prompt_tokens', // OpenAI's chat and most others
  'input_tokens', // OpenAI's responses, Anthropic, Cohere
  'inputTokens', // AI SDK 5 and later, Converse
  'promptTokens', // AI SDK 4
  'promptTokenCount', // Gemini
  'prompt_token_count',
  'prompt_eval_count', // Ollama
  'total_input_tokens', // Gemini's interactions
  'inputTokenCount', // Bedrock's InvokeModel
  'inputTextTokenCount',
  'tokens_evaluated', // llama.cpp
  'tokens' // AI SDK, embeddings
]

const outputNames = [
  'completion_tokens',
  'output_tokens',
  'outputTokens',
  'completionTokens',
  'candidatesTokenCount',
  'candidates_token_count',
  'responseTokenCount', // Gemini Live
  'response_tokens', // Cohere, earlier
  'eval_count',
  'total_output_tokens',
  'outputTokenCount',
  'generation_token_count',
  'tokens_predicted'
]

/** What is input in addition to the number of an input name. */
const furtherInputNames = [
  'toolUsePromptTokenCount', // Gemini
  'tool_use_prompt_token_count',
  'total_tool_use_tokens', // Gemini's interactions
  'citation_tokens', // Perplexity
  'citationTokens'
]

const cachedInputNames = [
  'cached_tokens', // OpenAI
  'cache_read_input_tokens', // Anthropic
  'cacheReadInputTokens', // Converse
  'cacheReadInputTokenCount',
  'cachedInputTokens', // AI SDK 5
  'cacheReadTokens', // AI SDK 6
  'cacheRead', // AI SDK 6, nested
  'cachedContentTokenCount', // Gemini
  'cached_content_token_count',
  'total_cached_tokens', // Gemini's interactions
  'prompt_cache_hit_tokens', // DeepSeek
  'promptCacheHitTokens',
  'num_cached_tokens', // Mistral
  'cachedTokens', // OpenRouter in the AI SDK
  'cachedPromptTokens',
  'cached_input_tokens',
  'cache_read' // LangChain
]

const cacheWriteNames = [
  'cache_creation_input_tokens', // Anthropic
  'cacheCreationInputTokens',
  'cacheWriteInputTokens', // Converse
  'cacheWriteInputTokenCount',
  'cache_write_tokens', // OpenAI, OpenRouter
  'cacheWriteTokens', // AI SDK 6
  'cacheWrite', // AI SDK 6, nested
  'cache_creation_tokens', // LiteLLM
  'cache_creation' // LangChain; Anthropic has an object of this name
]

const reasoningNames = [
  'reasoning_tokens', // OpenAI
  'reasoningTokens', // AI SDK
  'reasoning', // AI SDK 6, nested; LangChain
  'thinking_tokens', // Anthropic
  'thoughtsTokenCount', // Gemini
  'thoughts_token_count',
  'total_thought_tokens', // Gemini's interactions
  'reasoning_output_tokens' // LM Studio
]

/** Objects of a usage that state parts of its input. */
const inputDetails = [
  'prompt_tokens_details',
  'input_tokens_details',
  'input_token_details', // transcriptions, realtime
  'prompt_token_details', // Mistral
  'promptTokensDetails', // OpenRouter in the AI SDK
  'inputTokenDetails', // AI SDK 6
  'inputTokens' // AI SDK 6, nested
]

/** Objects of a usage that state parts of its output. */
const outputDetails = [
  'completion_tokens_details',
  'output_tokens_details',
  'output_token_details',
  'completionTokensDetails',
  'outputTokenDetails',
  'outputTokens'
]

/** Names of Converse: cached input stands beside `inputTokens`. */
const converseCacheNames = [
  'cacheReadInputTokens',
  'cacheWriteInputTokens',
  'cacheReadInputTokenCount',
  'cacheWriteInputTokenCount',
  'cacheCreationInputTokens'
]

/** Names of Anthropic: cached input stands beside `input_tokens`. */
const anthropicCacheNames = ['cache_read_input_tokens', 'cache_creation_input_tokens']

/** Names of numbers of reasoning tokens that are never part of the output. */
const separateReasoningNames = [
  'thoughtsTokenCount',
  'thoughts_token_count',
  'total_thought_tokens'
]

/** Names that only Perplexity uses, whose reasoning is never part of the output. */
const perplexityNames = [
  'citation_tokens',
  'citationTokens',
  'num_search_queries',
  'numSearchQueries',
  'search_context_size'
]

/** What stands beside a usage object and says more about it. */
export interface BesideUsage {
  /** Objects with further parts, such as those of the AI SDK's `providerMetadata`. */
  readonly parts: readonly object[]
  /** Whether the input is known to leave out what was cached. */
  readonly hasSeparateCache: boolean
}

const nothing: BesideUsage = { parts: [], hasSeparateCache: false }

/**
 * Returns the numbers of one usage object; null if it states none, or if all are 0, which servers
 * send before they know.
 */
export function countsIn (usage: object, beside = nothing): TokenCounts | null {
  const itself = ownCountsIn(usage, beside)
  return greaterOf(iterationsIn(usage, itself?.reasoning ?? 0), itself)
}

/** The numbers as stated, before it is known which of them contain others. */
interface StatedCounts {
  readonly total: number
  readonly input: number
  readonly output: number
  /** What was read from a cache and written to it. */
  readonly cache: number
  readonly reasoning: number
}

function ownCountsIn (usage: object, beside: BesideUsage): TokenCounts | null {
  const sources = [usage, ...beside.parts]
  const inputSources = [...sources, ...objectsIn(usage, inputDetails)]
  const outputSources = [...sources, ...objectsIn(usage, outputDetails)]
  const cachedInput = greatestIn(inputSources, cachedInputNames)
  const cacheWrites = greatestIn(inputSources, cacheWriteNames)
  const stated: StatedCounts = {
    total: greatestIn([usage], totalNames),
    input: greatestIn([usage], inputNames) + sumOf(sources, furtherInputNames),
    output: greatestIn([usage], outputNames),
    cache: cachedInput + cacheWrites,
    reasoning: greatestIn(outputSources, reasoningNames)
  }
  if (stated.total + stated.input + stated.output === 0) return null
  const isCacheSeparate = hasSeparateCache(usage, stated, beside)
  const isReasoningSeparate = hasSeparateReasoning(sources, stated)
  const input = stated.input + (isCacheSeparate ? stated.cache : 0)
  const output = stated.output + (isReasoningSeparate ? stated.reasoning : 0)
  const total = Math.max(stated.total, input + output)
  // Numbers that cannot be added up exactly are no numbers of tokens.
  if (!isNatural(total)) return null
  return { total, input, cachedInput, cacheWrites, output, reasoning: stated.reasoning }
}

/** Whether what was cached is not part of the number of input tokens. */
function hasSeparateCache (usage: object, stated: StatedCounts, beside: BesideUsage): boolean {
  const { total, input, output, cache, reasoning } = stated
  if (cache === 0) return false
  if (cache > input) return true
  const surplus = total - input - output
  if (surplus === reasoning + cache) return true
  if (surplus === cache && cache !== reasoning) return true
  if (hasAny([usage], ['prompt_tokens', 'promptTokenCount'])) return false
  if (beside.hasSeparateCache || hasAny([usage], converseCacheNames)) return true
  if (!hasAny([usage], anthropicCacheNames)) return false
  // Other servers use Anthropic's names for input that contains what was cached: they state a
  // total that shows it, or the same number twice.
  return surplus !== 0 && input !== cache
}

/** Whether reasoning is not part of the number of output tokens. */
function hasSeparateReasoning (sources: readonly object[], stated: StatedCounts): boolean {
  const { total, input, output, cache, reasoning } = stated
  if (reasoning === 0) return false
  if (reasoning > output) return true
  if (hasAny(sources, separateReasoningNames) || hasAny(sources, perplexityNames)) return true
  const surplus = total - input - output
  return surplus === reasoning || surplus === reasoning + cache
}

/**
 * Returns the tokens of all times that Anthropic's API asked a model for one message, for example
 * to compact a conversation; null if it lists none. The numbers of the usage itself omit some of
 * them. A model that declined before it wrote anything is not billed.
 *
 * @param reasoning What the usage itself states. The list does not state it.
 */
function iterationsIn (usage: object, reasoning: number): TokenCounts | null {
  const iterations = propertyOf(usage, 'iterations')
  if (!Array.isArray(iterations)) return null
  const billed: TokenCounts[] = []
  for (const iteration of iterations) {
    const counts = isObject(iteration) ? ownCountsIn(iteration, nothing) : null
    if (counts !== null && counts.output > 0) billed.push(counts)
  }
  const sum = sumOfCounts(billed)
  return sum === null ? null : { ...sum, reasoning: Math.min(reasoning, sum.output) }
}

/** Returns the sum; null of an empty list, or if it is not a safe integer. */
export function sumOfCounts (list: readonly TokenCounts[]): TokenCounts | null {
  const sum = { total: 0, input: 0, cachedInput: 0, cacheWrites: 0, output: 0, reasoning: 0 }
  for (const counts of list) {
    sum.total += counts.total
    sum.input += counts.input
    sum.cachedInput += counts.cachedInput
    sum.cacheWrites += counts.cacheWrites
    sum.output += counts.output
    sum.reasoning += counts.reasoning
  }
  return list.length > 0 && isNatural(sum.total) ? sum : null
}

/**
 * Returns the counts with the greater total; of equal ones, those that assign more of it, and
 * otherwise the first.
 */
export function greaterOf (
  first: TokenCounts | null,
  second: TokenCounts | null
): TokenCounts | null {
  if (first === null || second === null) return first ?? second
  if (second.total !== first.total) return second.total > first.total ? second : first
  const assigned = first.input + first.output
  const assignedBySecond = second.input + second.output
  if (assignedBySecond !== assigned) return assignedBySecond > assigned ? second : first
  return detailsOf(second) > detailsOf(first) ? second : first
}

function detailsOf ({ cachedInput, cacheWrites, reasoning }: TokenCounts): number {
  return cachedInput + cacheWrites + reasoning
}

/** Returns the greatest number that one of the objects has under one of the names, else 0. */
function greatestIn (sources: readonly object[], names: readonly string[]): number {
  let greatest = 0
  for (const source of sources) {
    for (const name of names) greatest = Math.max(greatest, numberIn(source, name) ?? 0)
  }
  return greatest
}

function sumOf (sources: readonly object[], names: readonly string[]): number {
  let sum = 0
  for (const source of sources) {
    for (const name of names) sum += numberIn(source, name) ?? 0
  }
  return sum
}

function hasAny (sources: readonly object[], names: readonly string[]): boolean {
  return sources.some((source) => names.some((name) => propertyOf(source, name) != null))
}

/** Returns the number; of an object, its `total` (the AI SDK's nested form). */
function numberIn (source: object, name: string): number | undefined {
  const value = propertyOf(source, name)
  const count = isObject(value) ? propertyOf(value, 'total') : value
  return isNatural(count) ? count : undefined
}

function objectsIn (source: object, names: readonly string[]): object[] {
  return names.map((name) => propertyOf(source, name)).filter(isObject)
}

/** Returns a property of an object whose type is not known. */
export function propertyOf (source: object, name: string): unknown {
  return Reflect.get(source, name)
}
