import { assertOptions, checkThat, isNatural, isObject } from '../option-checks.js'
import { inAnyCase, valuesIn, type NamesInAnyCase } from './any-case.js'
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
 * Returns the most tokens that a request to a model can use, from the body of the request alone, in
 * the form of OpenAI's chat or responses, Anthropic, Gemini, Ollama or Cohere. It is an upper
 * bound, except for what a server adds by itself: a system prompt of its own, such as one around
 * tools in another form than Anthropic's or Converse's, and what a model searches.
 *
 * The input has a token for each byte of the body as JSON in UTF-8, because no text has more tokens
 * than bytes, `options.image` for each image, whether encoded or a link, and the most that
 * Anthropic's API adds for tools. The output is the greatest maximum that the body sets, else
 * `options.output`, times the answers that it asks for. A maximum of at most 0 is none.
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
  const inputOfImages = images.count * (options.image ?? 0)
  const input = Buffer.byteLength(text) + inputOfImages + inputForTools(body)
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
const referringNames = inAnyCase(
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
)

const promptNames = inAnyCase('prompt')
const toolsNames = inAnyCase('tools')

function refersToMore (body: object): boolean {
  if (valuesIn(body, referringNames).some((value) => value != null)) return true
  // OpenAI's stored prompt.
  if (valuesIn(body, promptNames).some(isObject)) return true
  return valuesIn(body, toolsNames).some((tools) => !areToolsOfClient(tools ?? []))
}

function areToolsOfClient (tools: unknown): boolean {
  return Array.isArray(tools) && tools.every(isToolOfClient)
}

/** Whether a tool is defined in the request: the client runs it, and the server adds no result. */
function isToolOfClient (tool: unknown): boolean {
  if (!isObject(tool)) return false
  const type = propertyOf(tool, 'type')
  if (type !== undefined) return type === 'function' || type === 'custom'
  // Gemini names its own tools, such as `googleSearch`.
  const names = Object.keys(tool)
  const isGemini = names.every((name) => /^function_?declarations$/i.test(name))
  return isGemini || typeof propertyOf(tool, 'name') === 'string'
}

/**
 * The most tokens of the system prompt with which Anthropic's API explains tools to a model, as its
 * page on tool use lists them: those of Claude Opus 4.7, if it must call one. Others have less.
 */
const mostForTools = 804

const schemaNames = inAnyCase('input_schema')

/** Converse holds its tools in an object. */
const toolConfigurationNames = inAnyCase('toolConfig')

/** Returns the most tokens that Anthropic's models read in addition because a body has tools. */
function inputForTools (body: object): number {
  const tools = valuesIn(body, toolsNames).flat().filter(isObject)
  const hasTools =
    tools.some((tool) => valuesIn(tool, schemaNames).length > 0) ||
    valuesIn(body, toolConfigurationNames).some(isObject)
  return hasTools ? mostForTools : 0
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

/**
 * Names of the most tokens of output, in a body or in its configuration. A number of at most 0 sets
 * no maximum under any of them: Ollama does not limit the output then, whether the request is in
 * its own form or in OpenAI's, nor does llama.cpp for -1. The others write nothing, or refuse it.
 */
const outputLimitNames = inAnyCase(
  'max_tokens', // OpenAI's chat and completions, Anthropic, Cohere, Mistral, and most others
  'max_completion_tokens', // OpenAI's chat, Groq, xAI
  'max_output_tokens', // OpenAI's responses; Gemini
  'maxOutputTokens', // Gemini
  'maxTokens', // Converse
  'max_new_tokens', // Nova on Bedrock
  'max_gen_len', // Llama on Bedrock
  'max_tokens_to_sample', // Anthropic's completions
  'num_predict', // Ollama
  'n_predict' // llama.cpp
)

/** Objects of a body with its configuration. */
const configurationNames = inAnyCase(
  'generationConfig', // Gemini
  'generation_config', // Gemini's interactions
  'options', // Ollama
  'inferenceConfig' // Converse, and Nova on Bedrock
)

/** How many answers a body asks for. */
const answersNames = inAnyCase(
  'n', // OpenAI's chat and completions
  'best_of', // OpenAI's completions
  'candidateCount', // Gemini
  'candidate_count',
  'num_generations' // Cohere
)

/**
 * Returns the greatest number that a body sets under these names, where one of at most 0 means
 * `otherwise`; also `otherwise` if it sets none, and null if it sets one to anything else.
 */
function greatestSetIn (body: object, names: NamesInAnyCase, otherwise: number): number | null {
  const places = [body, ...valuesIn(body, configurationNames).filter(isObject)]
  const values = places.flatMap((place) => valuesIn(place, names))
  const numbers: number[] = []
  for (const value of values) {
    if (value == null) continue
    const number = typeof value === 'number' && value <= 0 ? otherwise : value
    if (!isNatural(number)) return null
    numbers.push(number)
  }
  return numbers.length === 0 ? otherwise : Math.max(...numbers)
}

/** Returns how many answers a body asks for; null if that is no number. */
function answersOf (body: object): number | null {
  const answers = greatestSetIn(body, answersNames, 1)
  if (answers === null) return null
  const prompts = valuesIn(body, promptNames).map(promptsIn)
  return answers * Math.max(1, ...prompts)
}

/** Returns how many prompts there are: a list can hold several, or be one as a list of tokens. */
function promptsIn (prompt: unknown): number {
  return Array.isArray(prompt) && typeof prompt[0] !== 'number' ? prompt.length : 1
}
