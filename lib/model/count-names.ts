// The names under which the APIs of models state numbers of tokens in a usage.

/** Names of the number of all tokens. */
export const totalNames = [
  'total_tokens', // OpenAI and most others
  'totalTokens', // AI SDK, Converse
  'totalTokenCount', // Gemini
  'total_token_count'
]

/** Names of the number of tokens that the model read. */
export const inputNames = [
  'prompt_tokens', // OpenAI's chat and most others
  'input_tokens', // OpenAI's responses, Anthropic, Cohere
  'inputTokens', // AI SDK 5 and later, Converse
  'promptTokens', // AI SDK 4
  'promptTokenCount', // Gemini
  'prompt_token_count',
  'prompt_eval_count', // Ollama
  'total_input_tokens', // Gemini's interactions
  'inputTokenCount', // Bedrock's InvokeModel
  'inputTextTokenCount', // Titan on Bedrock
  'tokens_evaluated', // llama.cpp
  'tokens' // AI SDK, embeddings
]

/** Names of the number of tokens that the model wrote. */
export const outputNames = [
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
  'outputTokenCount', // Bedrock's InvokeModel
  'totalOutputTextTokenCount', // Titan on Bedrock, the last chunk
  'generation_token_count',
  'tokens_predicted'
]

/** What is input in addition to the number of an input name. */
export const furtherInputNames = [
  'toolUsePromptTokenCount', // Gemini
  'tool_use_prompt_token_count',
  'total_tool_use_tokens', // Gemini's interactions
  'citation_tokens', // Perplexity
  'citationTokens'
]

/** Names of the part of the input that was read from a cache. */
export const cachedInputNames = [
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

/** Names of the part of the input that was written to a cache. */
export const cacheWriteNames = [
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

/** Names of the part of the output that is reasoning. */
export const reasoningNames = [
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
export const inputDetails = [
  'prompt_tokens_details',
  'input_tokens_details',
  'input_token_details', // transcriptions, realtime
  'prompt_token_details', // Mistral
  'promptTokensDetails', // OpenRouter in the AI SDK
  'inputTokenDetails', // AI SDK 6
  'inputTokens' // AI SDK 6, nested
]

/** Objects of a usage that state parts of its output. */
export const outputDetails = [
  'completion_tokens_details',
  'output_tokens_details',
  'output_token_details',
  'completionTokensDetails',
  'outputTokenDetails',
  'outputTokens'
]

/** Names of Converse: cached input stands beside `inputTokens`. */
export const converseCacheNames = [
  'cacheReadInputTokens',
  'cacheWriteInputTokens',
  'cacheReadInputTokenCount',
  'cacheWriteInputTokenCount',
  'cacheCreationInputTokens'
]

/** Names of Anthropic: cached input stands beside `input_tokens`. */
export const anthropicCacheNames = ['cache_read_input_tokens', 'cache_creation_input_tokens']

/** Names of numbers of reasoning tokens that are never part of the output. */
export const separateReasoningNames = [
  'thoughtsTokenCount',
  'thoughts_token_count',
  'total_thought_tokens'
]

/** Names that only Perplexity uses, whose reasoning is never part of the output. */
export const perplexityNames = [
  'citation_tokens',
  'citationTokens',
  'num_search_queries',
  'numSearchQueries',
  'search_context_size'
]
