// docs/rules.md, "Costs": what usedTokens reads.
import t from 'tap'
import { usedTokens } from '../../lib/index.js'

const stated: [what: string, usage: unknown][] = [
  [
    'OpenAI chat, which counts cached input in the prompt',
    {
      prompt_tokens: 12,
      completion_tokens: 30,
      total_tokens: 42,
      prompt_tokens_details: { cached_tokens: 8 }
    }
  ],
  [
    'OpenAI responses',
    {
      input_tokens: 12,
      input_tokens_details: { cached_tokens: 8 },
      output_tokens: 30,
      total_tokens: 42
    }
  ],
  ['OpenAI embeddings, which have no output', { prompt_tokens: 42, total_tokens: 42 }],
  [
    'Anthropic, which counts cached input beside the input',
    {
      input_tokens: 2,
      cache_creation_input_tokens: 4,
      cache_read_input_tokens: 6,
      output_tokens: 30,
      service_tier: 'standard'
    }
  ],
  [
    'Anthropic without cached input and with one iteration',
    {
      input_tokens: 12,
      cache_creation_input_tokens: null,
      cache_read_input_tokens: null,
      output_tokens: 30,
      iterations: [{ type: 'message', input_tokens: 12, output_tokens: 30 }]
    }
  ],
  [
    'a proxy that states Anthropic\'s cached input beside a prompt that holds it',
    { prompt_tokens: 12, completion_tokens: 30, cache_read_input_tokens: 8, total_tokens: 42 }
  ],
  ['AI SDK 4 with an unknown total', { promptTokens: 12, completionTokens: 30, totalTokens: NaN }],
  [
    'AI SDK, the flat form without a total',
    { inputTokens: 12, outputTokens: 30, totalTokens: undefined }
  ],
  ['AI SDK, the nested form', { inputTokens: { total: 12 }, outputTokens: { total: 30 } }],
  [
    'AI SDK, the nested form with its parts',
    {
      inputTokens: { total: 12, noCache: 4, cacheRead: 8, cacheWrite: undefined },
      outputTokens: { total: 30, text: 25, reasoning: 5 }
    }
  ],
  [
    'Gemini',
    { promptTokenCount: 12, candidatesTokenCount: 25, thoughtsTokenCount: 5, totalTokenCount: 42 }
  ],
  [
    'Gemini with a total that lacks the thoughts',
    {
      promptTokenCount: 12,
      candidatesTokenCount: 20,
      thoughtsTokenCount: 5,
      toolUsePromptTokenCount: 5,
      totalTokenCount: 32
    }
  ],
  ['Ollama', { model: 'm', done: true, prompt_eval_count: 12, eval_count: 30, eval_duration: 5 }],
  [
    'Cohere',
    {
      billed_units: { input_tokens: 1, output_tokens: 2 },
      tokens: { input_tokens: 12, output_tokens: 30 }
    }
  ],
  ['Cohere, a whole response', { meta: { tokens: { input_tokens: 12, output_tokens: 30 } } }],
  [
    'a total that is less than its parts',
    { prompt_tokens: 12, completion_tokens: 30, total_tokens: 12 }
  ],
  ['a total of 0 beside its parts', { prompt_tokens: 12, completion_tokens: 30, total_tokens: 0 }],
  [
    'a total that leaves out cached input',
    { input_tokens: 2, cache_read_input_tokens: 10, output_tokens: 30, total_tokens: 32 }
  ],
  [
    'the names of two APIs, of which those of one hold no numbers',
    {
      prompt_tokens: null,
      input_tokens: 12,
      completion_tokens: null,
      output_tokens: 30,
      total_tokens: null
    }
  ],
  ['a total that is null beside one with another name', { total_tokens: null, totalTokens: 42 }],
  [
    'a total that is more than its parts',
    { prompt_tokens: 12, completion_tokens: 3, total_tokens: 42 }
  ]
]

for (const [what, usage] of stated) {
  t.test(`usedTokens reads 42 tokens: ${what}`, async (t) => t.equal(usedTokens(usage), 42))
}

const compaction = { type: 'compaction', input_tokens: 180_000, output_tokens: 3_500 }
const message = { type: 'message', input_tokens: 23_000, output_tokens: 1_000 }
const declined = { type: 'message', input_tokens: 23_000, output_tokens: 0 }
const byFallback = { type: 'fallback_message', input_tokens: 23_000, output_tokens: 1_000 }
const ofMessage = { input_tokens: 23_000, output_tokens: 1_000 }

const withIterations: [what: string, usage: unknown, tokens: number][] = [
  [
    'the compaction, which the usage itself leaves out',
    { ...ofMessage, iterations: [compaction, message] },
    207_500
  ],
  [
    'cached input of each',
    {
      ...ofMessage,
      iterations: [
        { ...compaction, cache_read_input_tokens: 500 },
        { ...message, cache_creation_input_tokens: 250 }
      ]
    },
    208_250
  ],
  ['not a declined one', { ...ofMessage, iterations: [declined, byFallback] }, 24_000],
  ['none of an empty list', { ...ofMessage, iterations: [] }, 24_000],
  ['none that is not stated', { ...ofMessage, iterations: null }, 24_000],
  ['none that is not known', { ...ofMessage, iterations: [null, 42, {}, message] }, 24_000],
  [
    'input alone, if that is all that was asked for',
    { input_tokens: 23_000, output_tokens: 0, iterations: [declined] },
    23_000
  ]
]

for (const [what, usage, tokens] of withIterations) {
  t.test(`usedTokens adds up the billed iterations: ${what}`, async (t) => {
    t.equal(usedTokens(usage), tokens)
  })
}

const endless: { tokens?: unknown } = {}
endless.tokens = endless

const unknown: [what: string, usage: unknown][] = [
  ['zeros', { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }],
  ['zeros without a total', { input_tokens: 0, output_tokens: 0 }],
  ['a total of zero', { total_tokens: 0 }],
  ['nested zeros', { inputTokens: { total: 0 }, outputTokens: { total: 0 } }],
  ['no numbers', { promptTokens: NaN, completionTokens: NaN, totalTokens: NaN }],
  ['nested, without totals', { inputTokens: { noCache: 12 }, outputTokens: { text: 30 } }],
  ['input without output', { input_tokens: 12 }],
  ['output without input', { outputTokens: 30, totalTokens: undefined }],
  ['text', { total_tokens: '42' }],
  ['less than 0', { total_tokens: -42 }],
  ['a fraction', { total_tokens: 4.2 }],
  ['no safe integer', { total_tokens: 2 ** 53 }],
  ['a sum that is no safe integer', { input_tokens: Number.MAX_SAFE_INTEGER, output_tokens: 1 }],
  ['an input of less than 0', { input_tokens: -1, output_tokens: 30 }],
  ['tokens that are a number', { tokens: 42 }],
  ['an object in itself', endless],
  ['null', null],
  ['undefined', undefined],
  ['a number', 42],
  ['a string', '42'],
  ['true', true],
  ['a list', []],
  ['a function', () => {}]
]

for (const [what, usage] of unknown) {
  t.test(`usedTokens returns null: ${what}`, async (t) => t.equal(usedTokens(usage), null))
}

t.test('usedTokens returns as much as the greatest safe integer', async (t) => {
  t.equal(usedTokens({ total_tokens: Number.MAX_SAFE_INTEGER }), Number.MAX_SAFE_INTEGER)
})
