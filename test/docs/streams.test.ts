// The function of docs/recipes/costs-and-streams.md that reads the usage in a response while it
// passes the response on.
import { once } from 'node:events'
import { get } from 'node:http'
import { Readable } from 'node:stream'
import { gzipSync } from 'node:zlib'
import Fastify from 'fastify'
import t, { type Test } from 'tap'
import { metered } from '../../documented/recipes/metered.js'
import { listen } from '../support/raw-socket.js'

const answer = 'data: {"choices":[{"delta":{"content":"Zwei für Zoë 🦊."}}]}\n\n'
const usage = { total_tokens: 42 }
const usageLine = `data: ${JSON.stringify({ choices: [], usage })}`
const whole = `${answer}${usageLine}\n\ndata: [DONE]\n\n`

/** Reads a body in chunks of a size, and returns what was passed on and what was reported. */
async function read (body: Buffer, size: number) {
  const reported: unknown[] = []
  const passedOn: Uint8Array[] = []
  const chunks: Buffer[] = []
  for (let start = 0; start < body.length; start += size) {
    chunks.push(body.subarray(start, start + size))
  }
  const report = (found: unknown) => {
    if (found != null) reported.push(found)
  }
  for await (const chunk of metered(Readable.from(chunks), report)) passedOn.push(chunk)
  return { reported, passedOn: Buffer.concat(passedOn) }
}

for (const [name, body, reported] of [
  ['a stream', whole, [usage]],
  ['a stream with a line that is not JSON', `data: {"choices":\n\n${whole}`, [usage]],
  ['a stream with JSON that is no object', `data: null\n\ndata: 7\n\n${whole}`, [usage]],
  ['a stream without a space after data:', whole.replaceAll('data: ', 'data:'), [usage]],
  ['a stream whose last line has no end', `${answer}${usageLine}`, [usage]],
  [
    'a stream with CRLF, comments and names',
    `: ping\r\nevent: chunk\r\n${usageLine}\r\n\r\n`,
    [usage]
  ],
  ['a stream without usage', `${answer}data: [DONE]\n\n`, []],
  [
    'a stream that sends zeros first',
    whole.replace(answer, `data: {"usage":{"total_tokens":0}}\n\n${answer}`),
    [usage]
  ],
  [
    'a stream that sends what was used so far',
    `data: {"usage":{"total_tokens":12}}\n\ndata: {"usage":{"total_tokens":30}}\n\n${whole}`,
    [usage]
  ],
  ['a stream that ends with zeros', `${whole}data: {"usage":{"total_tokens":0}}\n\n`, [usage]],
  [
    'a stream of the responses API',
    `event: response.completed\ndata: ${JSON.stringify({ response: { usage } })}\n\n`,
    [usage]
  ],
  ['a response that is not a stream', JSON.stringify({ choices: [], usage }), [usage]],
  ['the same over several lines', JSON.stringify({ choices: [], usage }, null, 2), [usage]],
  ['a response that is not JSON', '<h1>Bad gateway</h1>', []],
  ['an empty response', '', []],
  ['a compressed stream', gzipSync(whole), []]
] as const) {
  t.test(`the usage in ${name} is reported, and every byte is passed on`, async (t) => {
    const bytes = Buffer.from(body)
    for (const size of [1, 7, Math.max(bytes.length, 1)]) {
      const result = await read(bytes, size)
      t.same(result.reported, reported, `in chunks of ${size}`)
      t.ok(result.passedOn.equals(bytes))
    }
  })
}

/** Serves a stream through `metered`, and returns the port and what was reported. */
async function serve (t: Test, body: () => AsyncIterable<Uint8Array>) {
  const reported: unknown[] = []
  const app = Fastify({ forceCloseConnections: true })
  t.teardown(async () => {
    await app.close()
  })
  app.get('/', async (_request, reply) =>
    reply.type('text/event-stream').send(
      Readable.from(
        metered(body(), (found) => {
          if (found != null) reported.push(found)
        })
      )
    )
  )
  return { port: await listen(app), reported }
}

t.test('an abort ends the stream of the model', async (t) => {
  let end = (): void => {}
  const ended = new Promise<void>((resolve) => {
    end = resolve
  })
  const { port, reported } = await serve(t, async function * () {
    try {
      for (;;) yield Buffer.from(answer)
    } finally {
      end()
    }
  })
  const request = get({ port, host: '127.0.0.1' })
  const [response] = await once(request, 'response')
  await once(response, 'data')
  request.destroy()
  await ended
  t.same(reported, [])
})

t.test('a client that reads slowly holds back the stream of the model', async (t) => {
  const event = Buffer.from(`data: ${'x'.repeat(512 * 1024)}\n\n`)
  const events = 64
  let sent = 0
  let received = 0
  let mostAhead = 0
  const { port, reported } = await serve(t, async function * () {
    for (let number = 0; number < events; number++) {
      sent += event.length
      mostAhead = Math.max(mostAhead, sent - received)
      yield event
    }
    yield Buffer.from(whole)
  })
  const [response] = await once(get({ port, host: '127.0.0.1' }), 'response')
  for await (const chunk of response) {
    received += chunk.length
    await new Promise<void>((resolve) => {
      setImmediate(resolve)
    })
  }
  t.equal(received, events * event.length + Buffer.byteLength(whole))
  t.ok(mostAhead < sent / 2, `${mostAhead} bytes at most were on the way`)
  t.same(reported, [usage])
})
