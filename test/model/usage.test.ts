// docs/rules.md, "Usage": what usageOf reads of usage objects, and of results of the AI SDK.
import t from 'tap'
import { usageOf, UsageReader } from '../../lib/index.js'
import type { RecordedUsage } from '../support/recorded-answers.js'

type Numbers = [...RecordedUsage]

/** Returns the numbers of a usage in the order of their expectations; null if there is none. */
function numbersOf (value: unknown): Numbers | null {
  const usage = usageOf(value)
  if (usage === null) return null
  const { model, total, input, cachedInput, cacheWrites, output, reasoning } = usage
  return [model, total, input, cachedInput, cacheWrites, output, reasoning]
}

const usageObjects: [rule: string, usage: unknown, expected: Numbers | null][] = [
  [
    'cached input stands beside the input of Anthropic',
    {
      input_tokens: 10,
      cache_creation_input_tokens: 20,
      cache_read_input_tokens: 70,
      output_tokens: 50
    },
    [null, 150, 100, 70, 20, 50, 0]
  ],
  [
    'a breakdown of cached input is not added',
    {
      input_tokens: 10,
      cache_creation_input_tokens: 20,
      cache_creation: { ephemeral_5m_input_tokens: 15, ephemeral_1h_input_tokens: 5 },
      output_tokens: 50
    },
    [null, 80, 30, 0, 20, 50, 0]
  ],
  [
    'cached input under Anthropic\'s names is part of an input, if the total shows it',
    {
      input_tokens: 17_110,
      cache_read_input_tokens: 17_102,
      output_tokens: 11,
      total_tokens: 17_121
    },
    [null, 17_121, 17_110, 17_102, 0, 11, 0]
  ],
  [
    'cached input under Anthropic\'s names is part of an input that is equal to it',
    { input_tokens: 17_102, cache_read_input_tokens: 17_102, output_tokens: 19 },
    [null, 17_121, 17_102, 17_102, 0, 19, 0]
  ],
  [
    'of the names of two APIs, the whole counts',
    {
      input_tokens: 36,
      cache_read_input_tokens: 64,
      output_tokens: 50,
      prompt_tokens: 100,
      completion_tokens: 50,
      cached_tokens: 64
    },
    [null, 150, 100, 64, 0, 50, 0]
  ],
  [
    'names that a server fills with 0 hide nothing',
    { prompt_tokens: 100, completion_tokens: 50, input_tokens: 0, output_tokens: 0 },
    [null, 150, 100, 0, 0, 50, 0]
  ],
  [
    'cached input stands beside an input that is smaller',
    { prompt_tokens: 10, completion_tokens: 50, prompt_tokens_details: { cached_tokens: 90 } },
    [null, 150, 100, 90, 0, 50, 0]
  ],
  [
    'a total that leaves out cached input',
    { input_tokens: 10, cache_read_input_tokens: 90, output_tokens: 50, total_tokens: 60 },
    [null, 150, 100, 90, 0, 50, 0]
  ],
  [
    'reasoning stands beside an output that is smaller',
    {
      prompt_tokens: 100,
      completion_tokens: 18,
      completion_tokens_details: { reasoning_tokens: 32 }
    },
    [null, 150, 100, 0, 0, 50, 32]
  ],
  [
    'reasoning is part of an output that is equal to it',
    {
      prompt_tokens: 100,
      completion_tokens: 50,
      completion_tokens_details: { reasoning_tokens: 50 }
    },
    [null, 150, 100, 0, 0, 50, 50]
  ],
  [
    'reasoning stands beside the output, if the total has room for both',
    { inputTokens: 100, outputTokens: 40, reasoningTokens: 10, totalTokens: 150 },
    [null, 150, 100, 0, 0, 50, 10]
  ],
  [
    'reasoning is part of the output, if the total has no room for both',
    { inputTokens: 100, outputTokens: 50, reasoningTokens: 10, totalTokens: 150 },
    [null, 150, 100, 0, 0, 50, 10]
  ],
  [
    'cached input and reasoning stand beside, if the total has room for both',
    {
      inputTokens: 60,
      cachedInputTokens: 40,
      outputTokens: 40,
      reasoningTokens: 10,
      totalTokens: 150
    },
    [null, 150, 100, 40, 0, 50, 10]
  ],
  [
    'cached input stands beside, if the total has room for it alone',
    {
      inputTokens: 60,
      cachedInputTokens: 40,
      outputTokens: 50,
      reasoningTokens: 10,
      totalTokens: 150
    },
    [null, 150, 100, 40, 0, 50, 10]
  ],
  [
    'of cached input and reasoning of one size, the reasoning stands beside',
    {
      inputTokens: 100,
      cachedInputTokens: 10,
      outputTokens: 40,
      reasoningTokens: 10,
      totalTokens: 150
    },
    [null, 150, 100, 10, 0, 50, 10]
  ],
  [
    'Gemini\'s total can leave out the thoughts',
    {
      promptTokenCount: 100,
      candidatesTokenCount: 30,
      thoughtsTokenCount: 20,
      totalTokenCount: 130
    },
    [null, 150, 100, 0, 0, 50, 20]
  ],
  [
    'what cannot be assigned is in the total alone',
    { prompt_tokens: 100, completion_tokens: 30, connector_tokens: 20, total_tokens: 150 },
    [null, 150, 100, 0, 0, 30, 0]
  ],
  ['a total alone', { total_tokens: 150 }, [null, 150, 0, 0, 0, 0, 0]],
  [
    'of equal totals, the one that is assigned counts',
    { total_tokens: 150, usage: { prompt_tokens: 100, completion_tokens: 50 } },
    [null, 150, 100, 0, 0, 50, 0]
  ],
  [
    'a total that is less than its parts',
    { prompt_tokens: 100, completion_tokens: 50, total_tokens: 100 },
    [null, 150, 100, 0, 0, 50, 0]
  ],
  ['embeddings of the AI SDK', { tokens: 950 }, [null, 950, 950, 0, 0, 0, 0]],
  [
    'Claude Code, with its names of cached input',
    {
      inputTokens: 10,
      cacheReadInputTokens: 70,
      cacheCreationInputTokens: 20,
      outputTokens: 50,
      webSearchRequests: 0,
      costUSD: 0.5
    },
    [null, 150, 100, 70, 20, 50, 0]
  ],
  [
    'Claude Code, of which less is cached',
    {
      inputTokens: 70,
      cacheReadInputTokens: 20,
      cacheCreationInputTokens: 10,
      outputTokens: 50
    },
    [null, 150, 100, 20, 10, 50, 0]
  ],
  [
    'LangChain',
    {
      input_tokens: 100,
      output_tokens: 50,
      total_tokens: 150,
      input_token_details: { cache_read: 64, cache_creation: 8 },
      output_token_details: { reasoning: 32 }
    },
    [null, 150, 100, 64, 8, 50, 32]
  ],
  [
    'Titan, in its last chunk',
    { outputText: 'x', totalOutputTextTokenCount: 50, inputTextTokenCount: 100 },
    [null, 150, 100, 0, 0, 50, 0]
  ],
  [
    'embeddings of Cohere, whose images stand beside the text',
    {
      embeddings: { float: [[1]] },
      meta: { billed_units: { input_tokens: 40, image_tokens: 60 } }
    },
    [null, 100, 100, 0, 0, 0, 0]
  ],
  [
    'Qwen, whose images are part of the input',
    { input_tokens: 100, image_tokens: 60, output_tokens: 50 },
    [null, 150, 100, 0, 0, 50, 0]
  ],
  ['the AI SDK 4', { promptTokens: 100, completionTokens: 50 }, [null, 150, 100, 0, 0, 50, 0]],
  [
    'the AI SDK 6, nested',
    {
      inputTokens: { total: 100, noCache: 36, cacheRead: 64, cacheWrite: undefined },
      outputTokens: { total: 50, text: 18, reasoning: 32 }
    },
    [null, 150, 100, 64, 0, 50, 32]
  ],
  [
    'the AI SDK 6, flat',
    {
      inputTokens: 100,
      inputTokenDetails: { noCacheTokens: 28, cacheReadTokens: 64, cacheWriteTokens: 8 },
      outputTokens: 50,
      outputTokenDetails: { textTokens: 18, reasoningTokens: 32 },
      totalTokens: 150,
      reasoningTokens: 32,
      cachedInputTokens: 64
    },
    [null, 150, 100, 64, 8, 50, 32]
  ],
  [
    'the AI SDK 6 leaves out what its raw usage states',
    {
      inputTokens: { total: 100 },
      outputTokens: { total: 18, reasoning: 18 },
      raw: {
        prompt_tokens: 100,
        completion_tokens: 18,
        total_tokens: 150,
        completion_tokens_details: { reasoning_tokens: 32 }
      }
    },
    [null, 150, 100, 0, 0, 50, 32]
  ],
  ['all numbers are 0', { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }, null],
  ['nothing', {}, null],
  ['seconds', { type: 'duration', seconds: 9 }, null],
  ['costs and timings', { cost: 0.5, timings: { prompt_n: 9 }, tool_usage: { total: 9 } }, null],
  [
    'the results of Titan',
    { inputTextTokenCount: 10, results: [{ tokenCount: 500 }, { tokenCount: 40 }] },
    [null, 550, 10, 0, 0, 540, 0]
  ],
  ['a fraction', { prompt_tokens: 12.5, completion_tokens: 30 }, null],
  ['a number beyond the safe integers', { prompt_tokens: 2 ** 60, completion_tokens: 1 }, null],
  ['a number in a text', { prompt_tokens: '12', completion_tokens: 30 }, null],
  [
    'a part that is no number of tokens',
    { input_tokens: 12, output_tokens: 30, input_tokens_details: { cached_tokens: -1 } },
    null
  ],
  [
    'one of several calls of a model that has no number of tokens',
    { input_tokens: 12, iterations: [{ input_tokens: 12, output_tokens: 1.5 }] },
    null
  ],
  ['no number of tokens', { prompt_tokens: NaN, completion_tokens: -1, total_tokens: 1.5 }, null],
  ['numbers that are texts', { prompt_tokens: '100', completion_tokens: '50' }, null],
  ['a number that no sum can hold', { prompt_tokens: Infinity, completion_tokens: 2 ** 60 }, null],
  [
    'a sum that is not exact',
    { prompt_tokens: Number.MAX_SAFE_INTEGER, completion_tokens: 50 },
    null
  ],
  ['null', null, null],
  ['a text', '{"total_tokens":150}', null]
]

