// docs/rules.md, "Settlements": what a meter does with bodies that no API sends. Their bytes pass
// all the same.
import assert from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import { bodyOf, meteredInParts } from '../support/metered.js'
import { assertProperty } from '../support/property.js'
import { recordedAnswers } from '../support/recorded-answers.js'

const part = 64 * 1024
const tooMany = 'a'.repeat(16 * 1024 * 1024 + part)

const tooLong: [what: string, body: string][] = [
  ['an event', `data: {"response":"${tooMany}"}\n\n`],
  ['a body of one JSON object', `{"response":"${tooMany}"}`],
  ['an element of an array', `[{"response":"${tooMany}"}]`]
]

for (const [what, text] of tooLong) {
  t.test(`a chunk of more than 16 MiB is not read: ${what}`, async (t) => {
    const body = Buffer.from(text)
    const { bytes, end } = await meteredInParts(body, [part])
    t.ok(body.equals(bytes))
    t.match(end, { isReadable: false, usage: null, textBytes: 0 })
  })
}

const costly: [what: string, json: string][] = [
  ['are nested more deeply than 1,000', `${'['.repeat(1_001)}${']'.repeat(1_001)}`],
  ['are more than 500,000', `[${'[],'.repeat(500_000)}[]]`]
]

for (const [what, json] of costly) {
  const chunk = `{"response":"four","x":${json}}`

  t.test(`each byte counts of a chunk whose objects and arrays ${what}`, async (t) => {
    const body = Buffer.from(`data: ${chunk}\n\ndata: {"response":"six"}\n\n`)
    const { bytes, end } = await meteredInParts(body, [part])
    t.ok(body.equals(bytes))
    t.equal(end.textBytes, chunk.length + 3)
  })

  t.test(`each byte counts of a body that is cut off if they ${what}`, async (t) => {
    const { end } = await meteredInParts(Buffer.from(chunk.slice(0, -1)), [part])
    t.equal(end.textBytes, chunk.length - 1)
  })

  t.test(`what follows is read where those of the first line ${what}`, async (t) => {
    const last = { response: 'six', done: true, prompt_eval_count: 12, eval_count: 5_000 }
    const body = Buffer.from(`${chunk}\n${JSON.stringify(last)}\n`)
    const { end } = await meteredInParts(body, [part])
    t.match(end, { textBytes: chunk.length + 3, isComplete: true, usage: { total: 5_012 } })
  })
}

t.test('a chunk with as many objects, nested as deeply, as can be read is read', async (t) => {
  const deep = `${'['.repeat(999)}${']'.repeat(999)}`
  const json = `{"response":"four","x":${deep},"y":[${'[],'.repeat(498_998)}[]]}`
  const { end } = await meteredInParts(Buffer.from(json), [part])
  t.equal(end.textBytes, 4)
})

t.test('blank lines between lines of JSON are no chunks', async (t) => {
  const body = Buffer.from('{"response":"four","done":false}\n\r\n \n{"response":"six"}\n\n')
  const { end } = await meteredInParts(body, [body.length])
  t.match(end, { textBytes: 7, isReadable: true })
})

t.test('of events that repeat texts, no more types are told apart than an API has', async (t) => {
  const types = Array.from({ length: 101 }, (_, type) => `type-${type}.done`)
  const events = [...types.slice(0, 100), `${'x'.repeat(100)}.done`, ...types.slice(100)]
  const lines = events.map((type, index) => {
    const text = 'a'.repeat(index < 100 ? 4 : 99)
    return `${JSON.stringify({ type, text })}\n`
  })
  const { end } = await meteredInParts(Buffer.from(lines.join('')), [part])
  t.equal(end.textBytes, 4)
})

const template = '{"id":"c1","n":1,"choices":[{"index":0,"delta":{"content":"TEXT"}}]}'
const similar = (text: string): string => template.replace('TEXT', text)

