// What servers of models send, reduced to its structure and numbers. A comment says where the
// shapes after it are from: the types of an official client, or the provider's documentation.

/** A body of a response, or the chunks of a stream, and what it states. */
export interface RecordedAnswer {
  /** The API, and which of its answers it is. */
  readonly what: string
  /** How the chunks are sent, by default as events; `object` is a body that is one chunk. */
  readonly form?: 'lines' | 'array' | 'object'
  readonly chunks: readonly object[]
  /** Whether OpenAI's `[DONE]` ends the events. */
  readonly hasDone?: boolean
  /** The model and, in this order: total, input, cached, cache writes, output, reasoning. */
  readonly usage: RecordedUsage | null
  /** Whether it ends as its API ends one, with a usage. Default: whether it states one. */
  readonly isComplete?: boolean
  /** The bytes of what the model wrote. */
  readonly textBytes: number
}

export type RecordedUsage = readonly [
  model: string | null,
  total: number,
  input: number,
  cachedInput: number,
  cacheWrites: number,
  output: number,
  reasoning: number
]

/** A chunk of a chat completion. */
function chat (delta: object, finishReason: string | null = null, more: object = {}): object {
  const choice = { index: 0, delta, logprobs: null, finish_reason: finishReason }
  return { object: 'chat.completion.chunk', created: 1, model: 'm-1', choices: [choice], ...more }
}

/** The chunk after the last choice. */
function chatUsage (usage: object | null, more: object = {}): object {
  return { object: 'chat.completion.chunk', created: 1, model: 'm-1', choices: [], usage, ...more }
}

const openaiUsage = {
  prompt_tokens: 100,
  completion_tokens: 50,
  total_tokens: 150,
  prompt_tokens_details: { cached_tokens: 64, audio_tokens: 0 },
  completion_tokens_details: { reasoning_tokens: 32, audio_tokens: 0 }
}

const responsesUsage = {
  input_tokens: 100,
  input_tokens_details: { cached_tokens: 64, cache_write_tokens: 8 },
  output_tokens: 50,
  output_tokens_details: { reasoning_tokens: 32 },
  total_tokens: 150
}

/** The events of a message of Anthropic's, up to those of its content. */
function messageStart (usage: object): object {
  const message = { id: 'm', type: 'message', role: 'assistant', model: 'm-1', content: [], usage }
  return { type: 'message_start', message }
}

const anthropicStart = messageStart({
  input_tokens: 10,
  cache_creation_input_tokens: 20,
  cache_read_input_tokens: 70,
  cache_creation: { ephemeral_5m_input_tokens: 20, ephemeral_1h_input_tokens: 0 },
  output_tokens: 2
})

const anthropicContent = [
  { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
  { type: 'ping' },
  { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'four' } },
  { type: 'content_block_stop', index: 0 }
]

function messageDelta (usage: object | undefined): object {
  return { type: 'message_delta', delta: { stop_reason: 'end_turn', stop_sequence: null }, usage }
}

const messageStop = { type: 'message_stop' }

/** A chunk of Gemini's. */
function gemini (text: string | null, usageMetadata: object, finishReason?: string): object {
  const content = { parts: text === null ? [] : [{ text }], role: 'model' }
  return { candidates: [{ content, finishReason, index: 0 }], usageMetadata, modelVersion: 'm-1' }
}

const geminiUsage = {
  promptTokenCount: 90,
  cachedContentTokenCount: 64,
  toolUsePromptTokenCount: 10,
  candidatesTokenCount: 30,
  thoughtsTokenCount: 20,
  totalTokenCount: 150,
  promptTokensDetails: [{ modality: 'TEXT', tokenCount: 90 }]
}

const ollamaEnd = {
  model: 'm-1',
  created_at: '2026-01-01T00:00:00Z',
  done: true,
  done_reason: 'stop',
  total_duration: 5,
  prompt_eval_count: 100,
  prompt_eval_duration: 5,
  eval_count: 50
}

const cohereUsage = {
  billed_units: { input_tokens: 5, output_tokens: 50 },
  tokens: { input_tokens: 100, output_tokens: 50 },
  cached_tokens: 64
}

const whole: RecordedUsage = ['m-1', 150, 100, 64, 0, 50, 32]
const plain: RecordedUsage = ['m-1', 150, 100, 0, 0, 50, 0]

