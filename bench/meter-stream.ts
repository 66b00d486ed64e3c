// Passes the stream of a model on, once for each message of the parent process: through the meter
// of a permit, or through a stream that only parses server-sent events.
import { Readable, Transform, Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createParser } from 'eventsource-parser'
import Fastify from 'fastify'
import quotaPlugin, { localAuthentication } from 'fastify-llm-quota'
import type { Way } from './meter.js'

const events = 2_000

/** After so many passes, V8 has compiled what they run. */
const warmUp = 20

/** A stream of a chat completion, as OpenAI's API sends it. */
function streamParts (): Buffer[] {
  const parts: Buffer[] = []
  const common = {
    id: 'chatcmpl-123456789012345678901234',
    object: 'chat.completion.chunk',
    created: 1_700_000_000,
    model: 'model-1',
    service_tier: 'default',
    system_fingerprint: 'fp_1234567890'
  }
  const add = (data: object): void => {
    parts.push(Buffer.from(`data: ${JSON.stringify({ ...common, ...data })}\n\n`))
  }
  for (let event = 0; event < events; event += 1) {
    const choice = { index: 0, delta: { content: ` word${event}` }, finish_reason: null }
    add({ choices: [choice], usage: null, obfuscation: 'x'.repeat(event % 9) })
  }
  add({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }], usage: null })
  add({ choices: [], usage: { prompt_tokens: 20, completion_tokens: events } })
  parts.push(Buffer.from('data: [DONE]\n\n'))
  return parts
}

function inParts (body: Buffer, length: number): Buffer[] {
  const parts: Buffer[] = []
  for (let start = 0; start < body.length; start += length) {
    parts.push(body.subarray(start, start + length))
  }
  return parts
}

function webStreamOf (parts: readonly Buffer[]): ReadableStream<Uint8Array> {
  let next = 0
  return new ReadableStream({
    pull (controller) {
      const part = parts[next]
      next += 1
      if (part === undefined) controller.close()
      else controller.enqueue(part)
    }
  })
}

function nowhere (): Writable {
  return new Writable({
    write (_part, _encoding, callback) {
      callback()
    }
  })
}

async function parseAlone (parts: readonly Buffer[]): Promise<void> {
  const decoder = new TextDecoder()
  const parser = createParser({ onEvent () {} })
  const parsed = new Transform({
    transform (part: Buffer, _encoding, callback) {
      parser.feed(decoder.decode(part, { stream: true }))
      callback(null, part)
    }
  })
  await pipeline(Readable.from(webStreamOf(parts)), parsed, nowhere())
}

const app = Fastify()
const tokens = { perDay: { tokens: Number.MAX_SAFE_INTEGER }, unreported: 0 }
await app.register(quotaPlugin, { operations: [], quotas: { tokens } })
const permit = await app.quotaAcquire(localAuthentication('alice'), 'tokens')

async function meter (parts: readonly Buffer[]): Promise<void> {
  await pipeline(permit.meter(webStreamOf(parts)), nowhere())
}

const [, , way, length] = process.argv
const alone: Way = 'eventsource-parser alone'
const pass = way === alone ? parseAlone : meter
const ofEvents = streamParts()
const body = Buffer.concat(ofEvents)
const parts = length === 'event' ? ofEvents : inParts(body, Number(length))
for (let passed = 0; passed < warmUp; passed += 1) await pass(parts)
process.on('message', async () => {
  await pass(parts)
  process.send?.(body.length)
})
process.send?.(body.length)
