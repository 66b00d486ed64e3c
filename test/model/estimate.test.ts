// docs/rules.md, "Usage": the most tokens that a request can use, as estimateOf determines it.
import t from 'tap'
import { estimateOf, type EstimateOptions } from '../../lib/index.js'

const options = { output: 1_000, image: 500 }
const question = [{ role: 'user', content: 'two words' }]

function bytesOf (body: object): number {
  return Buffer.byteLength(JSON.stringify(body))
}

// Each has all its text in the body, so that the input is a token for each byte.
const texts: [form: string, body: object, output: number][] = [
  ['OpenAI chat', { model: 'm', messages: question }, 1_000],
  ['OpenAI chat, with a maximum', { messages: question, max_tokens: 5 }, 5],
  [
    'the greatest maximum, of several names',
    { messages: question, max_tokens: 5, max_completion_tokens: 7 },
    7
  ],
  ['several answers', { messages: question, max_tokens: 5, n: 3 }, 15],
  ['several answers without a maximum', { messages: question, n: 3 }, 3_000],
  ['a maximum and answers that are null', { messages: question, max_tokens: null, n: null }, 1_000],
  ['tools and images that are null', { messages: question, tools: null, images: null }, 1_000],
  ['no answer', { messages: question, n: 0 }, 1_000],
  [
    'OpenAI chat, with tools and their results',
    {
      messages: [
        ...question,
        { role: 'assistant', content: null, tool_calls: [{ id: 't', type: 'function' }] },
        { role: 'tool', tool_call_id: 't', content: [{ type: 'text', text: 'é' }] }
      ],
      tools: [{ type: 'function', function: { name: 'f', parameters: { type: 'object' } } }]
    },
    1_000
  ],
  ['completions, of which each prompt is answered', { prompt: ['a', 'b'], best_of: 2 }, 4_000],
  ['completions, with tokens', { prompt: [1, 2, 3], max_tokens: 5 }, 5],
  ['OpenAI responses, with a text', { input: 'two words', max_output_tokens: 5 }, 5],
  [
    'OpenAI responses, with items',
    {
      instructions: 'i',
      input: [
        { role: 'user', content: [{ type: 'input_text', text: 'two' }] },
        { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'x' }] },
        { type: 'reasoning', encrypted_content: 'AAAA', summary: [] },
        { type: 'function_call', call_id: 'c', name: 'f', arguments: '{}' },
        { type: 'function_call_output', call_id: 'c', output: '{}' }
      ],
      tools: [{ type: 'function', name: 'f' }, { type: 'custom', name: 'g' }]
    },
    1_000
  ],
  [
    'Anthropic',
    {
      system: [{ type: 'text', text: 's', cache_control: { type: 'ephemeral' } }],
      max_tokens: 5,
      messages: [
        {
          role: 'user',
          content: [
            { type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'd' } },
            { type: 'document', source: { type: 'content', content: 'd' } },
            { type: 'tool_result', tool_use_id: 't', content: [{ type: 'text', text: 'x' }] }
          ]
        },
        {
          role: 'assistant',
          content: [
            { type: 'thinking', thinking: 't', signature: 's' },
            { type: 'tool_use', id: 't', name: 'f', input: { type: 'file' } }
          ]
        }
      ]
    },
    5
  ],
  [
    'Gemini',
    {
      systemInstruction: { parts: [{ text: 's' }] },
      contents: [
        { role: 'user', parts: [{ text: 'two' }] },
        { role: 'model', parts: [{ functionCall: { name: 'f', args: {} } }] },
        { role: 'user', parts: [{ functionResponse: { name: 'f', response: {} } }] }
      ],
      tools: [{ functionDeclarations: [{ name: 'f' }] }],
      generationConfig: { maxOutputTokens: 5, candidateCount: 2 }
    },
    10
  ],
  ['Ollama', { messages: question, options: { num_predict: 5 } }, 5],
  ['Ollama without a maximum, as 0', { prompt: 'p', options: { num_predict: 0 } }, 1_000],
  ['Ollama without a maximum, as -1', { prompt: 'p', options: { num_predict: -1 } }, 1_000],
  ['Ollama in the form of OpenAI, without a maximum', { messages: question, max_tokens: 0 }, 1_000],
  ['llama.cpp', { prompt: 'p', n_predict: 5_000 }, 5_000],
  ['Llama on Bedrock', { prompt: 'p', max_gen_len: 5_000 }, 5_000],
  ['Anthropic\'s completions', { prompt: 'p', max_tokens_to_sample: 5_000 }, 5_000],
  ['Nova', { messages: question, inferenceConfig: { max_new_tokens: 5_000 } }, 5_000],
  ['a negative maximum', { messages: question, max_tokens: -5 }, 1_000],
  [
    'Ollama, of two maxima one that is none',
    { prompt: 'p', max_tokens: 5, options: { num_predict: -1 } },
    1_000
  ],
  ['Converse', { messages: question, inferenceConfig: { maxTokens: 5_000 } }, 5_000],
  ['Cohere', { messages: question, documents: [{ data: { text: 'd' } }], max_tokens: 5 }, 5],
  [
    'Cohere\'s first version',
    { message: 'two', chat_history: [{ role: 'USER', message: 'one' }], max_tokens: 5 },
    5
  ]
]

