import { assertOptions, checkThat, isNatural, isObject } from '../option-checks.js'
import { propertyOf } from './counts.js'
import { imagesOf } from './request-images.js'

/** Options of `estimateOf`. */
export interface EstimateOptions {
  /** The tokens of output of a request that sets no maximum, for each answer that it asks for. */
  readonly output: number
  /** The most tokens of an image. Without it, there is no estimate for a request with images. */
  readonly image?: number
}

/** The most tokens that a request can use. */
export interface Estimate {
  /** What the model reads. */
  readonly input: number
  /** What the model may write. */
  readonly output: number
}

const assertTokens = checkThat('must be a safe integer of at least 0', isNatural)

const checks = { output: assertTokens, image: assertTokens }

/**
 * Returns the most tokens that a request to a model can use: an upper bound, from the body of the
 * request alone, in the form of OpenAI's chat or responses, Anthropic, Gemini, Ollama or Cohere.
 *
 * The input has a token for each byte of the body as JSON in UTF-8, because no text has more tokens
 * than bytes, and `options.image` for each image, whether encoded or a link. The output is the
 * greatest maximum that the body sets, else `options.output`, times the answers that it asks for.
 *
 * @returns The estimate; null for a body in none of these forms, with images but no
 *   `options.image`, or that refers to what it does not hold: an earlier response, a conversation,
 *   a stored prompt, a file, cached content, audio, or the server's own tools.
 * @throws {OptionError} An option is missing or not a safe integer of at least 0.
 *
 * @example
 * ```ts
 * import { estimateOf } from 'fastify-llm-quota'
 *
 * const messages = [{ role: 'user', content: 'Hello' }]
 * console.log(estimateOf({ messages, max_tokens: 100 }, { output: 4096 })?.output) // 100
 * console.log(estimateOf({ messages, n: 2 }, { output: 4096 })?.output) // 8192
 * const continued = { previous_response_id: 'resp_1', input: 'Hello' }
 * console.log(estimateOf(continued, { output: 4096 })) // null
 * ```
 */
export function estimateOf (body: unknown, options: EstimateOptions): Estimate | null {
  assertOptions<EstimateOptions>(options, checks)
  // An option that is not set passes the checks of options, and this one is required.
  assertTokens(options.output, 'output')
  if (!isObject(body) || !hasKnownForm(body) || refersToMore(body)) return null
  const images = imagesOf(body)
  if (images === null) return null
  if (images.count > 0 && options.image === undefined) return null
  const text = jsonWithout(body, images.holders)
  const answers = answersOf(body)
  const output = greatestSetIn(body, outputLimitNames, options.output)
  if (text === null || answers === null || output === null) return null
  const input = Buffer.byteLength(text) + images.count * (options.image ?? 0)
  if (!isNatural(input)) return null
  // A client can ask for any number of answers; the two numbers can always be added up.
  return { input, output: Math.min(output * answers, Number.MAX_SAFE_INTEGER - input) }
}

/** Whether a body has what the model reads where one of the APIs expects it. */
function hasKnownForm (body: object): boolean {
  // OpenAI's chat, Anthropic, Ollama, Cohere; Gemini.
  if (['messages', 'contents'].some((name) => Array.isArray(propertyOf(body, name)))) return true
  // OpenAI's responses; Ollama and OpenAI's completions; Cohere's first version.
  return ['input', 'prompt', 'message'].some((name) => {
    const value = propertyOf(body, name)
    return typeof value === 'string' || Array.isArray(value)
  })
}

/** Properties with which a request refers to what it does not hold. */
const referringNames = [
  'previous_response_id',
  'conversation',
  'conversation_id',
  'previous_interaction_id',
  'cachedContent',
  'cached_content',
  'thread',
  'thread_id',
  'assistant_id',
  'agent_id',
  'connectors',
  'container',
  'mcp_servers',
  'plugins',
  'web_search_options',
  'search_parameters',
  'enable_search', // Qwen
  'data_sources', // Azure
  'dataSources',
  'agent', // Gemini's interactions
  // Further models that Anthropic's API asks, each with a maximum of its own.
  'fallbacks',
  // What Anthropic's API compacts is read and written in addition.
  'context_management'
]

function refersToMore (body: object): boolean {
  if (referringNames.some((name) => propertyOf(body, name) != null)) return true
  // OpenAI's stored prompt.
  if (isObject(propertyOf(body, 'prompt'))) return true
  const tools = propertyOf(body, 'tools') ?? []
  return !Array.isArray(tools) || tools.some((tool) => !isToolOfClient(tool))
}

/** Whether a tool is defined in the request, so that the server runs none and adds no text. */
function isToolOfClient (tool: unknown): boolean {
  if (!isObject(tool)) return false
  const type = propertyOf(tool, 'type')
  if (type !== undefined) return type === 'function' || type === 'custom'
  // Gemini names its own tools, such as `googleSearch`.
  const names = Object.keys(tool)
  const isGemini = names.every((name) => /^function_?declarations$/i.test(name))
  return isGemini || typeof propertyOf(tool, 'name') === 'string'
}

/** Returns the body as JSON without some of its objects; null if there is none. */
function jsonWithout (body: object, omitted: ReadonlySet<unknown>): string | null {
  try {
    return JSON.stringify(body, (_name, value: unknown) => (omitted.has(value) ? null : value))
  } catch {
    // It contains itself, or is nested too deeply.
    return null
  }
}

/** Names of the most tokens of output, in a body or in its configuration. */
const outputLimitNames = [
  'max_tokens',
  'max_completion_tokens',
  'max_output_tokens',
  'maxOutputTokens',
  'maxTokens', // Converse
  'num_predict'
]

/** Objects of a body with its configuration: Gemini's, Ollama's and Converse's. */
const configurationNames = ['generationConfig', 'generation_config', 'options', 'inferenceConfig']

/**
 * Returns the greatest number that a body sets under these names, `otherwise` if it sets none, and
 * null if it sets one to anything else.
 */
function greatestSetIn (
  body: object,
  names: readonly string[],
  otherwise: number
): number | null {
  const configurations = configurationNames.map((name) => propertyOf(body, name))
  const numbers: number[] = []
  for (const place of [body, ...configurations]) {
    if (!isObject(place)) continue
    for (const name of names) {
      const value = propertyOf(place, name)
      if (value == null) continue
      // Ollama's -1 and -2 set no maximum.
      const number = value === -1 || value === -2 ? otherwise : value
      if (!isNatural(number)) return null
      numbers.push(number)
    }
  }
  return numbers.length === 0 ? otherwise : Math.max(...numbers)
}

const answerNames = ['n', 'best_of', 'candidateCount', 'candidate_count', 'num_generations']

/** Returns how many answers a body asks for; null if that is no number. */
function answersOf (body: object): number | null {
  const answers = greatestSetIn(body, answerNames, 1)
  if (answers === null) return null
  const prompt = propertyOf(body, 'prompt')
  // A list of prompts, unless it is one as a list of tokens.
  const prompts = Array.isArray(prompt) && typeof prompt[0] !== 'number' ? prompt.length : 1
  return Math.max(answers, 1) * Math.max(prompts, 1)
}
