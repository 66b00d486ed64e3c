// docs/rules.md, "Settlements": which bytes of a response are text that its model wrote.
import t from 'tap'
import { bodyOf, meteredInParts } from '../support/metered.js'

/** Returns the bytes of text that a meter counts in a stream of these events. */
async function textBytesIn (chunks: readonly object[]): Promise<number> {
  const body = bodyOf({ what: 'events', chunks, usage: null, textBytes: 0 })
  const { end } = await meteredInParts(body, [body.length])
  return end.textBytes
}

const unknown: [where: string, chunk: object][] = [
  ['in a delta', { choices: [{ delta: { thought: 'four' } }] }],
  ['beside a delta', { choices: [{ delta: { content: '' }, draft: 'four' }] }],
  ['in a chunk', { answer: 'four' }],
  ['in an object', { answer: { words: { first: 'fo', second: 'ur' } } }],
  ['in a list', { deltas: ['fo', ['ur']] }],
  ['in an object under the name of a label', { object: { answer: 'four' } }],
  ['as a list under the name of a label', { role: ['four'] }],
  ['in an event', { type: 'thought.delta', thought: 'four' }],
  ['in an event that ends', { type: 'thought.done', thought: 'four' }]
]

for (const [where, chunk] of unknown) {
  t.test(`a text under a name that no API has counts: ${where}`, async (t) => {
    t.equal(await textBytesIn([chunk]), 4)
    t.equal(await textBytesIn([{ id: '1', ...chunk }, { id: '2', ...chunk }]), 8)
  })
}

const response = {
  id: 'resp_1',
  object: 'response',
  created_at: 1,
  status: 'in_progress',
  background: false,
  error: null,
  instructions: 'You are an assistant.',
  metadata: { team: 'sales' },
  model: 'm-1',
  output: [],
  previous_response_id: 'resp_0',
  prompt_cache_key: 'key',
  reasoning: { effort: 'low', summary: 'auto' },
  safety_identifier: 'user-1',
  service_tier: 'default',
  text: { format: { type: 'text' }, verbosity: 'medium' },
  tool_choice: 'auto',
  tools: [{ type: 'function', name: 'f', description: 'Finds.', parameters: {} }],
  truncation: 'disabled',
  user: 'user-1'
}

const chat = {
  id: 'chatcmpl-1',
  object: 'chat.completion.chunk',
  created: 1,
  model: 'm-1',
  service_tier: 'default',
  system_fingerprint: 'fp_1'
}

