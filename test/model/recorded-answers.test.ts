// docs/rules.md, "Costs": what usageOf, UsageReader and a meter read of what servers send.
import t from 'tap'
import { UsageReader, usageOf, type ModelUsage } from '../../lib/index.js'
import { bodyOf, meteredInParts } from '../support/metered.js'
import { recordedAnswers, type RecordedAnswer } from '../support/recorded-answers.js'

for (const answer of recordedAnswers) {
  const name = `${answer.api}: ${answer.what}`

  t.test(`UsageReader has the server's last word: ${name}`, async (t) => {
    const reader = new UsageReader()
    for (const chunk of answer.chunks) reader.read(chunk)
    t.strictSame(reader.usage, expectedOf(answer))
  })

  if (answer.form === 'object') {
    t.test(`usageOf reads the body: ${name}`, async (t) => {
      t.strictSame(usageOf(answer.chunks[0]), expectedOf(answer))
    })
  }

  t.test(`a meter reads it, and passes each byte on, wherever it is cut: ${name}`, async (t) => {
    const body = bodyOf(answer)
    for (let length = 1; length <= body.length; length = Math.ceil(length * 1.7)) {
      const { bytes, end } = await meteredInParts(body, length)
      t.ok(body.equals(bytes))
      t.strictSame(
        end,
        {
          usage: expectedOf(answer),
          textBytes: answer.textBytes,
          isComplete: answer.isComplete,
          by: null,
          isReadable: true
        },
        `in parts of ${length} bytes`
      )
    }
  })
}

function expectedOf ({ usage }: RecordedAnswer): ModelUsage | null {
  if (usage === null) return null
  const [model, total, input, cachedInput, cacheWrites, output, reasoning] = usage
  return { model, total, input, cachedInput, cacheWrites, output, reasoning }
}