for (const [rule, usage, expected] of usageObjects) {
  t.test(`usageOf reads a usage: ${rule}`, async (t) => t.strictSame(numbersOf(usage), expected))
}

const compaction = { type: 'compaction', input_tokens: 180_000, output_tokens: 3_500 }
const message = { type: 'message', input_tokens: 23_000, output_tokens: 1_000 }
const declined = { type: 'message', input_tokens: 23_000, output_tokens: 0 }
const ofMessage = { input_tokens: 23_000, output_tokens: 1_000 }

const iterations: [rule: string, usage: object, expected: Numbers][] = [
  [
    'they are the whole',
    { ...ofMessage, iterations: [compaction, message] },
    [null, 207_500, 203_000, 0, 0, 4_500, 0]
  ],
  [
    'the cached input of each counts, and that of the usage itself not again',
    {
      ...ofMessage,
      cache_read_input_tokens: 5_000,
      output_tokens_details: { thinking_tokens: 400 },
      iterations: [compaction, { ...message, cache_read_input_tokens: 5_000 }]
    },
    [null, 212_500, 208_000, 5_000, 0, 4_500, 400]
  ],
  [
    'one without output does not count',
    { ...ofMessage, iterations: [declined, { ...message, type: 'fallback_message' }] },
    [null, 24_000, 23_000, 0, 0, 1_000, 0]
  ],
  [
    'without one that counts, the usage itself does',
    { input_tokens: 23_000, output_tokens: 0, iterations: [declined, null, 42, {}] },
    [null, 23_000, 23_000, 0, 0, 0, 0]
  ]
]