for (const [form, body, output] of texts) {
  t.test(`estimateOf estimates a token for each byte, and the output: ${form}`, async (t) => {
    t.strictSame(estimateOf(body, options), { input: bytesOf(body), output })
    t.strictSame(estimateOf(body, { output: 1_000 }), { input: bytesOf(body), output })
  })
}

// Letters that servers written in Go take for those of ASCII.
const longS = '\u017f'
const kelvin = '\u212a'

const sameNames: [what: string, body: object, output: number][] = [
  ['in capital letters', { prompt: 'p', Options: { num_predict: 5_000 } }, 5_000],
  [
    'beside the name itself',
    { prompt: 'p', options: { num_predict: 5 }, OPTIONS: { Num_Predict: 5_000 } },
    5_000
  ],
  ['with a long s', { prompt: 'p', [`option${longS}`]: { num_predict: 5_000 } }, 5_000],
  ['with a Kelvin sign', { messages: question, [`max_to${kelvin}ens`]: 5_000 }, 5_000],
  ['of how many answers there are', { messages: question, max_tokens: 5, N: 3 }, 15]
]

for (const [what, body, output] of sameNames) {
  t.test(`estimateOf takes the greatest of names that differ in case: ${what}`, async (t) => {
    t.strictSame(estimateOf(body, options), { input: bytesOf(body), output })
  })
}

const withTools: [form: string, body: object][] = [
  ['Anthropic', { messages: question, tools: [{ name: 'f', input_schema: { type: 'object' } }] }],
  [
    'Anthropic, with a type',
    { messages: question, tools: [{ type: 'custom', name: 'f', input_schema: {} }] }
  ],
  [
    'Converse',
    { messages: question, toolConfig: { tools: [{ toolSpec: { name: 'f', inputSchema: {} } }] } }
  ]
]

for (const [form, body] of withTools) {
  t.test(`estimateOf adds what Anthropic's models read because of tools: ${form}`, async (t) => {
    t.strictSame(estimateOf(body, options), { input: bytesOf(body) + 804, output: 1_000 })
  })
}

const answers = { role: 'user', content: 'two' }

const encoded = 'A'.repeat(100_000)
const data = `data:image/png;base64,${encoded}`

