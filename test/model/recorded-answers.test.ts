// docs/rules.md, "Usage": what usageOf, UsageReader and a meter read of what servers send.
import assert from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import { UsageReader, usageOf, type ModelUsage } from '../../lib/index.js'
import type { BodyEnd } from '../../lib/model/meter.js'
import { bodyOf, meteredInParts } from '../support/metered.js'
import { assertProperty } from '../support/property.js'
import { recordedAnswers, type RecordedAnswer } from '../support/recorded-answers.js'

for (const answer of recordedAnswers) {
  t.test(`UsageReader has the server's last word: ${answer.what}`, async (t) => {
    const reader = new UsageReader()
    for (const chunk of answer.chunks) reader.read(chunk)
    t.strictSame(reader.usage, expectedOf(answer))
  })

  if (answer.form === 'object') {
    t.test(`usageOf reads the body: ${answer.what}`, async (t) => {
      t.strictSame(usageOf(answer.chunks[0]), expectedOf(answer))
    })
  }

  const rule = 'a meter reads it, and passes each byte on, wherever it is cut'
  t.test(`${rule}: ${answer.what}`, async (t) => {
    const body = bodyOf(answer)
    const expected = { isPassedOn: true, ...expectedReadIn(answer) }
    for (const length of [1, 3, 20, 300, body.length]) {
      const { bytes, end } = await meteredInParts(body, [length])
      const isPassedOn = body.equals(bytes)
      t.strictSame({ isPassedOn, ...readIn(end) }, expected, `in parts of ${length} bytes`)
    }
  })
}

t.test('a body that is cut off anywhere is complete only with the last usage', async (t) => {
  const cuts = fc.double({ min: 0, max: 1, noNaN: true })
  const property = fc.asyncProperty(fc.constantFrom(...recordedAnswers), cuts, async (
    answer,
    cut
  ) => {
    const body = bodyOf(answer)
    const { end } = await meteredInParts(body.subarray(0, cut * body.length), [body.length])
    if (end.isComplete) assert.deepEqual(end.usage, expectedOf(answer))
    assert.ok(end.textBytes <= answer.textBytes)
  })
  await t.resolves(assertProperty(property, { numRuns: 200 }))
})

function readIn ({ usage, textBytes, isComplete, isReadable }: BodyEnd): Partial<BodyEnd> {
  return { usage, textBytes, isComplete, isReadable }
}

function expectedReadIn (answer: RecordedAnswer): Partial<BodyEnd> {
  const { textBytes, isComplete = answer.usage !== null } = answer
  return { usage: expectedOf(answer), textBytes, isComplete, isReadable: true }
}

function expectedOf ({ usage }: RecordedAnswer): ModelUsage | null {
  if (usage === null) return null
  const [model, total, input, cachedInput, cacheWrites, output, reasoning] = usage
  return { model, total, input, cachedInput, cacheWrites, output, reasoning }
}
