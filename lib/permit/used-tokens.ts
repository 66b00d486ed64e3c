import { isNatural } from '../option-checks.js'

// How much deeper the tokens can stand, so that no object is searched without end.
const nestedLevels = 2

/**
 * Returns the number of model tokens in a usage object, as reported by OpenAI's chat and responses
 * APIs, Anthropic's messages API, the AI SDK, Gemini, Ollama or Cohere: the total that it states,
 * or else the sum of input and output, with Anthropic's cached input.
 *
 * @param usage The usage object: `usage`, `usageMetadata` (Gemini), `meta.tokens` or `usage.tokens`
 *   (Cohere), or a final chunk (Ollama).
 * @returns A safe integer of at least 0; null if the object does not state it. Never an estimate.
 *
 * @example
 * ```ts
 * import { usedTokens } from 'fastify-llm-quota'
 *
 * console.log(usedTokens({ prompt_tokens: 12, completion_tokens: 30 })) // 42
 * console.log(usedTokens({ inputTokens: 12 })) // null
 * ```
 */
export function usedTokens (usage: unknown): number | null {
  return tokensIn(usage, nestedLevels)
}

function tokensIn (usage: unknown, levels: number): number | null {
  if (typeof usage !== 'object' || usage === null) return null
  const total = numberIn(usage, 'total_tokens', 'totalTokens', 'totalTokenCount')
  const input = numberIn(
    usage,
    'prompt_tokens',
    'input_tokens',
    'inputTokens',
    'promptTokens',
    'prompt_eval_count'
  )
  const output = numberIn(
    usage,
    'completion_tokens',
    'output_tokens',
    'outputTokens',
    'completionTokens',
    'eval_count'
  )
  if (total === undefined && input === undefined && output === undefined) {
    return levels === 0 ? null : nestedIn(usage, levels - 1)
  }
  const cached = ['cache_creation_input_tokens', 'cache_read_input_tokens'].map(
    (name) => numberIn(usage, name) ?? 0
  )
  const sum =
    total ??
    [input ?? NaN, output ?? NaN, ...cached].reduce((sum, part) => sum + (part < 0 ? NaN : part), 0)
  return isNatural(sum) ? sum : null
}

/**
 * Cohere states the tokens of a model one or two levels deeper: `{ tokens: { input_tokens,
 * output_tokens } }`, or the same in `meta`.
 */
function nestedIn (usage: object, levels: number): number | null {
  const { tokens, meta }: { readonly tokens?: unknown; readonly meta?: unknown } = usage
  return tokensIn(tokens ?? meta, levels)
}

/** Returns the first of these properties that holds a number. */
function numberIn (usage: object, ...names: readonly string[]): number | undefined {
  for (const name of names) {
    const value: unknown = Reflect.get(usage, name)
    if (typeof value === 'number' && !Number.isNaN(value)) return value
  }
  return undefined
}
