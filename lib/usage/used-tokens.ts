/**
 * Returns the number of model tokens in a usage object of OpenAI's chat and responses APIs, Anthropic's messages API, or the AI SDK: the total
 * that it states, or else the sum of input and output, with Anthropic's cached input.
 *
 * @returns A safe integer of at least 0; null if the object does not state it. Never an estimate.
 *
 * @example
 * ```ts
 * import { usedTokens } from 'fastify-llm-quota'
 *
 * console.log(usedTokens({ prompt_tokens: 12, completion_tokens: 30, total_tokens: 42 }), usedTokens({ inputTokens: 12 })) // 42 null
 * ```
 */
export function usedTokens (usage: unknown): number | null {
  if (typeof usage !== 'object' || usage === null) return null
  const total = numberIn(usage, 'total_tokens', 'totalTokens')
  if (total !== undefined) return naturalOrNull(total)
  const input = numberIn(usage, 'prompt_tokens', 'input_tokens', 'inputTokens', 'promptTokens') ?? NaN
  const output = numberIn(usage, 'completion_tokens', 'output_tokens', 'outputTokens', 'completionTokens') ?? NaN
  const cached = ['cache_creation_input_tokens', 'cache_read_input_tokens'].map((name) => numberIn(usage, name) ?? 0)
  return naturalOrNull([input, output, ...cached].reduce((sum, part) => sum + (part < 0 ? NaN : part), 0))
}

/** Returns the first of these properties that holds a number. */
function numberIn (usage: object, ...names: readonly string[]): number | undefined {
  for (const name of names) {
    const value: unknown = Reflect.get(usage, name)
    if (typeof value === 'number' && !Number.isNaN(value)) return value
  }
  return undefined
}

function naturalOrNull (number: number): number | null {
  return Number.isSafeInteger(number) && number >= 0 ? number : null
}