export const recordedAnswers: readonly RecordedAnswer[] = [
  // Types of openai.
  {
    what: 'OpenAI chat: a body with cached input and reasoning',
    form: 'object',
    chunks: [
      {
        object: 'chat.completion',
        model: 'm-1',
        choices: [{ index: 0, message: { content: 'four' }, finish_reason: 'stop' }],
        usage: openaiUsage
      }
    ],
    usage: whole,
    textBytes: 4
  },
  {
    what: 'OpenAI chat: a stream with the usage in the last chunk',
    hasDone: true,
    chunks: [
      chat({ role: 'assistant', content: '' }, null, { usage: null }),
      chat({ content: 'four' }, null, { usage: null, obfuscation: 'a1' }),
      chat({ content: ' tö\n' }, null, { usage: null, obfuscation: 'b22' }),
      chat({ content: '"x"' }, null, { usage: null, obfuscation: 'b22' }),
      chat({}, 'stop', { usage: null }),
      chatUsage(openaiUsage)
    ],
    usage: whole,
    textBytes: 12
  },
  {
    what: 'OpenAI chat: a stream whose client did not ask for the usage',
    hasDone: true,
    chunks: [chat({ content: 'four' }), chat({}, 'stop')],
    usage: null,
    textBytes: 4
  },
  {
    what: 'OpenAI chat: a stream with a call of a tool whose arguments hold a usage',
    hasDone: true,
    chunks: [
      chat({ tool_calls: [{ index: 0, id: 't', function: { name: 'f', arguments: '' } }] }),
      chat({ tool_calls: [{ index: 0, function: { arguments: '{"usage":{"prompt_' } }] }),
      chat({ tool_calls: [{ index: 0, function: { arguments: 'tokens":9}}' } }] }),
      chat({}, 'tool_calls'),
      chatUsage(openaiUsage)
    ],
    usage: whole,
    textBytes: 30
  },
  {
    what: 'OpenAI chat: an error in the middle of a stream',
    chunks: [chat({ content: 'four' }), { error: { message: 'm', type: 'server_error' } }],
    usage: null,
    textBytes: 4
  },
  {
    what: 'OpenAI completions: a stream',
    hasDone: true,
    chunks: [
      { object: 'text_completion', model: 'm-1', choices: [{ text: 'four', finish_reason: null }] },
      { object: 'text_completion', model: 'm-1', choices: [{ text: '', finish_reason: 'stop' }] },
      { object: 'text_completion', model: 'm-1', choices: [], usage: openaiUsage }
    ],
    usage: whole,
    textBytes: 4
  },
  {
    what: 'OpenAI responses: a body',
    form: 'object',
    chunks: [
      {
        object: 'response',
        status: 'completed',
        model: 'm-1',
        reasoning: { effort: 'low', summary: null },
        text: { format: { type: 'text' } },
        output: [
          { type: 'reasoning', summary: [{ type: 'summary_text', text: 'two' }] },
          { type: 'message', content: [{ type: 'output_text', text: 'four', annotations: [] }] }
        ],
        usage: responsesUsage,
        tool_usage: { image_gen: { input_tokens: 900, output_tokens: 900, total_tokens: 1800 } }
      }
    ],
    usage: ['m-1', 150, 100, 64, 8, 50, 32],
    textBytes: 7
  },
  {
    what: 'OpenAI responses: a stream, whose later events repeat the text',
    chunks: [
      { type: 'response.created', response: { status: 'in_progress', model: 'm-1', usage: null } },
      { type: 'response.output_text.delta', item_id: 'i', delta: 'fo', sequence_number: 1 },
      { type: 'response.output_text.delta', item_id: 'i', delta: 'ur', sequence_number: 2 },
      { type: 'response.output_text.done', item_id: 'i', text: 'four', sequence_number: 3 },
      {
        type: 'response.completed',
        response: {
          status: 'completed',
          model: 'm-1',
          output: [{ type: 'message', content: [{ type: 'output_text', text: 'four' }] }],
          usage: responsesUsage
        }
      }
    ],
    usage: ['m-1', 150, 100, 64, 8, 50, 32],
    textBytes: 4
  },
  {
    what: 'OpenAI responses: an incomplete one, whose last event counts',
    chunks: [
      { type: 'response.output_text.delta', delta: 'four' },
      {
        type: 'response.incomplete',
        response: { status: 'incomplete', model: 'm-1', usage: responsesUsage }
      }
    ],
    usage: ['m-1', 150, 100, 64, 8, 50, 32],
    textBytes: 4
  },
  {
    what: 'OpenAI responses: one with an error, whose code is no text',
    chunks: [
      { type: 'response.created', response: { status: 'in_progress', model: 'm-1', usage: null } },
      { type: 'response.output_text.delta', delta: 'four' },
      { type: 'error', code: 'rate_limit_exceeded', message: 'm', param: null }
    ],
    usage: null,
    textBytes: 4
  },
  {
    what: 'OpenAI responses: calls that are not streamed, of which each event holds one',
    chunks: [
      {
        type: 'response.output_item.done',
        item: { type: 'local_shell_call', action: { command: ['ls'] } }
      },
      {
        type: 'response.output_item.done',
        item: { type: 'apply_patch_call', operation: { path: 'p' } }
      }
    ],
    usage: null,
    textBytes: 18 + 12
  },
  {
    what: 'OpenAI embeddings: a body, which states input only',
    form: 'object',
    chunks: [
      {
        object: 'list',
        data: [{ object: 'embedding', embedding: [0.1, 0.2] }],
        model: 'm-1',
        usage: { prompt_tokens: 42, total_tokens: 42 }
      }
    ],
    usage: ['m-1', 42, 42, 0, 0, 0, 0],
    textBytes: 0
  },
  {
    what: 'OpenAI images: a stream with an encoded image',
    chunks: [
      { type: 'image_generation.partial_image', b64_json: 'AAAA'.repeat(50) },
      {
        type: 'image_generation.completed',
        b64_json: 'AAAA'.repeat(50),
        usage: {
          input_tokens: 100,
          input_tokens_details: { image_tokens: 60, text_tokens: 40 },
          output_tokens: 50,
          total_tokens: 150
        }
      }
    ],
    usage: [null, 150, 100, 0, 0, 50, 0],
    textBytes: 0
  },
  {
    what: 'OpenAI transcriptions: a stream, with singular details',
    chunks: [
      { type: 'transcript.text.delta', delta: 'four' },
      {
        type: 'transcript.text.done',
        text: 'four',
        usage: {
          type: 'tokens',
          input_tokens: 100,
          input_token_details: { audio_tokens: 90, text_tokens: 10 },
          output_tokens: 50,
          total_tokens: 150
        }
      }
    ],
    usage: [null, 150, 100, 0, 0, 50, 0],
    textBytes: 4
  },
  {
    what: 'OpenAI transcriptions: a body that states seconds',
    form: 'object',
    chunks: [{ text: 'four', usage: { type: 'duration', seconds: 9 } }],
    usage: null,
    textBytes: 4
  },
  {
    what: 'OpenAI realtime: a response with encoded sound and what it says',
    form: 'lines',
    chunks: [
      { type: 'response.output_audio.delta', delta: 'AAAA' },
      { type: 'response.output_audio_transcript.delta', delta: 'four' },
      {
        type: 'response.done',
        response: {
          usage: {
            total_tokens: 150,
            input_tokens: 100,
            output_tokens: 50,
            input_token_details: { text_tokens: 20, audio_tokens: 80, cached_tokens: 64 },
            output_token_details: { text_tokens: 20, audio_tokens: 30 }
          }
        }
      }
    ],
    usage: [null, 150, 100, 64, 0, 50, 0],
    textBytes: 4
  },
  // Types of @anthropic-ai/sdk.
  {
    what: 'Anthropic: a body with thinking and a call of a tool',
    form: 'object',
    chunks: [
      {
        type: 'message',
        model: 'm-1',
        stop_reason: 'tool_use',
        content: [
          { type: 'thinking', thinking: 'two', signature: 'AAAA' },
          { type: 'tool_use', id: 't', name: 'f', input: { usage: { input_tokens: 9 } } }
        ],
        usage: {
          input_tokens: 10,
          cache_creation_input_tokens: 20,
          cache_read_input_tokens: 70,
          cache_creation: { ephemeral_5m_input_tokens: 20, ephemeral_1h_input_tokens: 0 },
          output_tokens: 50,
          output_tokens_details: { thinking_tokens: 32 },
          server_tool_use: { web_search_requests: 3 },
          service_tier: 'standard'
        }
      }
    ],
    usage: ['m-1', 150, 100, 70, 20, 50, 32],
    textBytes: 32
  },
  {
    what: 'Anthropic: a stream whose usage is split',
    chunks: [anthropicStart, ...anthropicContent, messageDelta({ output_tokens: 50 }), messageStop],
    usage: ['m-1', 150, 100, 70, 20, 50, 0],
    textBytes: 4
  },
  {
    what: 'Anthropic: a stream whose input grows, and whose nulls change nothing',
    chunks: [
      messageStart({ input_tokens: 10, cache_read_input_tokens: 70, output_tokens: 2 }),
      ...anthropicContent,
      messageDelta({
        input_tokens: 30,
        cache_creation_input_tokens: null,
        cache_read_input_tokens: null,
        output_tokens: 50,
        output_tokens_details: { thinking_tokens: 32 }
      }),
      messageStop
    ],
    usage: ['m-1', 150, 100, 70, 0, 50, 32],
    textBytes: 4
  },
  {
    what: 'Anthropic: a stream of a model that stood in for one that declined',
    chunks: [
      messageStart({ input_tokens: 90, output_tokens: 1 }),
      ...anthropicContent,
      messageDelta({
        input_tokens: 100,
        output_tokens: 50,
        iterations: [
          { type: 'message', model: 'm-1', input_tokens: 90, output_tokens: 0 },
          { type: 'fallback_message', model: 'm-2', input_tokens: 100, output_tokens: 50 }
        ]
      }),
      messageStop
    ],
    usage: ['m-2', 150, 100, 0, 0, 50, 0],
    textBytes: 4
  },
  // Servers in the form of Anthropic, as a gateway had to correct.
  {
    what: 'Anthropic: a stream of a server that repeats the input as 0',
    chunks: [
      messageStart({ input_tokens: 100, output_tokens: 0 }),
      ...anthropicContent,
      messageDelta({ input_tokens: 0, output_tokens: 50 }),
      messageStop
    ],
    usage: plain,
    textBytes: 4
  },
  // Servers in the form of Anthropic.
  {
    what: 'Anthropic: a stream of a server that knows the input in the end',
    chunks: [
      messageStart({ input_tokens: 0, output_tokens: 0 }),
      ...anthropicContent,
      messageDelta({ input_tokens: 100, output_tokens: 50 }),
      messageStop
    ],
    usage: plain,
    textBytes: 4
  },
  // Types of @anthropic-ai/sdk.
  {
    what: 'Anthropic: a stream that ends cleanly before its last usage',
    chunks: [anthropicStart, ...anthropicContent],
    usage: ['m-1', 102, 100, 70, 20, 2, 0],
    isComplete: false,
    textBytes: 4
  },
  {
    what: 'Anthropic: a stream whose last events state no usage',
    chunks: [anthropicStart, messageDelta(undefined), messageStop],
    usage: ['m-1', 102, 100, 70, 20, 2, 0],
    isComplete: false,
    textBytes: 0
  },
  {
    what: 'Anthropic: a stream with arguments of a tool and an error',
    chunks: [
      anthropicStart,
      {
        type: 'content_block_start',
        index: 0,
        content_block: { type: 'tool_use', id: 't', name: 'f', input: {} }
      },
      {
        type: 'content_block_delta',
        index: 0,
        delta: { type: 'input_json_delta', partial_json: '{"a":' }
      },
      { type: 'error', error: { type: 'overloaded_error', message: 'm' } }
    ],
    usage: ['m-1', 102, 100, 70, 20, 2, 0],
    isComplete: false,
    textBytes: 6
  },
  // Documentation of the Gemini API.
  {
    what: 'Gemini: events with the usage so far in each',
    chunks: [
      gemini('fo', { promptTokenCount: 90, totalTokenCount: 90 }),
      gemini('ur', { promptTokenCount: 90, candidatesTokenCount: 9, totalTokenCount: 99 }),
      gemini(null, geminiUsage, 'STOP')
    ],
    usage: ['m-1', 150, 100, 64, 0, 50, 20],
    textBytes: 4
  },
  {
    what: 'Gemini: an array',
    form: 'array',
    chunks: [
      gemini('fo]"{', { promptTokenCount: 90, totalTokenCount: 90 }),
      gemini('ur', geminiUsage, 'STOP')
    ],
    usage: ['m-1', 150, 100, 64, 0, 50, 20],
    textBytes: 7
  },
  // Documentation of Vertex AI.
  {
    what: 'Gemini: events with parts of arguments',
    chunks: [
      {
        candidates: [{ content: { parts: [{ functionCall: { name: 'f', willContinue: true } }] } }]
      },
      {
        candidates: [
          {
            content: {
              parts: [{ functionCall: { partialArgs: [{ jsonPath: '$.a', stringValue: 'four' }] } }]
            }
          }
        ]
      }
    ],
    usage: null,
    textBytes: 42
  },
  // Documentation of the Gemini API.
  {
    what: 'Gemini: a body with a call of a function and an image',
    form: 'object',
    chunks: [
      {
        candidates: [
          {
            content: {
              parts: [
                { functionCall: { name: 'f', args: { usage: { totalTokens: 9 } } } },
                { inlineData: { mimeType: 'image/png', data: 'AAAA' } }
              ]
            },
            finishReason: 'STOP'
          }
        ],
        usageMetadata: geminiUsage,
        modelVersion: 'm-1'
      }
    ],
    usage: ['m-1', 150, 100, 64, 0, 50, 20],
    textBytes: 28
  },
  {
    what: 'Gemini interactions: a stream',
    hasDone: true,
    chunks: [
      { event_type: 'step.start', index: 0, step: { type: 'model_output' } },
      { event_type: 'step.delta', index: 0, delta: { type: 'text', text: 'four' } },
      {
        event_type: 'interaction.completed',
        interaction: {
          model: 'm-1',
          status: 'completed',
          usage: {
            total_tokens: 150,
            total_input_tokens: 90,
            total_cached_tokens: 64,
            total_output_tokens: 30,
            total_tool_use_tokens: 10,
            total_thought_tokens: 20
          }
        }
      }
    ],
    usage: ['m-1', 150, 100, 64, 0, 50, 20],
    textBytes: 4
  },
  // Documentation of Ollama.
  {
    what: 'Ollama: lines of a chat',
    form: 'lines',
    chunks: [
      { model: 'm-1', created_at: '1', message: { content: 'four' }, done: false },
      { model: 'm-1', created_at: '2', message: { content: '', thinking: 'two' }, done: false },
      {
        model: 'm-1',
        created_at: '3',
        message: { tool_calls: [{ function: { name: 'f', arguments: { eval_count: 9 } } }] },
        done: false
      },
      { ...ollamaEnd, message: { content: '' } }
    ],
    usage: plain,
    textBytes: 24
  },
  {
    what: 'Ollama: embeddings',
    form: 'object',
    chunks: [{ model: 'm-1', embeddings: [[0.1]], total_duration: 5, prompt_eval_count: 42 }],
    usage: ['m-1', 42, 42, 0, 0, 0, 0],
    textBytes: 0
  },
  // Documentation of Cohere.
  {
    what: 'Cohere: a stream of the second version',
    hasDone: true,
    chunks: [
      { type: 'message-start', id: 'i', delta: { message: { role: 'assistant', content: [] } } },
      { type: 'content-delta', index: 0, delta: { message: { content: { text: 'four' } } } },
      { type: 'tool-plan-delta', delta: { message: { tool_plan: 'two' } } },
      { type: 'message-end', delta: { finish_reason: 'COMPLETE', usage: cohereUsage } }
    ],
    usage: [null, 150, 100, 64, 0, 50, 0],
    textBytes: 7
  },
  {
    what: 'Cohere: lines of the first version',
    form: 'lines',
    chunks: [
      { is_finished: false, event_type: 'text-generation', text: 'four' },
      {
        is_finished: true,
        event_type: 'stream-end',
        response: { text: 'four', chat_history: [{ message: 'four' }], meta: cohereUsage },
        finish_reason: 'COMPLETE'
      }
    ],
    usage: [null, 150, 100, 64, 0, 50, 0],
    textBytes: 4
  },
  {
    what: 'Cohere: embeddings, of which it states what it bills',
    form: 'object',
    chunks: [{ embeddings: [[0.1]], meta: { billed_units: { input_tokens: 42 } } }],
    usage: [null, 42, 42, 0, 0, 0, 0],
    textBytes: 0
  },
  {
    what: 'Cohere: a reranking, of which it states search units',
    form: 'object',
    chunks: [{ results: [{ index: 0 }], meta: { billed_units: { search_units: 1 } } }],
    usage: null,
    textBytes: 0
  },
  // Documentation of Mistral.
  {
    what: 'Mistral: a stream with thinking and the usage in the chunk that finishes',
    hasDone: true,
    chunks: [
      chat({ content: [{ type: 'thinking', thinking: [{ type: 'text', text: 'two' }] }] }),
      chat({ content: 'four' }),
      chat({ content: '' }, 'stop', {
        usage: {
          prompt_tokens: 100,
          completion_tokens: 50,
          total_tokens: 150,
          num_cached_tokens: 64,
          prompt_token_details: { cached_tokens: 64 },
          prompt_audio_seconds: 3
        }
      })
    ],
    usage: ['m-1', 150, 100, 64, 0, 50, 0],
    textBytes: 7
  },
  // Documentation of DeepSeek.
  {
    what: 'DeepSeek: a stream with reasoning',
    hasDone: true,
    chunks: [
      chat({ content: null, reasoning_content: 'two' }),
      chat({ content: 'four', reasoning_content: null }),
      chat({ content: '' }, 'stop', {
        usage: {
          prompt_tokens: 100,
          completion_tokens: 50,
          total_tokens: 150,
          prompt_tokens_details: { cached_tokens: 64 },
          completion_tokens_details: { reasoning_tokens: 32 },
          prompt_cache_hit_tokens: 64,
          prompt_cache_miss_tokens: 36
        }
      })
    ],
    usage: whole,
    textBytes: 7
  },
  // Documentation of Groq.
  {
    what: 'Groq: a stream with the usage in x_groq only',
    hasDone: true,
    chunks: [
      chat({ content: '' }, null, { x_groq: { id: 'i' } }),
      chat({ content: 'four', reasoning: 'two' }),
      chat({}, 'stop', { x_groq: { id: 'i', usage: { queue_time: 0.5, ...openaiUsage } } })
    ],
    usage: whole,
    textBytes: 7
  },
  {
    what: 'Groq: a stream with the usage twice',
    hasDone: true,
    chunks: [
      chat({ content: 'four' }),
      chat({}, 'stop', { x_groq: { id: 'i', usage: openaiUsage } }),
      chatUsage(openaiUsage)
    ],
    usage: whole,
    textBytes: 4
  },
  // Documentation of xAI.
  {
    what: 'xAI: a stream with reasoning beside the output, and the usage so far in each chunk',
    hasDone: true,
    chunks: [
      chat({ reasoning_content: 'two' }, null, {
        usage: { prompt_tokens: 100, completion_tokens: 0, total_tokens: 100 }
      }),
      chat({ content: 'four' }, 'stop', {
        usage: {
          prompt_tokens: 100,
          completion_tokens: 18,
          total_tokens: 150,
          prompt_tokens_details: { text_tokens: 100, cached_tokens: 64 },
          completion_tokens_details: { reasoning_tokens: 32 },
          num_sources_used: 0,
          cost_in_usd_ticks: 37_756_000
        }
      })
    ],
    usage: whole,
    textBytes: 7
  },
  // Documentation of Perplexity.
  {
    what: 'Perplexity: a stream, whose total leaves out reasoning and citations',
    chunks: [
      chat({ content: 'fo' }, null, { citations: ['x'] }),
      {
        model: 'm-1',
        choices: [
          { delta: { content: 'ur' }, message: { content: 'four' }, finish_reason: 'stop' }
        ],
        usage: {
          prompt_tokens: 80,
          completion_tokens: 30,
          total_tokens: 110,
          citation_tokens: 20,
          num_search_queries: 18,
          reasoning_tokens: 20,
          cost: { total_cost: 0.5 }
        }
      }
    ],
    usage: ['m-1', 150, 100, 0, 0, 50, 20],
    textBytes: 4
  },
  // Documentation of Together.
  {
    what: 'Together: a stream whose choices repeat each text, and whose last chunk names no model',
    chunks: [
      { model: 'm-1', choices: [{ text: 'fo', delta: { content: 'fo' }, finish_reason: null }] },
      { model: 'm-1', choices: [{ text: 'ur', delta: { content: 'ur' }, finish_reason: null }] },
      {
        choices: [{ text: '', delta: { content: '' }, finish_reason: 'stop' }],
        usage: { prompt_tokens: 100, completion_tokens: 50, total_tokens: 150 }
      }
    ],
    hasDone: true,
    usage: plain,
    textBytes: 4
  },
  // Documentation of Moonshot.
  {
    what: 'Kimi: a stream with the usage in the choice',
    hasDone: true,
    chunks: [
      chat({ content: 'four' }),
      {
        model: 'm-1',
        choices: [
          {
            delta: {},
            finish_reason: 'stop',
            usage: {
              prompt_tokens: 100,
              completion_tokens: 50,
              total_tokens: 150,
              cached_tokens: 64
            }
          }
        ]
      }
    ],
    usage: ['m-1', 150, 100, 64, 0, 50, 0],
    textBytes: 4
  },
  // Documentation of vLLM.
  {
    what: 'vLLM: a stream with the usage so far in each chunk',
    hasDone: true,
    chunks: [
      chat({ content: 'fo' }, null, {
        usage: { prompt_tokens: 100, completion_tokens: 1, total_tokens: 101 }
      }),
      chat({ content: 'ur' }, null, {
        usage: { prompt_tokens: 100, completion_tokens: 2, total_tokens: 102 }
      }),
      chat({}, 'stop', { usage: { prompt_tokens: 100, completion_tokens: 50, total_tokens: 150 } })
    ],
    usage: plain,
    textBytes: 4
  },
  {
    what: 'vLLM: a stream with the usage so far that ends in the middle',
    chunks: [
      chat({ content: 'four' }, null, {
        usage: { prompt_tokens: 100, completion_tokens: 1, total_tokens: 101 }
      })
    ],
    usage: ['m-1', 101, 100, 0, 0, 1, 0],
    isComplete: false,
    textBytes: 4
  },
  // Servers in the form of OpenAI.
  {
    what: 'a server that sends zeros first: a stream',
    hasDone: true,
    chunks: [
      chat({ content: 'four' }, null, {
        usage: { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }
      }),
      chat({}, 'stop', { usage: openaiUsage }),
      chatUsage({ prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 })
    ],
    usage: whole,
    textBytes: 4
  },
  // Documentation of OpenRouter.
  {
    what: 'OpenRouter: a stream with its costs, and its reasoning twice',
    hasDone: true,
    chunks: [
      chat({ content: '', reasoning: 'two', reasoning_details: [{ type: 't', text: 'two' }] }),
      chat({ content: 'four' }),
      chat({}, 'stop'),
      chatUsage({
        ...openaiUsage,
        prompt_tokens_details: { cached_tokens: 64, cache_write_tokens: 8 },
        cost: 0.5,
        cost_details: { upstream_inference_cost: null }
      })
    ],
    usage: ['m-1', 150, 100, 64, 8, 50, 32],
    textBytes: 7
  },
  // Documentation of LiteLLM.
  {
    what: 'LiteLLM: a body with Anthropic\'s names of cached input, which is part of the prompt',
    form: 'object',
    chunks: [
      {
        model: 'm-1',
        choices: [{ message: { content: 'four' }, finish_reason: 'stop' }],
        usage: {
          prompt_tokens: 100,
          completion_tokens: 50,
          total_tokens: 150,
          prompt_tokens_details: { cached_tokens: 64, cache_creation_tokens: 8 },
          cache_creation_input_tokens: 8,
          cache_read_input_tokens: 64
        }
      }
    ],
    usage: ['m-1', 150, 100, 64, 8, 50, 0],
    textBytes: 4
  },
  // Documentation of llama.cpp.
  {
    what: 'llama.cpp: a stream with timings in each chunk',
    hasDone: true,
    chunks: [
      chat({ content: 'four' }, null, { timings: { prompt_n: 900, predicted_n: 900 } }),
      chat({}, 'stop'),
      chatUsage(openaiUsage, { timings: { prompt_n: 900, predicted_n: 900 } })
    ],
    usage: whole,
    textBytes: 4
  },
  // Documentation of Azure OpenAI.
  {
    what: 'Azure: a stream that begins with the result of its filter, without a model',
    hasDone: true,
    chunks: [
      { choices: [], model: '', object: '', prompt_filter_results: [{ prompt_index: 0 }] },
      chat({ content: 'four' }),
      chat({}, 'stop'),
      chatUsage(openaiUsage)
    ],
    usage: whole,
    textBytes: 4
  },
  // A gateway to Copilot.
  {
    what: 'Copilot: a body with its own usage beside',
    form: 'object',
    chunks: [
      {
        model: 'm-1',
        choices: [{ message: { content: 'four' }, finish_reason: 'stop' }],
        copilot_usage: { total_nano_aiu: 1_000_000_000, total_tokens: 900 },
        usage: openaiUsage
      }
    ],
    usage: whole,
    textBytes: 4
  },
  // Documentation of Amazon Bedrock.
  {
    what: 'Bedrock Converse: a body, with cached input beside',
    form: 'object',
    chunks: [
      {
        output: { message: { role: 'assistant', content: [{ text: 'four' }] } },
        stopReason: 'end_turn',
        usage: {
          inputTokens: 10,
          outputTokens: 50,
          totalTokens: 150,
          cacheReadInputTokens: 70,
          cacheWriteInputTokens: 20,
          cacheDetails: [{ inputTokens: 20, ttl: '5m' }]
        },
        metrics: { latencyMs: 900 }
      }
    ],
    usage: [null, 150, 100, 70, 20, 50, 0],
    textBytes: 4
  },
  {
    what: 'Bedrock Converse: the parts of a stream, as lines',
    form: 'lines',
    chunks: [
      { messageStart: { role: 'assistant' } },
      { contentBlockDelta: { contentBlockIndex: 0, delta: { text: 'four' } } },
      { messageStop: { stopReason: 'end_turn' } },
      {
        metadata: {
          usage: { inputTokens: 100, outputTokens: 50, totalTokens: 150 },
          metrics: { latencyMs: 900 }
        }
      }
    ],
    usage: [null, 150, 100, 0, 0, 50, 0],
    textBytes: 4
  },
  // Types of openai.
  {
    what: 'OpenAI speech: a stream with encoded sound',
    chunks: [
      { type: 'speech.audio.delta', audio: 'AAAA' },
      {
        type: 'speech.audio.done',
        usage: { input_tokens: 100, output_tokens: 50, total_tokens: 150 }
      }
    ],
    usage: [null, 150, 100, 0, 0, 50, 0],
    textBytes: 0
  },
  // Documentation of Mistral.
  {
    what: 'Mistral: a stream of a transcription',
    chunks: [
      { type: 'transcription.text.delta', text: 'four' },
      {
        type: 'transcription.done',
        model: 'm-1',
        text: 'four',
        usage: {
          prompt_audio_seconds: 3,
          prompt_tokens: 100,
          completion_tokens: 50,
          total_tokens: 150
        }
      }
    ],
    usage: plain,
    textBytes: 4
  },
  // Documentation of DashScope.
  {
    what: 'DashScope: events that say \'null\' until they finish',
    chunks: [
      {
        output: { choices: [{ message: { content: 'fo' }, finish_reason: 'null' }] },
        usage: { input_tokens: 100, output_tokens: 1, total_tokens: 101 }
      },
      {
        output: { choices: [{ message: { content: 'ur' }, finish_reason: 'stop' }] },
        usage: {
          input_tokens: 100,
          output_tokens: 50,
          total_tokens: 150,
          prompt_tokens_details: { cached_tokens: 64 },
          output_tokens_details: { reasoning_tokens: 32 }
        }
      }
    ],
    usage: [null, 150, 100, 64, 0, 50, 32],
    textBytes: 4
  },
  // Documentation of Workers AI.
  {
    what: 'Cloudflare: a stream',
    hasDone: true,
    chunks: [
      { response: 'four', p: 'abc' },
      {
        response: '',
        usage: { prompt_tokens: 100, completion_tokens: 50, total_tokens: 150 },
        finish_reason: 'stop'
      }
    ],
    usage: [null, 150, 100, 0, 0, 50, 0],
    textBytes: 4
  },
  // Documentation of LM Studio.
  {
    what: 'LM Studio: a stream, whose last event holds the result',
    chunks: [
      { type: 'message.delta', content: 'four' },
      {
        type: 'chat.end',
        result: {
          output: [{ type: 'message', content: 'four' }],
          stats: { input_tokens: 100, total_output_tokens: 50, reasoning_output_tokens: 32 }
        }
      }
    ],
    usage: [null, 150, 100, 0, 0, 50, 32],
    textBytes: 4
  },
  // Documentation of Amazon Bedrock.
  {
    what: 'Bedrock InvokeModel: parts of Anthropic\'s stream, the last without cached input',
    form: 'lines',
    chunks: [
      anthropicStart,
      ...anthropicContent,
      messageDelta({ output_tokens: 50 }),
      {
        ...messageStop,
        'amazon-bedrock-invocationMetrics': { inputTokenCount: 10, outputTokenCount: 50 }
      }
    ],
    usage: ['m-1', 150, 100, 70, 20, 50, 0],
    textBytes: 4
  }
]