// Each streams the text `four`, and what its API sends around it.
const envelopes: [api: string, chunks: object[]][] = [
  [
    'OpenAI chat',
    [
      {
        ...chat,
        choices: [
          {
            index: 0,
            delta: { role: 'assistant', content: 'four' },
            logprobs: { content: [{ token: 'four', bytes: [102], top_logprobs: [] }] },
            finish_reason: null
          }
        ],
        obfuscation: 'aB3'
      },
      { ...chat, choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }
    ]
  ],
  [
    'OpenAI chat, with sound',
    [
      { ...chat, choices: [{ delta: { audio: { id: 'audio_1', transcript: 'four' } } }] },
      { ...chat, choices: [{ delta: { audio: { id: 'audio_1', data: 'AAAA' } } }] }
    ]
  ],
  [
    'OpenAI responses',
    [
      { type: 'response.created', response },
      { type: 'response.in_progress', response },
      {
        type: 'response.output_item.added',
        item: { id: 'msg_1', type: 'message', status: 'in_progress', content: [] }
      },
      { type: 'response.output_text.delta', item_id: 'msg_1', delta: 'four', obfuscation: 'aB3' },
      {
        type: 'response.output_text.annotation.added',
        annotation: { type: 'url_citation', title: 'A page', url: 'https://page.example' }
      },
      {
        type: 'response.completed',
        response: {
          ...response,
          output: [
            { id: 'rs_1', type: 'reasoning', summary: [], encrypted_content: 'AAAA' },
            { id: 'ig_1', type: 'image_generation_call', result: 'AAAA' },
            { id: 'mcp_1', type: 'mcp_list_tools', tools: [{ name: 'f', description: 'Finds.' }] },
            {
              id: 'msg_1',
              type: 'message',
              content: [
                {
                  type: 'output_text',
                  text: 'four',
                  annotations: [{ type: 'url_citation', title: 'A page' }],
                  logprobs: [{ token: 'four' }]
                }
              ]
            }
          ]
        }
      }
    ]
  ],
  [
    'OpenAI realtime',
    [
      { type: 'session.created', event_id: 'e1', session: { instructions: 'Answer.' } },
      { type: 'response.output_text.delta', event_id: 'e2', response_id: 'r', delta: 'four' }
    ]
  ],
  [
    'OpenAI transcriptions',
    [{ text: 'four', language: 'english', segments: [{ text: 'four' }], words: [{ word: 'four' }] }]
  ],
  [
    'Anthropic',
    [
      {
        type: 'message_start',
        message: { id: 'msg_1', type: 'message', role: 'assistant', model: 'm-1', content: [] }
      },
      {
        type: 'content_block_start',
        index: 0,
        content_block: { type: 'redacted_thinking', data: 'AAAA' }
      },
      {
        type: 'content_block_start',
        index: 1,
        content_block: { type: 'web_search_tool_result', tool_use_id: 't', content: [{ url: 'u' }] }
      },
      { type: 'content_block_delta', index: 2, delta: { type: 'signature_delta', signature: 'A' } },
      { type: 'content_block_delta', index: 3, delta: { type: 'text_delta', text: 'four' } },
      {
        type: 'content_block_delta',
        index: 3,
        delta: { type: 'citations_delta', citation: { type: 'page_location', cited_text: 'x' } }
      },
      { type: 'message_delta', delta: { stop_reason: 'stop_sequence', stop_sequence: 'END' } }
    ]
  ],
  [
    'Gemini',
    [
      {
        candidates: [
          {
            content: { parts: [{ text: 'four', thoughtSignature: 'AAAA' }], role: 'model' },
            finishReason: 'MALFORMED_FUNCTION_CALL',
            finishMessage: 'The call is malformed.',
            citationMetadata: { citationSources: [{ uri: 'https://page.example' }] },
            groundingMetadata: { webSearchQueries: ['two'] },
            safetyRatings: [{ category: 'HARM', probability: 'LOW' }]
          }
        ],
        promptFeedback: { blockReason: 'SAFETY' },
        modelVersion: 'm-1',
        responseId: 'r1'
      }
    ]
  ],
  [
    'Gemini, with code',
    [
      {
        candidates: [
          {
            content: {
              parts: [
                { executableCode: { language: 'PYTHON', code: 'four' } },
                { codeExecutionResult: { outcome: 'OUTCOME_OK', output: '4' } },
                { inlineData: { mimeType: 'image/png', data: 'AAAA' } }
              ]
            }
          }
        ]
      }
    ]
  ],
  [
    'Ollama',
    [
      {
        model: 'm-1',
        remote_model: 'm-1',
        remote_host: 'https://host.example',
        created_at: '2026-01-01T00:00:00Z',
        response: 'four',
        done: true,
        done_reason: 'stop'
      }
    ]
  ],
  [
    'llama.cpp',
    [
      { index: 0, content: 'four', stop: false, id_slot: 0 },
      {
        content: '',
        stop: true,
        model: 'm-1',
        prompt: 'two',
        generation_settings: { samplers: ['top_k'] },
        stop_type: 'word',
        stopping_word: 'END',
        completion_probabilities: [{ token: 'four' }],
        __verbose: { content: 'four' }
      }
    ]
  ],
  [
    'Hugging Face, whose last chunk holds the whole text',
    [
      { index: 1, token: { id: 1, text: 'fo', special: false }, generated_text: null },
      { index: 2, token: { id: 2, text: 'ur', special: false }, generated_text: 'four' }
    ]
  ],
  ['Hugging Face, a body', [{ generated_text: 'four' }]],
  ['watsonx, in parts', [
    { results: [{ generated_text: 'fo' }] },
    { results: [{ generated_text: 'ur' }] }
  ]],
  [
    'Cohere',
    [
      { type: 'content-delta', delta: { message: { content: { text: 'four' } } } },
      {
        type: 'citation-start',
        delta: { message: { citations: { text: 'four', sources: [{ document: { title: 'x' } }] } } }
      }
    ]
  ],
  [
    'Cohere\'s first version',
    [
      { event_type: 'stream-start', generation_id: 'g' },
      { event_type: 'search-results', documents: [{ id: 'd', title: 'A page', snippet: 'x' }] },
      { event_type: 'text-generation', text: 'four' },
      { event_type: 'citation-generation', citations: [{ text: 'four', document_ids: ['d'] }] },
      {
        event_type: 'stream-end',
        response: { text: 'four', chat_history: [{ role: 'USER', message: 'two' }] }
      }
    ]
  ],
  [
    'Perplexity',
    [
      {
        ...chat,
        citations: ['https://page.example'],
        search_results: [{ title: 'A page', url: 'https://page.example' }],
        choices: [{ delta: { content: 'four' }, message: { content: 'four' } }]
      }
    ]
  ],
  [
    'OpenRouter',
    [
      {
        ...chat,
        provider: 'A provider',
        choices: [
          {
            delta: {
              content: '',
              reasoning: 'four',
              reasoning_details: [
                { type: 'reasoning.text', text: 'four', format: 'anthropic-claude-v1', id: 'r' },
                { type: 'reasoning.encrypted', data: 'AAAA', format: 'openai-responses-v1' }
              ],
              images: [{ type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } }]
            },
            native_finish_reason: 'end_turn'
          }
        ]
      }
    ]
  ],
  [
    'LiteLLM',
    [
      {
        ...chat,
        choices: [
          {
            delta: {
              reasoning_content: 'four',
              thinking_blocks: [{ type: 'thinking', thinking: 'four', signature: 'AAAA' }],
              provider_specific_fields: { thinking_blocks: [{ thinking: 'four' }] }
            }
          }
        ]
      }
    ]
  ],
  [
    'Azure',
    [
      { ...chat, prompt_filter_results: [{ content_filter_results: { hate: { x: 'safe' } } }] },
      {
        ...chat,
        choices: [
          { delta: { content: 'four' }, content_filter_results: { hate: { severity: 'safe' } } }
        ]
      }
    ]
  ],
  [
    'Groq, with tools of the server',
    [
      { ...chat, x_groq: { id: 'req_1' }, choices: [{ delta: { content: 'four' } }] },
      { ...chat, choices: [{ delta: { executed_tools: [{ output: 'A page' }] } }] }
    ]
  ],
  [
    'Groq, with the arguments of such a tool',
    [
      {
        ...chat,
        choices: [{ delta: { executed_tools: [{ arguments: 'four', output: 'A page' }] } }]
      }
    ]
  ],
  [
    'Copilot',
    [
      { ...chat, choices: [{ delta: { content: '', reasoning_text: 'four' } }] },
      { ...chat, choices: [{ delta: { content: null, reasoning_opaque: 'AAAA' } }] }
    ]
  ],
  [
    'Converse',
    [
      { contentBlockStart: { start: { toolUse: { toolUseId: 't', name: '' } } } },
      { contentBlockDelta: { delta: { reasoningContent: { redactedContent: 'AAAA' } } } },
      { contentBlockDelta: { delta: { toolUse: { input: 'four' } }, contentBlockIndex: 0 } },
      { metadata: { trace: { guardrail: { action: 'x' } }, performanceConfig: { latency: 'x' } } }
    ]
  ],
  [
    'Bedrock\'s InvokeModel',
    [
      { outputText: 'four', completionReason: 'FINISH', 'amazon-bedrock-guardrailAction': 'NONE' },
      { 'amazon-bedrock-trace': { guardrail: { action: 'x' } } }
    ]
  ],
  ['Cloudflare', [{ response: 'four', p: 'abcdefgh' }]],
  [
    'AI SDK',
    [
      { type: 'start', messageId: 'm' },
      { type: 'text-delta', id: 't', delta: 'four', providerMetadata: { openai: { itemId: 'i' } } },
      { type: 'tool-output-available', toolCallId: 'c', output: { page: 'x' } }
    ]
  ]
]

for (const [api, chunks] of envelopes) {
  t.test(`what surrounds a text does not count: ${api}`, async (t) => {
    t.equal(await textBytesIn(chunks), 4)
  })
}