for (const [rule, usage, expected] of iterations) {
  t.test(`usageOf adds up Anthropic's iterations: ${rule}`, async (t) => {
    t.strictSame(numbersOf(usage), expected)
  })
}

// The AI SDK 5 leaves out what Anthropic caches, but for its providerMetadata.
const flat = { inputTokens: 4, outputTokens: 208, totalTokens: 212, cachedInputTokens: 42_000 }
const anthropic = {
  anthropic: {
    usage: {
      input_tokens: 4,
      cache_creation_input_tokens: 1_000,
      cache_read_input_tokens: 42_000,
      output_tokens: 208
    },
    cacheCreationInputTokens: 1_000
  }
}
const step = { usage: flat, providerMetadata: anthropic, response: { modelId: 'm-1' } }
const ofOneStep: Numbers = ['m-1', 43_212, 43_004, 42_000, 1_000, 208, 0]
const ofTwoSteps: Numbers = ['m-1', 86_424, 86_008, 84_000, 2_000, 416, 0]

const ofGemini = {
  usage: {
    inputTokens: 90,
    outputTokens: 30,
    totalTokens: 150,
    reasoningTokens: 20,
    cachedInputTokens: 64
  },
  providerMetadata: {
    google: {
      usageMetadata: {
        promptTokenCount: 90,
        cachedContentTokenCount: 64,
        toolUsePromptTokenCount: 10,
        candidatesTokenCount: 30,
        thoughtsTokenCount: 20,
        totalTokenCount: 150
      }
    }
  }
}