const images: [form: string, body: object, images: number][] = [
  [
    'OpenAI chat, encoded and a link',
    {
      messages: [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'two' },
            { type: 'image_url', image_url: { url: data } },
            { type: 'image_url', image_url: { url: 'https://image.example' } }
          ]
        }
      ]
    },
    2
  ],
  [
    'OpenAI responses',
    { input: [{ role: 'user', content: [{ type: 'input_image', image_url: data }] }] },
    1
  ],
  [
    'Anthropic, in a message and in the result of a tool',
    {
      messages: [
        {
          role: 'user',
          content: [
            { type: 'image', source: { type: 'base64', data: encoded } },
            {
              type: 'tool_result',
              content: [{ type: 'image', source: { type: 'url', url: 'https://image.example' } }]
            }
          ]
        }
      ]
    },
    2
  ],
  [
    'Gemini',
    { contents: [{ parts: [{ inlineData: { mimeType: 'image/png', data: encoded } }] }] },
    1
  ],
  [
    'Gemini, in the names of its other clients',
    { contents: [{ parts: [{ inline_data: { mime_type: 'image/png', data: encoded } }] }] },
    1
  ],
  ['Ollama', { messages: [{ role: 'user', content: 'two', images: [encoded, encoded] }] }, 2],
  ['Ollama, in capital letters', { Messages: [{ ...answers, Images: [encoded] }], prompt: '' }, 1]
]

for (const [form, body, count] of images) {
  t.test(`estimateOf takes images at what an image is said to be: ${form}`, async (t) => {
    const input = estimateOf(body, options)?.input ?? 0
    t.ok(input >= count * 500, `${input}`)
    t.ok(input < count * 500 + 1_000, `${input}`)
    t.equal(estimateOf(body, { output: 1_000 }), null, 'without the option image')
  })
}

const unknown: [what: string, body: unknown][] = [
  ['no object', 'text'],
  ['null', null],
  ['no form that is known', { query: 'two' }],
  ['an earlier response', { input: 'two', previous_response_id: 'r' }],
  ['an earlier response, in capital letters', { input: 'two', Previous_Response_Id: 'r' }],
  ['a conversation', { input: 'two', conversation: { id: 'c' } }],
  ['a conversation of Cohere', { message: 'two', conversation_id: 'c' }],
  ['a stored prompt', { input: 'two', prompt: { id: 'p' } }],
  ['a stored item', { input: [{ type: 'item_reference', id: 'i' }] }],
  ['stored reasoning', { input: [{ type: 'reasoning', id: 'i', summary: [] }] }],
  ['cached content', { contents: [{ parts: [{ text: 'two' }] }], cachedContent: 'c' }],
  ['a file', { messages: [{ role: 'user', content: [{ type: 'file', file: { file_id: 'f' } }] }] }],
  ['a file of a response', { input: [{ role: 'user', content: [{ type: 'input_file' }] }] }],
  [
    'a stored image',
    { input: [{ role: 'user', content: [{ type: 'input_image', file_id: 'f' }] }] }
  ],
  [
    'a stored image of Anthropic',
    {
      messages: [
        {
          role: 'user',
          content: [{ type: 'image', source: { type: 'file', file_id: 'f' } }]
        }
      ]
    }
  ],
  [
    'a document that is not text',
    {
      messages: [
        { role: 'user', content: [{ type: 'document', source: { type: 'base64', data: 'A' } }] }
      ]
    }
  ],
  [
    'a document without a source',
    { messages: [{ role: 'user', content: [{ type: 'document' }] }] }
  ],
  ['a file of Gemini', { contents: [{ parts: [{ fileData: { fileUri: 'f' } }] }] }],
  [
    'sound of Gemini',
    { contents: [{ parts: [{ inlineData: { mimeType: 'audio/mp3', data: 'A' } }] }] }
  ],
  [
    'a file in what a function returned to Gemini',
    { contents: [{ parts: [{ functionResponse: { parts: [{ fileData: { fileUri: 'f' } }] } }] }] }
  ],
  ['sound', { messages: [{ role: 'user', content: [{ type: 'input_audio' }] }] }],
  ['earlier sound', { messages: [{ role: 'assistant', audio: { id: 'a' } }] }],
  ['a search of the server', { messages: [answers], web_search_options: {} }],
  ['a search of Qwen', { messages: [answers], enable_search: true }],
  ['data of Azure', { messages: [answers], data_sources: [{ type: 'azure_search' }] }],
  ['an agent of Gemini', { input: 'two', agent: 'deep-research' }],
  ['other models to fall back on', { messages: [answers], fallbacks: [{ model: 'm' }] }],
  ['files of a message', { messages: [{ ...answers, attachments: [{ file_id: 'f' }] }] }],
  [
    'a file of Gemini in a part with a role',
    { contents: [{ parts: [{ role: 'user', fileData: { fileUri: 'f' } }] }] }
  ],
  ['a tool of OpenAI', { input: 'two', tools: [{ type: 'web_search' }] }],
  ['a tool of Anthropic', { messages: [answers], tools: [{ type: 'bash_20250124', name: 'b' }] }],
  ['a tool of Gemini', { contents: [{ parts: [{ text: 'two' }] }], tools: [{ googleSearch: {} }] }],
  ['tools that are no list', { messages: [answers], tools: {} }],
  ['a tool that is no object', { messages: [answers], tools: ['web_search'] }],
  ['servers of tools', { messages: [answers], mcp_servers: [{ url: 'u' }] }],
  ['a maximum that is no number', { messages: [answers], max_tokens: '5' }],
  ['answers that are no number', { messages: [answers], n: 1.5 }],
  ['a part that is not known', { messages: [{ role: 'user', content: [{ type: 'video_url' }] }] }]
]

