// The names of what surrounds the text of a model in the chunks of its API. Every string under
// another name counts as text, so that one that is not known here counts too much, not too little.
import { reasonNames } from './ending.js'
import { modelNames } from './model-name.js'
import { usageNames } from './usage.js'

/** Names of strings that say what a chunk is. Objects under these names can hold text. */
const labelNames: ReadonlySet<string> = new Set([
  ...modelNames,
  ...reasonNames,
  'object', // OpenAI
  'type', // OpenAI, Anthropic, Cohere
  'event_type', // Cohere's first version, Gemini's interactions
  'role', // all of them
  'status', // OpenAI's responses
  'service_tier',
  'system_fingerprint', // OpenAI's chat
  'created_at', // Ollama, Mistral
  'done_reason', // Ollama
  'remote_model',
  'remote_host',
  'stop_type', // llama.cpp
  'stopping_word',
  'stop_sequence', // Anthropic
  'createTime', // Gemini
  'finishMessage',
  'language', // of Gemini's code, and of OpenAI's transcriptions
  'mimeType', // Gemini
  'mime_type',
  'jsonPath', // Vertex AI, with a part of arguments
  'completionReason', // Titan on Bedrock
  'amazon-bedrock-guardrailAction', // Bedrock's InvokeModel
  'native_finish_reason', // OpenRouter
  'provider',
  'format', // OpenRouter, with reasoning
  'audio' // OpenAI's speech; in a chat, an object with what it says
])

/** Names of what a model did not write as text, whether it is a string or holds some. */
const foreignNames: ReadonlySet<string> = new Set([
  ...usageNames,
  'copilot_usage', // Copilot
  'tool_usage', // OpenAI's responses
  'x_groq', // Groq
  'metrics', // Converse
  'trace',
  'performanceConfig',
  'amazon-bedrock-trace', // Bedrock's InvokeModel
  'error', // all of them
  // Strings of any text, so that all chunks are of one length.
  'obfuscation', // OpenAI
  'p', // Cloudflare
  // What is encrypted, or encodes something else than text.
  'signature', // Anthropic
  'thoughtSignature', // Gemini
  'thought_signature',
  'encrypted_content', // OpenAI's responses
  'redactedContent', // Converse
  'reasoning_opaque', // Copilot
  'b64_json', // OpenAI's images
  'partial_image_b64',
  'inlineData', // Gemini
  'inline_data',
  'image_url', // OpenRouter
  'embedding', // OpenAI
  'embeddings', // Cohere, Ollama
  // How likely each token is, which repeats it.
  'logprobs', // OpenAI
  'top_logprobs',
  'logprobsResult', // Gemini
  'completion_probabilities', // llama.cpp
  // Where what a model wrote is from, and what a filter found in it.
  'annotations', // OpenAI
  'annotation',
  'citations', // Anthropic, Cohere, Perplexity
  'citation',
  'search_results', // Perplexity, Cohere's first version
  'documents', // Cohere's first version
  'document', // Cohere's rerankings
  'citationMetadata', // Gemini
  'groundingMetadata',
  'urlContextMetadata',
  'safetyRatings',
  'promptFeedback',
  'prompt_filter_results', // Azure
  'content_filter_results',
  'content_filter_result',
  // What tools of the server found.
  'codeExecutionResult', // Gemini
  // What the request held.
  'prompt', // llama.cpp
  'generation_settings',
  'chat_history', // Cohere's first version
  'session', // OpenAI's realtime API
  // What repeats the text beside it.
  '__verbose', // llama.cpp
  'provider_specific_fields', // LiteLLM
  'providerMetadata' // AI SDK
])

/** Identifiers, as all APIs have them: `id`, `item_id`, `responseId`. */
const identifier = /(?:^|_)id$|[a-z]Id$/

/** What an object `response` of OpenAI's repeats of its request. */
const requestNames: ReadonlySet<string> = new Set([
  'instructions',
  'metadata',
  'prompt_cache_key',
  'prompt_cache_retention',
  'reasoning',
  'safety_identifier',
  'text',
  'tool_choice',
  'tools',
  'truncation',
  'user'
])

/** Whether what an object has under a name is no text of a model, whatever it is. */
export function isForeign (name: string, holder: object): boolean {
  if (foreignNames.has(name)) return true
  return requestNames.has(name) && Reflect.get(holder, 'object') === 'response'
}

/** Whether a string under a name is no text of a model. */
export function isLabel (name: string): boolean {
  return labelNames.has(name) || foreignNames.has(name) || identifier.test(name)
}
