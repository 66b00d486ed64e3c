// docs/rules.md, "Settlements": when a response has ended as its API ends one, with a usage.
import t from 'tap'
import { meteredInParts } from '../support/metered.js'

/** What arrives in a response. */
const data = {
  text: '{"choices":[{"delta":{"content":"four"},"finish_reason":null}]}',
  end: '{"choices":[{"delta":{},"finish_reason":"stop"}]}',
  usage: '{"choices":[],"usage":{"prompt_tokens":20,"completion_tokens":30}}',
  'text and usage': '{"choices":[{"delta":{"content":"four"}}],"usage":{"total_tokens":50}}',
  '[DONE]': '[DONE]',
  'beginning of a message': '{"type":"message_start","message":{"usage":{"input_tokens":20}}}',
  'usage without output':
    '{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":0}}',
  'nothing that matters': '{"type":"ping"}',
  'beginning of 1': '{"choices":[{"index":1,"delta":{"content":""},"finish_reason":null}]}',
  'text of 1': '{"choices":[{"index":1,"delta":{"content":"four"},"finish_reason":null}]}',
  'text of both': '{"choices":[{"delta":{"content":"one"}},{"delta":{"content":"two"}}]}',
  'end of 1': '{"choices":[{"index":1,"delta":{},"finish_reason":"stop"}]}',
  'end and usage of 0':
    '{"choices":[{"index":0,"finish_reason":"stop"}],"usage":{"total_tokens":50}}',
  'end and usage of 1':
    '{"choices":[{"index":1,"finish_reason":"stop"}],"usage":{"total_tokens":50}}',
  'end and own usage of 0':
    '{"choices":[{"index":0,"finish_reason":"stop","usage":{"total_tokens":50}}]}',
  'end and own usage of 1':
    '{"choices":[{"index":1,"finish_reason":"stop","usage":{"total_tokens":50}}]}',
  'one of two ends':
    '{"candidates":[{"finishReason":"STOP"},{}],"usageMetadata":{"totalTokenCount":50}}',
  'both end':
    '{"candidates":[{"finishReason":"STOP"},{"finishReason":"STOP"}],' +
    '"usageMetadata":{"totalTokenCount":50}}',
  'step of the AI SDK':
    '{"type":"finish-step","finishReason":"tool-calls","usage":{"totalTokens":50}}',
  'end of its steps': '{"type":"finish","finishReason":"stop","totalUsage":{"totalTokens":50}}'
}

type Arrival = keyof typeof data

t.test('it is not known whether more choices have ended than are told apart', async (t) => {
  const choices = Array.from({ length: 10_001 }, (_, index) => {
    return { index, finish_reason: 'stop' }
  })
  const body = Buffer.from(`data: ${JSON.stringify({ choices, usage: { total_tokens: 50 } })}\n\n`)
  const { end } = await meteredInParts(body, [body.length])
  t.match(end, { by: 'source', isComplete: false })
})

const endings: [arrivals: Arrival[], hasEnded: boolean, isComplete: boolean][] = [
  [['text', 'end', 'usage'], true, true],
  [['text', 'usage', 'end'], true, true],
  [['text', 'usage', '[DONE]'], true, true],
  [['text and usage', 'end'], true, true],
  [['text', 'end', 'usage', 'nothing that matters'], true, true],
  [['text', 'usage'], false, false],
  [['text', 'end'], true, false],
  [['text', '[DONE]'], true, false],
  [['end', 'usage', 'text'], false, false],
  [['end', 'text', 'usage'], false, false],
  [['usage', '[DONE]', 'text', 'text', 'text'], false, false],
  [['usage', 'text', 'end'], true, false],
  [['text', 'text', 'usage', 'text', 'end'], true, false],
  [['text and usage', 'text', 'end', 'usage'], true, true],
  [['beginning of a message', 'end'], true, false],
  [['beginning of a message', 'text', 'usage without output'], true, false],
  [['beginning of a message', 'usage without output'], true, true],
  [['text', 'usage', 'beginning of a message', 'usage without output'], true, false],
  [['text', 'text of 1', 'end', 'usage'], false, false],
  [['text', 'text of 1', 'end', 'end of 1', 'usage'], true, true],
  [['text', 'text of 1', 'end and usage of 0'], false, false],
  [['text', 'text of 1', 'end and usage of 0', 'end and usage of 1'], true, false],
  [['text', 'text of 1', 'end and usage of 0', 'end and usage of 1', 'usage'], true, true],
  [['text', 'end and usage of 0', 'beginning of 1'], false, false],
  [['text', 'end and usage of 0', 'beginning of 1', 'end of 1'], true, false],
  [['text', 'text of 1', 'end and own usage of 0', 'end and own usage of 1'], true, true],
  [['text', 'text of 1', 'end and own usage of 0', 'end of 1'], true, false],
  [['text of both', 'text of both', 'text of 1', 'end and own usage of 0'], false, false],
  [['text', 'text', 'text of 1', 'end and usage of 0'], false, false],
  [['one of two ends'], false, false],
  [['both end'], true, true],
  [['text', 'step of the AI SDK'], false, false],
  [['text', 'step of the AI SDK', 'end of its steps'], true, true]
]

for (const [arrivals, hasEnded, isComplete] of endings) {
  const what = `${hasEnded ? 'has' : 'has not'} ended, ${isComplete ? 'with' : 'without'} its usage`
  t.test(`a response ${what}: ${arrivals.join(', ')}`, async (t) => {
    const events = arrivals.map((arrival) => `data: ${data[arrival]}\n\n`)
    const body = Buffer.from(events.join(''))
    const { end } = await meteredInParts(body, [body.length])
    t.match(end, { by: hasEnded ? null : 'source', isComplete })
  })
}