// Each follows two chunks that differ only in their text, and is one more of their kind, or seems
// so.
const similarChunks: [what: string, chunk: string, textBytes: number][] = [
  ['with a text', similar('words'), 5],
  ['with characters of several bytes', similar('wörds 🦊'), 11],
  ['with escapes', similar('\\n\\"\\u00e9\\\\'), 5],
  ['with an escape that is none', similar('\\q'), 0],
  ['with another number', similar('words').replace('"n":1', '"n":25'), 5],
  ['with a number of another kind', similar('words').replace('"n":1', '"n":-1.5'), 5],
  ['with no number in its place', similar('words').replace('"n":1', '"n":null'), 5],
  ['with no text in its place', template.replace('"TEXT"', 'null'), 0],
  ['with another id', similar('words').replace('c1', 'c2'), 5],
  ['with another name', similar('words').replace('"content"', '"refusal"'), 5],
  ['that goes on', similar('words').replace(']}', ',{"delta":{"content":"six"}}]}'), 8],
  ['with white space after it', `${similar('words')} `, 5],
  ['of which the end is missing', similar('words').slice(0, -4), 5],
  ['of which the end of the text is missing', similar('words').slice(0, -8), 2],
  ['that is longer than most', similar('words'.repeat(2_000)), 10_000],
  ['that states a usage', `${similar('words').slice(0, -1)},"usage":{"prompt_tokens":9}}`, 5]
]

const earlier: [how: string, chunks: string[]][] = [
  ['a text', [similar('one'), similar('three')]],
  ['a text and a number', [similar('one'), similar('three').replace('"n":1', '"n":2')]],
  ['a text and an id', [similar('one'), similar('three').replace('c1', 'c3')]],
  ['a text, in long chunks', [similar('one'.repeat(2_000)), similar('three'.repeat(2_000))]]
]

for (const [what, chunk, textBytes] of similarChunks) {
  for (const [how, chunks] of earlier) {
    t.test(`a chunk ${what} is read after others that differ in ${how}`, async (t) => {
      const texts = chunks.map((each) => each.length - similar('').length)
      const events = [...chunks, chunk].map((each) => `data: ${each}`)
      const { end } = await meteredInParts(Buffer.from(events.join('\n\n')), [part])
      t.equal(end.textBytes, texts.reduce((sum, bytes) => sum + bytes, textBytes))
      t.equal(end.usage?.input ?? 0, chunk.includes('usage') ? 9 : 0)
    })
  }
}

const different: [what: string, chunks: string[]][] = [
  [
    'type',
    ['{"type":"a","text":"one"}', '{"type":"b","text":"six"}', '{"type":"error","text":"x"}']
  ],
  ['lists of texts', ['["one"]', '["six"]', '{"text":"sixsix"}']],
  [
    'names',
    ['{"id":"x","text":"one"}', '{"role":"x","text":"six"}', '{"delta":"","text":"x"}']
  ],
  [
    'what they are',
    [
      '{"object":"a","text":"one"}',
      '{"object":"b","text":"six"}',
      '{"object":"response","text":"x"}'
    ]
  ]
]

for (const [what, chunks] of different) {
  t.test(`chunks that differ in ${what} have nothing in common`, async (t) => {
    const events = chunks.map((each) => `data: ${each}\n\n`)
    const { end } = await meteredInParts(Buffer.from(events.join('')), [part])
    t.equal(end.textBytes, 6)
  })
}

t.test('whatever the bytes are, they pass, and nothing throws', async (t) => {
  const changes = fc.array(fc.tuple(fc.double({ min: 0, max: 1, noNaN: true }), fc.nat(255)))
  const property = fc.asyncProperty(fc.constantFrom(...recordedAnswers), changes, async (
    answer,
    changed
  ) => {
    const body = bodyOf(answer)
    for (const [place, byte] of changed) body[Math.floor(place * body.length)] = byte
    const { bytes } = await meteredInParts(body, [1, 7, 300])
    assert.ok(body.equals(bytes))
  })
  await t.resolves(assertProperty(property, { numRuns: 100 }))
})
