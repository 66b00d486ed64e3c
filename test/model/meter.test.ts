// docs/rules.md, "Settlements": what a request counts whose response passes through a meter.
import { once } from 'node:events'
import { setImmediate } from 'node:timers/promises'
import { PassThrough, Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { finished as finishedStream, pipeline } from 'node:stream/promises'
import { gzipSync } from 'node:zlib'
import Fastify from 'fastify'
import t from 'tap'
import quotaPlugin, {
  localAuthentication,
  type MeterOptions,
  type ModelBody,
  type ModelUsage,
  type QuotaDefinition,
  type QuotaPermit
} from '../../lib/index.js'
import { captureLog } from '../support/log.js'
import { matchExactly } from '../support/match-exactly.js'
import { RemoteStore } from '../support/remote-store.js'
import { createServer } from '../support/server.js'
import { until } from '../support/until.js'

const alice = localAuthentication('alice')

/** A permit without a request, of two quotas that its admission counts 400 in. */
async function createMeter (definition: Partial<QuotaDefinition> = {}) {
  const { lines, logger } = captureLog('warn')
  const app = Fastify({ logger })
  const perDay = { tokens: 1_000_000 }
  const definitions: Record<string, QuotaDefinition> = {
    used: { perDay, cost: 400, ...definition } as QuotaDefinition,
    priced: {
      perDay: { microdollars: 1_000_000 },
      cost: 400,
      fromUsage: ({ input, output }) => input + output * 10
    }
  }
  await app.register(quotaPlugin, { operations: [], quotas: definitions })
  const counts = async () => {
    const used = await app.quotaStanding(alice, 'used')
    const priced = await app.quotaStanding(alice, 'priced')
    return [used?.count, priced?.count]
  }
  const permit = await app.quotaAcquire(alice, ['used', 'priced'])
  return { permit, lines, counts }
}

const encoder = new TextEncoder()

function event (data: unknown): Uint8Array {
  const text = typeof data === 'string' ? data : JSON.stringify(data)
  return encoder.encode(`data: ${text}\n\n`)
}

function chat (content: string, more: object = {}): Uint8Array {
  return event({ model: 'm', choices: [{ delta: { content }, finish_reason: null }], ...more })
}

const finished = event({ model: 'm', choices: [{ delta: {}, finish_reason: 'stop' }] })
const used = event({ model: 'm', choices: [], usage: { prompt_tokens: 20, completion_tokens: 30 } })
const done = event('[DONE]')
const longText = 'é'.repeat(300)

const endings: [rule: string, parts: Uint8Array[], counts: number[], line: RegExp | null][] = [
  ['its usage, if its API has ended', [chat('four'), finished, used, done], [50, 320], null],
  ['its usage, without the last data', [chat('four'), finished, used], [50, 320], null],
  [
    'at least what was granted, if it states no usage',
    [chat('four'), finished, done],
    [400, 400],
    /a model's response stated no usage/
  ],
  [
    'each byte of its text, if that is more than was granted',
    [chat(longText), finished, done],
    [600, 6_000],
    /a model's response stated no usage/
  ],
  [
    'at least what was granted, if it ends without the end of its API and states no usage',
    [chat('four')],
    [400, 400],
    /a model's response stated no usage/
  ],
  [
    'the usage so far, if that is more than was granted and it is cut off',
    [chat('four', { usage: { prompt_tokens: 700, completion_tokens: 30 } }), chat('five')],
    [730, 1_000],
    null
  ],
  [
    'at least what was granted, if it states a smaller usage and is cut off',
    [chat('four', { usage: { prompt_tokens: 20, completion_tokens: 30 } }), chat('five')],
    [400, 400],
    null
  ],
  [
    'what was granted, if it is compressed',
    [gzipSync(Buffer.concat([chat(longText), finished, used, done]))],
    [400, 400],
    /a model's response could not be read/
  ],
  ['what was granted, if it is empty', [], [400, 400], /a model's response stated no usage/]
]

for (const [rule, parts, counted, line] of endings) {
  t.test(`a metered response counts ${rule}`, async (t) => {
    const { permit, counts, lines } = await createMeter()
    const bytes = await buffer(permit.meter(Readable.from(parts, { objectMode: true })))
    t.ok(bytes.equals(Buffer.concat(parts)))
    await permit.end()
    t.strictSame(await counts(), counted)
    matchExactly(t, lines, line === null ? [] : [{ msg: line }])
  })
}

/** A source that waits after its parts, and says whether it was cancelled. */
function openSource (parts: readonly Uint8Array[]) {
  const rest = [...parts]
  const source = {
    isCancelled: false,
    body: new ReadableStream<Uint8Array>({
      pull (controller) {
        const part = rest.shift()
        if (part !== undefined) controller.enqueue(part)
      },
      cancel () {
        source.isCancelled = true
      }
    })
  }
  return source
}

async function leaveAfter (
  parts: readonly Uint8Array[],
  permit: QuotaPermit,
  options?: MeterOptions
): Promise<void> {
  const source = openSource(parts)
  const stream = permit.meter(source.body, options)
  let read = 0
  stream.on('data', () => {
    read += 1
  })
  await until('each part has arrived', () => read === parts.length)
  stream.destroy()
  await until('the source is cancelled', () => source.isCancelled)
}

t.test('where the caller leaves, the source is cancelled, and the text counts', async (t) => {
  const { permit, counts, lines } = await createMeter()
  await leaveAfter([chat(longText)], permit)
  await permit.end()
  t.strictSame(await counts(), [600, 6_000])
  t.strictSame(lines, [])
})

const sameReasoning: [api: string, delta: object][] = [
  ['DeepSeek behind a proxy', { reasoning: longText, reasoning_content: longText }],
  [
    'OpenRouter',
    {
      reasoning: longText,
      reasoning_details: [{ type: 'reasoning.text', text: longText, format: 'unknown', index: 0 }]
    }
  ],
  [
    'LiteLLM',
    {
      reasoning_content: longText,
      thinking_blocks: [{ type: 'thinking', thinking: longText, signature: 'c2ln' }]
    }
  ]
]

t.test(
  'of a stream that is interrupted, a text that a chunk states under several names counts once',
  async (t) => {
    for (const [api, delta] of sameReasoning) {
      const { permit, counts } = await createMeter()
      const reasoning = event({ model: 'm', choices: [{ delta, finish_reason: null }] })
      await leaveAfter([reasoning, chat(longText)], permit)
      await permit.end()
      t.strictSame(await counts(), [1_200, 12_000], api)
    }
  }
)

t.test('where the caller leaves after the end, the usage counts', async (t) => {
  const { permit, counts } = await createMeter()
  await leaveAfter([chat('four'), finished, used, done], permit)
  await permit.end()
  t.strictSame(await counts(), [50, 320])
})

const openBody = `{"model":"m","choices":[{"message":{"content":"${longText}`

const cutOff: [what: string, parts: string[]][] = [
  ['in a body of one JSON object', [openBody]],
  ['in a body of several lines', ['{\n"model": "m",\n"message": {\n"content": "', longText]],
  ['in an event', ['data: {"choices":[{"delta":{"content":"', longText]],
  ['in a line', ['{"done":false}\n{"message":{"content":"', longText]],
  ['in an array', ['[{"candidates":[{"content":{"parts":[{"text":"', longText]],
  ['in an escape', [`${openBody}\\u00e`]],
  ['after a name', [`${openBody}"},"finish_reason`]],
  ['in a number', [`${openBody}"}}],"usage":{"prompt_tokens":20,"completion_tokens":99`]]
]

for (const [what, parts] of cutOff) {
  t.test(`where the caller leaves ${what}, the text that has arrived counts`, async (t) => {
    const { permit, counts, lines } = await createMeter()
    await leaveAfter(parts.map((part) => encoder.encode(part)), permit)
    await permit.end()
    t.strictSame(await counts(), [600, 6_000])
    t.strictSame(lines, [])
  })
}

t.test('where the caller leaves after the whole of a JSON object, its usage counts', async (t) => {
  const { permit, counts } = await createMeter()
  const usage = '"usage":{"prompt_tokens":20,"completion_tokens":30}'
  const body = `${openBody}"},"finish_reason":"stop"}],${usage}}`
  await leaveAfter([encoder.encode(body)], permit)
  await permit.end()
  t.strictSame(await counts(), [50, 320])
})

t.test('interrupted is asked where the caller leaves before the first event', async (t) => {
  const { permit, counts, lines } = await createMeter()
  const interrupted: MeterOptions['interrupted'] = ({ textBytes }) => {
    return { total_tokens: 5 + textBytes }
  }
  await leaveAfter([encoder.encode(': PROCESSING\n\nevent: mess')], permit, { interrupted })
  await permit.end()
  t.equal((await counts())[0], 5)
  t.strictSame(lines, [])
})

t.test('where the caller leaves after the permit has ended, it counts what arrived', async (t) => {
  const { permit, counts, lines } = await createMeter({ unreported: 0 })
  const source = openSource([chat(longText)])
  const stream = permit.meter(source.body)
  stream.resume()
  await setImmediate()
  await permit.end()
  t.strictSame(await counts(), [400, 400], 'what was granted, until it is known')
  stream.destroy()
  await until('the text counts', async () => (await counts())[0] === 600)
  t.strictSame(await counts(), [600, 6_000])
  t.strictSame(lines, [])
})

t.test('a shadow quota keeps its grant, too, until a meter has ended', async (t) => {
  const { permit, counts } = await createMeter({ unreported: 0, mode: 'shadow' })
  const source = openSource([chat(longText)])
  const stream = permit.meter(source.body)
  stream.resume()
  await setImmediate()
  await permit.end()
  t.strictSame(await counts(), [400, 400])
  stream.destroy()
  await until('the text counts', async () => (await counts())[0] === 600)
})

t.test('a meter that ends while its request is decided on charges it after that', async (t) => {
  const store = new RemoteStore()
  store.waits = 'acquire'
  const quotas = { used: { perDay: { tokens: 1_000 }, cost: 400 } }
  const { app, ask, counts } = await createServer({ store, quotas })
  let isRead = false
  const permits: QuotaPermit[] = []
  app.addHook('onRequest', async ({ quota }) => {
    permits.push(quota)
    const metered = quota.meter(Readable.from([chat('four'), finished, used, done]))
    metered.resume().on('close', () => {
      isRead = true
    })
  })
  const response = ask().then(({ statusCode }) => statusCode)
  await until('the response of the model has ended', () => isRead && store.pending === 1)
  const charged = permits[0]?.chargeUsage({ total_tokens: 7 })
  store.answer()
  t.equal(await response, 200)
  await charged
  await until('both are charged', async () => (await counts(['used']))[0] === 57)
})

t.test('a source is cancelled that waits, and is a stream of Node.js', async () => {
  const { permit } = await createMeter()
  const source = new Readable({ read () {} })
  const stream = permit.meter(source)
  stream.resume()
  await setImmediate()
  stream.destroy()
  await until('the source is destroyed', () => source.destroyed)
})

t.test('a source that fails destroys the stream with its error, and its text counts', async (t) => {
  const { permit, counts } = await createMeter()
  async function * failing () {
    yield chat(longText)
    throw new Error('reset')
  }
  await t.rejects(buffer(permit.meter(failing())), { message: 'reset' })
  await permit.end()
  t.strictSame(await counts(), [600, 6_000])
})

for (const kind of ['a web stream', 'a stream of Node.js']) {
  t.test(`${kind} that fails while nobody reads it destroys the stream`, async (t) => {
    const { permit, counts } = await createMeter()
    const source = new Readable({ read () {} })
    source.push(chat(longText))
    source.push(new Uint8Array(1024 * 1024))
    const body = kind === 'a web stream' ? Readable.toWeb(source) : source
    const stream = permit.meter(body as ModelBody)
    const errors: Error[] = []
    stream.on('error', (error) => errors.push(error))
    stream.read()
    await until('the stream is full', () => stream.readableLength > stream.readableHighWaterMark)
    source.destroy(new Error('the time limit'))
    await until('the stream is destroyed', () => stream.destroyed && errors.length > 0)
    t.strictSame(errors.map(({ message }) => message), ['the time limit'])
    await permit.end()
    t.strictSame(await counts(), [600, 6_000])
  })
}

const laterReaders: [how: string, read: (stream: Readable) => Promise<unknown>][] = [
  ['pipeline', async (stream) => await pipeline(stream, new PassThrough().resume())],
  ['for await', async (stream) => await buffer(stream)],
  ['finished', async (stream) => await finishedStream(stream)]
]

for (const [how, read] of laterReaders) {
  t.test(`a source that has failed before anybody listens gives ${how} its error`, async (t) => {
    const { permit } = await createMeter()
    const source = new Readable({ read () {} })
    const stream = permit.meter(source)
    source.destroy(new Error('the time limit'))
    await until('the stream is destroyed', () => stream.destroyed)
    await t.rejects(read(stream), { message: 'the time limit' })
  })
}

t.test('a meter that is piped twice goes on until both destinations have closed', async (t) => {
  const { permit, counts } = await createMeter()
  const source = new Readable({ read () {} })
  const stream = permit.meter(source)
  const response = stream.pipe(new PassThrough())
  const file = stream.pipe(new PassThrough())
  response.destroy()
  await once(response, 'close')
  source.push(chat(longText))
  await once(file, 'data')
  file.destroy()
  await until('the source is cancelled', () => source.destroyed)
  await permit.end()
  t.strictSame(await counts(), [600, 6_000])
})

const otherReaders: [what: string, read: (stream: Readable) => unknown, goesOn: boolean][] = [
  ['cancels its source', () => {}, false],
  ['cancels its source, even if somebody looks on', (stream) => stream.on('data', () => {}), false],
  ['goes on if the host resumes it', (stream) => stream.resume(), true],
  ['goes on if the host reads it', (stream) => buffer(stream), true]
]

for (const [what, read, goesOn] of otherReaders) {
  t.test(`a meter whose destination has closed ${what}`, async (t) => {
    const { permit } = await createMeter()
    const source = new Readable({ read () {} })
    const stream = permit.meter(source)
    const response = stream.pipe(new PassThrough())
    response.once('close', () => read(stream))
    response.destroy()
    await once(response, 'close')
    await setImmediate()
    t.equal(source.destroyed, !goesOn)
    source.push(null)
    await until('the stream is closed', () => stream.closed)
    t.equal(stream.readableEnded, goesOn)
  })
}

const ownEnds: [destination: string, pipe: (stream: Readable, to: PassThrough) => unknown][] = [
  ['that does not end with it', (stream, to) => stream.pipe(to, { end: false })],
  ['that was unpiped', (stream, to) => stream.pipe(to) && stream.unpipe(to)],
  ['that was unpiped with all others', (stream, to) => stream.pipe(to) && stream.unpipe()],
  ['whose host handles the error', (stream, to) => stream.on('error', () => {}).pipe(to)]
]

for (const [destination, pipe] of ownEnds) {
  t.test(`a source that fails destroys no destination ${destination}`, async (t) => {
    const { permit } = await createMeter()
    const source = new Readable({ read () {} })
    const stream = permit.meter(source)
    const to = new PassThrough()
    pipe(stream, to)
    source.destroy(new Error('reset'))
    await until('the stream is closed', () => stream.closed)
    t.notOk(to.destroyed)
  })
}

t.test('interrupted returns what counts where the caller leaves', async (t) => {
  const { permit, counts, lines } = await createMeter()
  const interruptions: unknown[] = []
  await leaveAfter([chat('five'), chat(' words')], permit, {
    interrupted: (interruption) => {
      interruptions.push(interruption)
      return { prompt_tokens: 15, completion_tokens: 5 }
    }
  })
  await permit.end()
  t.strictSame(interruptions, [{ usage: null, textBytes: 10, by: 'caller' }])
  t.strictSame(await counts(), [20, 65])
  t.strictSame(lines, [])
})

const endsOfSource: [where: string, part: Uint8Array][] = [
  ['after an event', chat('four')],
  ['in a body of one JSON object', encoder.encode(openBody)],
  ['after a line that says that others follow', encoder.encode('{"response":"a","done":false}\n')]
]

for (const [where, part] of endsOfSource) {
  t.test(`interrupted returns what counts where the source ends ${where}`, async (t) => {
    const { permit, counts } = await createMeter()
    const interrupted: MeterOptions['interrupted'] = ({ by }) =>
      by === 'source' ? { total_tokens: 0, input_tokens: 5, output_tokens: 0 } : null
    await buffer(permit.meter(Readable.from([part]), { interrupted }))
    await permit.end()
    t.strictSame(await counts(), [5, 5])
  })
}

t.test('interrupted is not asked where a response ended without usage', async (t) => {
  const { permit, counts } = await createMeter()
  const interrupted = (): unknown => t.fail('it was not interrupted')
  await buffer(permit.meter(Readable.from([chat('four'), finished, done]), { interrupted }))
  await permit.end()
  t.strictSame(await counts(), [400, 400])
})

const wrongInterruptions: [what: string, interrupted: () => unknown, line: RegExp][] = [
  [
    'throws',
    () => {
      throw new Error('e')
    },
    /interrupted failed/
  ],
  ['states no usage', () => ({ tokens: 'many' }), /interrupted failed/],
  ['returns a promise', async () => ({ total_tokens: 1 }), /interrupted failed/]
]

for (const [what, interrupted, line] of wrongInterruptions) {
  t.test(`where interrupted ${what}, what was granted counts`, async (t) => {
    const { permit, counts, lines } = await createMeter()
    await buffer(permit.meter(Readable.from([chat('four')]), { interrupted }))
    await permit.end()
    t.strictSame(await counts(), [400, 400])
    matchExactly(t, lines, [
      { level: 50, msg: line },
      { level: 40, msg: /a model's response stated no usage/ }
    ])
  })
}

t.test('a meter names what has a wrong type', async (t) => {
  const { permit } = await createMeter()
  const { body: locked } = new Response('x')
  locked?.getReader()
  const wrong: [body: unknown, options: unknown, message: RegExp][] = [
    [undefined, {}, /the parameter body of meter must be a web stream .* it got undefined/],
    [new Response('x'), {}, /body of meter must be .* response\.body; it got an object/],
    ['text', {}, /the parameter body of meter must be .* it got a string/],
    [new Readable({ encoding: 'utf8' }), {}, /must be .* without an encoding.* got an object/],
    [locked, {}, /body of meter must be a stream that nothing else reads; it got a locked stream/],
    [null, { interrupted: 5 }, /the option options\.interrupted must be a function; it got 5/],
    [null, { interupted: () => null }, /the option options\.interupted does not exist/],
    [null, null, /the option options must be a plain object/]
  ]
  for (const [body, options, message] of wrong) {
    const meter = () => permit.meter(body as ModelBody, options as MeterOptions)
    t.throws(meter, { code: 'FST_ERR_LLM_QUOTA_OPTION', message })
  }
})

t.test('a source of something else than bytes fails, and is cancelled', async (t) => {
  const { permit } = await createMeter()
  const source = Readable.from([{ text: 'four' }, { text: 'five' }])
  const stream = permit.meter(source as AsyncIterable<Uint8Array>)
  await t.rejects(buffer(stream), { message: /of bytes; it got an object/ })
  t.ok(source.destroyed)
})

const wrongIterables: [what: string, next: () => unknown, message: RegExp][] = [
  ['returns nothing', async () => null, /must be an async iterable; it got null/],
  [
    'throws',
    () => {
      throw new Error('reset')
    },
    /reset/
  ]
]

for (const [what, next, message] of wrongIterables) {
  t.test(`a source that ${what} fails, and is told that it is not read any more`, async (t) => {
    const { permit } = await createMeter()
    const interruptions: unknown[] = []
    const returned: string[] = []
    const iterator = {
      next,
      return: () => {
        returned.push('returned')
        throw new Error('again')
      }
    }
    const body = { [Symbol.asyncIterator]: () => iterator } as AsyncIterable<Uint8Array>
    const stream = permit.meter(body, {
      interrupted: ({ by }) => {
        interruptions.push(by)
        return null
      }
    })
    await t.rejects(buffer(stream), { message })
    t.strictSame(interruptions, ['source'])
    t.strictSame(returned, ['returned'])
  })
}

t.test('a source that fails with something else than an error is its cause', async (t) => {
  const { permit } = await createMeter()
  const body = new ReadableStream<Uint8Array>({ start: (controller) => controller.error('reset') })
  await t.rejects(buffer(permit.meter(body)), { message: 'the body failed', cause: 'reset' })
})

t.test('null is an empty stream', async (t) => {
  const { permit } = await createMeter()
  t.equal((await buffer(permit.meter(null))).length, 0)
})

t.test('a part without bytes ends nothing', async (t) => {
  const { permit, counts } = await createMeter()
  const parts = [chat('four'), new Uint8Array(), finished, used, new Uint8Array(), done]
  const bytes = await buffer(permit.meter(Readable.from(parts, { objectMode: true })))
  t.ok(bytes.equals(Buffer.concat(parts)))
  await permit.end()
  t.strictSame(await counts(), [50, 320])
})

t.test('a permit that was refused neither counts nor logs what it meters', async (t) => {
  const perDay = { tokens: 30 }
  const { permit, counts, lines } = await createMeter({ perDay, cost: 31 })
  t.equal(permit.refusal?.outcome, 'rejected')
  await buffer(permit.meter(Readable.from([chat('four'), finished, used, done])))
  await buffer(permit.meter(Readable.from([chat('four'), finished, done])))
  await permit.end()
  t.strictSame(await counts(), [0, 0])
  matchExactly(t, lines, [{ msg: /^the cost of a request is above the limit/ }])
})

t.test('a source is read only as fast as the stream', async (t) => {
  const { permit } = await createMeter()
  let read = 0
  async function * endless () {
    for (;;) {
      read += 1
      yield new Uint8Array(64 * 1024)
    }
  }
  const stream = permit.meter(endless())
  stream.read()
  for (let turn = 0; turn < 20; turn += 1) await setImmediate()
  t.ok(read < 5, `${read} parts were read`)
  stream.destroy()
})

t.test('chargeUsage reports in each quota by its fromUsage', async (t) => {
  const { permit, counts, lines } = await createMeter()
  await permit.chargeUsage({ usage: { prompt_tokens: 20, completion_tokens: 30 } })
  await permit.chargeUsage({ inputTokens: 1, outputTokens: 1 })
  await permit.chargeUsage(null)
  await permit.chargeUsage(undefined)
  await permit.end()
  t.strictSame(await counts(), [52, 331])
  t.strictSame(lines, [])
})

const noUsages: [what: string, usage: () => unknown][] = [
  ['an empty object', () => ({})],
  ['zeros', () => ({ prompt_tokens: 0 })],
  ['a text', () => 'usage'],
  ['a promise', () => Promise.reject(new Error('e'))],
  [
    'a getter that throws',
    () => ({
      get usage () {
        throw new Error('e')
      }
    })
  ]
]

for (const [what, usage] of noUsages) {
  t.test(`a usage that states none is logged and does not count: ${what}`, async (t) => {
    const { permit, counts, lines } = await createMeter({ unreported: 7 })
    await permit.chargeUsage(usage())
    await permit.end()
    t.strictSame(await counts(), [7, 400])
    matchExactly(t, lines, [
      { level: 50, msg: /without a usage; it is not counted/ },
      { level: 40, quota: 'priced', msg: /its microdollars were not reported/ }
    ])
  })
}

t.test('fromUsage gets the usage and the request, which a permit need not have', async (t) => {
  const asked: [ModelUsage, unknown][] = []
  const { permit, counts } = await createMeter({
    fromUsage: (usage, request) => {
      asked.push([usage, request])
      return 3
    }
  })
  await permit.chargeUsage({ model: 'm', usage: { prompt_tokens: 20, completion_tokens: 30 } })
  await permit.end()
  const numbers = { total: 50, input: 20, cachedInput: 0, cacheWrites: 0, output: 30, reasoning: 0 }
  t.strictSame(asked, [[{ model: 'm', ...numbers }, null]])
  t.equal((await counts())[0], 3)
})

const wrongAmounts: [what: string, fromUsage: () => unknown][] = [
  [
    'throws',
    () => {
      throw new Error('e')
    }
  ],
  ['returns a fraction', () => 0.5],
  ['returns nothing', () => undefined],
  ['returns a promise', async () => 5]
]

for (const [what, fromUsage] of wrongAmounts) {
  t.test(`where fromUsage ${what}, what was granted counts`, async (t) => {
    const definition = { unreported: 0, fromUsage: fromUsage as () => number }
    const { permit, counts, lines } = await createMeter(definition)
    await permit.chargeUsage({ total_tokens: 9 })
    await permit.end()
    t.equal((await counts())[0], 400)
    matchExactly(t, lines, [{ level: 50, msg: /fromUsage failed/ }])
  })
}

t.test('a report of usage changes nothing in another unit without fromUsage', async (t) => {
  const app = Fastify()
  const points = { perDay: { points: 1_000 }, cost: 5, unreported: 2 }
  await app.register(quotaPlugin, { operations: [], quotas: { points } })
  const permit = await app.quotaAcquire(alice, 'points')
  await permit.chargeUsage({ total_tokens: 9 })
  await permit.end()
  t.equal((await app.quotaStanding(alice, 'points'))?.count, 2)
})

t.test('start-up fails for a fromUsage that is wrong', async (t) => {
  const wrong: [definition: object, message: RegExp][] = [
    [{ perDay: { tokens: 5 }, fromUsage: 5 }, /quotas\.q\.fromUsage must be a function; it got 5/],
    [{ perDay: 5, fromUsage: () => 1 }, /quotas\.q\.fromUsage must be set only with a limit in a/]
  ]
  for (const [definition, message] of wrong) {
    const app = Fastify()
    const quotas = { q: definition as QuotaDefinition }
    await t.rejects(async () => await app.register(quotaPlugin, { quotas }), { message })
  }
})