const results: [rule: string, result: unknown, expected: Numbers | null][] = [
  ['a step with its providerMetadata', step, ofOneStep],
  [
    'cached input that is less than the input stands beside it over Anthropic',
    {
      usage: { inputTokens: 60, outputTokens: 50, totalTokens: 110, cachedInputTokens: 30 },
      providerMetadata: { anthropic: { cacheCreationInputTokens: 10 } }
    },
    [null, 150, 100, 30, 10, 50, 0]
  ],
  [
    'cached input stands beside the input over Converse',
    {
      usage: { inputTokens: 60, outputTokens: 50, totalTokens: 150, cachedInputTokens: 30 },
      providerMetadata: { bedrock: { usage: { cacheWriteInputTokens: 10 } } }
    },
    [null, 150, 100, 30, 10, 50, 0]
  ],
  [
    'cached input is part of the input over others',
    { usage: { inputTokens: 100, outputTokens: 50, totalTokens: 150, cachedInputTokens: 64 } },
    [null, 150, 100, 64, 0, 50, 0]
  ],
  [
    'the AI SDK 6 has all of it over Anthropic',
    {
      usage: {
        inputTokens: 43_004,
        inputTokenDetails: { noCacheTokens: 4, cacheReadTokens: 42_000, cacheWriteTokens: 1_000 },
        outputTokens: 208,
        outputTokenDetails: { textTokens: 208 },
        totalTokens: 43_212
      },
      providerMetadata: anthropic,
      response: { modelId: 'm-1' }
    },
    ofOneStep
  ],
  ['reasoning and input for tools over Gemini', ofGemini, [null, 150, 100, 64, 0, 50, 20]],
  [
    'the steps, of which the usage is the last',
    { ...step, totalUsage: { ...flat, inputTokens: 8, outputTokens: 416 }, steps: [step, step] },
    ofTwoSteps
  ],
  [
    'the usage of all steps, without the steps',
    {
      usage: { inputTokens: 100, outputTokens: 50, totalTokens: 150 },
      totalUsage: { inputTokens: 200, outputTokens: 100, totalTokens: 300 }
    },
    [null, 300, 200, 0, 0, 100, 0]
  ],
  [
    'the usage of the AI SDK 7 is that of all steps',
    {
      usage: { inputTokens: 200, outputTokens: 100, totalTokens: 300 },
      finalStep: { usage: { inputTokens: 100, outputTokens: 50, totalTokens: 150 } }
    },
    [null, 300, 200, 0, 0, 100, 0]
  ],
  [
    'citations and reasoning over Perplexity',
    {
      usage: { inputTokens: 80, outputTokens: 30, totalTokens: 110, reasoningTokens: 20 },
      providerMetadata: { perplexity: { usage: { citationTokens: 20, numSearchQueries: 3 } } }
    },
    [null, 150, 100, 0, 0, 50, 20]
  ],
  [
    'no object that a model wrote',
    {
      object: { usage: { total_tokens: 9_000 } },
      toolCalls: [{ input: { usage: { total_tokens: 9_000 } } }],
      toolResults: [{ output: { usage: { total_tokens: 9_000 } } }],
      usage: { inputTokens: 100, outputTokens: 50, totalTokens: 150 }
    },
    [null, 150, 100, 0, 0, 50, 0]
  ],
  [
    'the model of the AI SDK 7',
    {
      model: { provider: 'p', modelId: 'm-1' },
      usage: { inputTokens: 100, outputTokens: 50, totalTokens: 150 }
    },
    ['m-1', 150, 100, 0, 0, 50, 0]
  ],
  [
    'no JSON that a model wrote, as Cloudflare holds it',
    {
      success: true,
      result: {
        response: { usage: { total_tokens: 9_000 } },
        usage: { prompt_tokens: 100, completion_tokens: 50, total_tokens: 150 }
      }
    },
    [null, 150, 100, 0, 0, 50, 0]
  ],
  ['no result of a tool', { type: 'tool-result', result: { usage: { total_tokens: 9 } } }, null],
  ['no metadata of a client', { metadata: { usage: { total_tokens: 9 } }, id: 'i' }, null]
]