for (const [what, body] of unknown) {
  t.test(`estimateOf returns null: ${what}`, async (t) => {
    t.equal(estimateOf(body, options), null)
  })
}

t.test('estimateOf returns null for a body that contains itself or is very deep', async (t) => {
  const body: Record<string, unknown> = { messages: [answers] }
  body['metadata'] = body
  t.equal(estimateOf(body, options), null)
  const deep = JSON.parse(`${'['.repeat(100_000)}${']'.repeat(100_000)}`)
  t.equal(estimateOf({ messages: [{ role: 'user', content: deep }] }, options), null)
})

t.test('estimateOf returns null for parts that are nested too deeply', async (t) => {
  const nest = (depth: number): object =>
    depth === 0 ? answers : { type: 'tool_result', content: [nest(depth - 1)] }
  t.type(estimateOf({ messages: [nest(6)] }, options), 'object')
  t.equal(estimateOf({ messages: [nest(7)] }, options), null)
})

t.test('estimateOf returns null for images whose sum is not exact', async (t) => {
  const body = { messages: [{ ...answers, images: ['A', 'A'] }] }
  t.equal(estimateOf(body, { output: 1, image: Number.MAX_SAFE_INTEGER }), null)
})

t.test('the sum of an estimate is a safe integer, whatever a client asks for', async (t) => {
  const body = { messages: [answers], max_tokens: Number.MAX_SAFE_INTEGER, n: 1_000_000 }
  const { input, output } = estimateOf(body, options) ?? { input: 0, output: 0 }
  t.equal(input + output, Number.MAX_SAFE_INTEGER)
})

t.test('estimateOf names an option that is wrong', async (t) => {
  const wrong: [options: unknown, message: RegExp][] = [
    [{}, /the option output must be a safe integer of at least 0; it got undefined/],
    [{ output: -1 }, /the option output must be .* it got -1/],
    [{ output: 1, image: '5' }, /the option image must be .* it got "5"/],
    [{ output: 1, images: 5 }, /the option images does not exist/],
    [undefined, /the option options must be a plain object/]
  ]
  for (const [given, message] of wrong) {
    const estimate = () => estimateOf({ messages: [answers] }, given as EstimateOptions)
    t.throws(estimate, { code: 'FST_ERR_LLM_QUOTA_OPTION', message })
  }
})
