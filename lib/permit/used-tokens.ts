import { isNatural, isObject } from '../option-checks.js'

const totalNames = ['total_tokens', 'totalTokens', 'totalTokenCount']
const inputNames = [
  'prompt_tokens',
  'input_tokens',
  'inputTokens',
  'promptTokens',
  'promptTokenCount',
  'prompt_eval_count'
]
const outputNames = [
  'completion_tokens',
  'output_tokens',
  'outputTokens',
  'completionTokens',
  'candidatesTokenCount',
  'eval_count'
]
// What Gemini reports in addition to the prompt and the candidates.
const furtherNames = ['thoughtsTokenCount', 'toolUsePromptTokenCount']
// What Anthropic reports in addition to `input_tokens`. Other APIs report the same names as parts
// of `prompt_tokens`.
const cachedNames = ['cache_creation_input_tokens', 'cache_read_input_tokens']

// How many levels deeper the tokens can be. Bounded, because an object can contain itself.
const nestedLevels = 2

/**
 * Returns the number of model tokens in a usage object, as reported by OpenAI's chat and responses
 * APIs, Anthropic's messages API, the AI SDK, Gemini, Ollama or Cohere: the total that it states,
 * or the sum of its parts if that is more or no total is stated.
 *
 * The parts are input and output, and Anthropic's cached input. If Anthropic's API lists
 * `iterations`, the tokens are the sum of those that are billed.
 *
 * @param usage The usage object: `usage`, `usageMetadata` (Gemini), `meta.tokens` or `usage.tokens`
 *   (Cohere), or a final chunk (Ollama).
 * @returns A safe integer of at least 1; null if the object does not state it, or if all its
 *   numbers are 0, which servers send before they know. Never an estimate.
 *
 * @example
 * ```ts
 * import { usedTokens } from 'fastify-llm-quota'
 *
 * console.log(usedTokens({ prompt_tokens: 12, completion_tokens: 30 })) // 42
 * console.log(usedTokens({ inputTokens: 12 })) // null
 * console.log(usedTokens({ prompt_tokens: 0, completion_tokens: 0 })) // null
 * ```
 */
export function usedTokens (usage: unknown): number | null {
  const tokens = tokensIn(usage, nestedLevels)
  return isNatural(tokens) && tokens > 0 ? tokens : null
}

/** Returns null if the tokens are unknown. The sum is not checked. */
function tokensIn (usage: unknown, levels: number): number | null {
  if (!isObject(usage)) return null
  const total = numberIn(usage, totalNames)
  const input = numberIn(usage, inputNames)
  const output = numberIn(usage, outputNames)
  if (total === undefined && input === undefined && output === undefined) {
    return levels === 0 ? null : nestedIn(usage, levels - 1)
  }
  // If a total is stated, a missing part is 0: embeddings have no output.
  const isWhole = total !== undefined || (input !== undefined && output !== undefined)
  if (!isWhole) return null
  const isAnthropic = numberIn(usage, ['input_tokens']) !== undefined
  const parts = [input, output, ...numbersIn(usage, furtherNames)]
  if (isAnthropic) parts.push(...numbersIn(usage, cachedNames))
  return Math.max(total ?? 0, sumOf(parts), tokensOfIterations(usage))
}

/**
 * Cohere states the tokens of a model one or two levels deeper: `{ tokens: { input_tokens,
 * output_tokens } }`, or the same in `meta`.
 */
function nestedIn (usage: object, levels: number): number | null {
  const { tokens, meta }: { readonly tokens?: unknown; readonly meta?: unknown } = usage
  return tokensIn(tokens ?? meta, levels)
}

/**
 * Returns the tokens of all times that Anthropic's API asked a model for one message, for example
 * to compact a conversation. The numbers of the usage itself omit some of them.
 */
function tokensOfIterations (usage: object): number {
  const { iterations }: { readonly iterations?: unknown } = usage
  if (!Array.isArray(iterations)) return 0
  return sumOf(iterations.map(billedTokensIn))
}

/** A model that declined before it wrote anything is not billed. */
function billedTokensIn (iteration: unknown): number {
  if (!isObject(iteration) || numberIn(iteration, outputNames) === 0) return 0
  return tokensIn(iteration, 0) ?? 0
}

function sumOf (parts: readonly (number | undefined)[]): number {
  return parts.reduce<number>((sum, part) => sum + (part ?? 0), 0)
}

function numbersIn (usage: object, names: readonly string[]): (number | undefined)[] {
  return names.map((name) => numberIn(usage, [name]))
}

/**
 * Returns the first of these properties that holds a number, or an object with one as its `total`
 * (the nested form of the AI SDK). Ignores a number that cannot be a number of tokens.
 */
function numberIn (usage: object, names: readonly string[]): number | undefined {
  for (const name of names) {
    const value: unknown = Reflect.get(usage, name)
    const count: unknown = isObject(value) ? Reflect.get(value, 'total') : value
    if (isNatural(count)) return count
  }
  return undefined
}
