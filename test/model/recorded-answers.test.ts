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
    for (const length of [1, 3, 20, 300, body.length]) {
      const { bytes, end } = await meteredInParts(body, [length])
      t.ok(body.equals(bytes))
      t.strictSame(readIn(end), expectedReadIn(answer), `in parts of ${length} bytes`)
    }
  })
}

t.test('a meter reads the same wherever a body is cut', async (t) => {
  const lengths = fc.array(fc.integer({ min: 1, max: 200 }), { minLength: 1, maxLength: 20 })
  const property = fc.asyncProperty(fc.constantFrom(...recordedAnswers), lengths, async (
    answer,
    cuts
  ) => {
    const { end } = await meteredInParts(bodyOf(answer), cuts)
    assert.deepEqual(readIn(end), expectedReadIn(answer))
  })
  await t.resolves(assertProperty(property, { numRuns: 500 }))
})

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
  await t.resolves(assertProperty(property, { numRuns: 500 }))
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
