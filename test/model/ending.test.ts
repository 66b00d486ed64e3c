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
  'nothing that matters': '{"type":"ping"}'
}

type Arrival = keyof typeof data

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
  [['beginning of a message', 'end'], true, false]
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