for (const [rule, result, expected] of results) {
  t.test(`usageOf reads results of the AI SDK: ${rule}`, async (t) => {
    t.strictSame(numbersOf(result), expected)
  })
}

t.test('usageOf takes a ModelUsage, also one whose numbers a host has changed', async (t) => {
  const usage = usageOf({ model: 'm-1', usage: { prompt_tokens: 100, completion_tokens: 50 } })
  t.strictSame(usageOf(usage), usage)
  t.strictSame(numbersOf({ ...usage, output: 70 }), ['m-1', 170, 100, 0, 0, 70, 0])
  t.strictSame(usageOf(JSON.parse(JSON.stringify(usage))), usage)
  t.equal(usageOf({ ...usage, total: 0, input: 0, output: 0 }), null)
})

t.test('usageOf reads a line of a batch', async (t) => {
  const usage = { prompt_tokens: 100, completion_tokens: 50 }
  const ofOpenai = { custom_id: 'c', response: { status_code: 200, body: { model: 'm-1', usage } } }
  t.strictSame(numbersOf(ofOpenai), ['m-1', 150, 100, 0, 0, 50, 0])
  const message = { model: 'm-1', usage: { input_tokens: 100, output_tokens: 50 } }
  const ofAnthropic = { custom_id: 'c', result: { type: 'succeeded', message } }
  t.strictSame(numbersOf(ofAnthropic), ['m-1', 150, 100, 0, 0, 50, 0])
})

t.test('usageOf reads the last usage of an array, as Gemini streams it', async (t) => {
  const parts = [{ usageMetadata: { promptTokenCount: 9 } }, ofGemini.providerMetadata.google, {}]
  t.strictSame(numbersOf(parts), [null, 150, 100, 64, 0, 50, 20])
  t.equal(usageOf([]), null)
})

t.test('usageOf ends for an object that contains itself', async (t) => {
  const body: Record<string, unknown> = { usage: { prompt_tokens: 100, completion_tokens: 50 } }
  Object.assign(body, { response: body, message: body, steps: [body] })
  t.equal(usageOf(body)?.total, 150)
})

t.test('usageOf takes no promise for a usage, and handles its rejection', async (t) => {
  t.equal(usageOf({ usage: Promise.reject(new Error('e')) }), null)
})

t.test('UsageReader adds up the steps of the AI SDK', async (t) => {
  const reader = new UsageReader()
  reader.read({ type: 'text-delta', text: 'four' })
  t.equal(reader.usage, null)
  reader.read({ type: 'finish-step', ...step })
  t.equal(reader.usage?.total, 43_212)
  reader.read({ type: 'finish-step' })
  reader.read({ type: 'finish-step', ...step })
  reader.read({ type: 'finish', totalUsage: { ...flat, inputTokens: 8, outputTokens: 416 } })
  t.equal(reader.usage?.total, 86_424)
  t.equal(reader.usage?.cacheWrites, 2_000)
})

t.test('UsageReader adds up what choices state of themselves, with their input once', async (t) => {
  const ends = [5_000, 1].map((output, index) => {
    return { index, usage: { prompt_tokens: 19, completion_tokens: output } }
  })
  const reader = new UsageReader()
  for (const choice of ends) reader.read({ choices: [choice] })
  t.match(reader.usage, { total: 5_020, input: 19, output: 5_001 })
  t.strictSame(usageOf({ choices: ends }), reader.usage)
  reader.read({ choices: [], usage: { prompt_tokens: 19, completion_tokens: 5_000 } })
  t.equal(reader.usage?.total, 5_019)
  const longer = { index: 2, usage: { prompt_tokens: 20, completion_tokens: 1 } }
  t.match(usageOf({ choices: [...ends, longer] }), { total: 5_022, input: 20, output: 5_002 })
})

t.test('UsageReader ignores what is no chunk', async (t) => {
  const reader = new UsageReader()
  const noChunks = [null, undefined, 'data', 42, [], {}, { type: 'message_start' }]
  for (const chunk of noChunks) reader.read(chunk)
  t.equal(reader.usage, null)
})

t.test('UsageReader merges no more names than an API has', async (t) => {
  const reader = new UsageReader()
  reader.read({ type: 'message_start', message: { usage: { input_tokens: 100 } } })
  const usage: Record<string, number> = { output_tokens: 50 }
  for (let name = 0; name < 100; name += 1) usage[`name_${name}`] = 1
  reader.read({ type: 'message_delta', usage })
  t.equal(reader.usage?.total, 100)
})
