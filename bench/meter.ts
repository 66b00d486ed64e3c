// How many megabytes of a model's stream pass in a second of CPU time: through the meter of a
// permit, and through a stream that only parses server-sent events. Both in turn, in parts of one
// event and of 16 KiB.
import { Transform, Writable, Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createParser } from 'eventsource-parser'
import Fastify from 'fastify'
import quotaPlugin, { localAuthentication, type QuotaPermit } from 'fastify-llm-quota'
import { median, type Row } from './table.js'

const events = 2_000
const rounds = 30
const warmUp = 10

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

async function meter (parts: readonly Buffer[], permit: QuotaPermit): Promise<void> {
  await pipeline(permit.meter(webStreamOf(parts)), nowhere())
}

/** Returns the megabytes that pass in a second of CPU time. */
async function speedOf (pass: () => Promise<void>, bytes: number): Promise<number> {
  const before = process.cpuUsage()
  await pass()
  const { user, system } = process.cpuUsage(before)
  return bytes / (user + system)
}

export async function measureMeter (): Promise<Row[]> {
  const app = Fastify()
  const tokens = { perDay: { tokens: Number.MAX_SAFE_INTEGER }, unreported: 0 }
  await app.register(quotaPlugin, { operations: [], quotas: { tokens } })
  const permit = await app.quotaAcquire(localAuthentication('alice'), 'tokens')
  const ofEvents = streamParts()
  const body = Buffer.concat(ofEvents)
  const rows = [
    await measure('in parts of one event', ofEvents, permit),
    await measure('in parts of 16 KiB', inParts(body, 16 * 1024), permit)
  ]
  await permit.end()
  await app.close()
  return rows
}

async function measure (title: string, parts: Buffer[], permit: QuotaPermit): Promise<Row> {
  const bytes = Buffer.concat(parts).length
  const metered: number[] = []
  const alone: number[] = []
  for (let round = 0; round < warmUp + rounds; round += 1) {
    const speeds = [
      await speedOf(async () => await meter(parts, permit), bytes),
      await speedOf(async () => await parseAlone(parts), bytes)
    ] as const
    if (round < warmUp) continue
    metered.push(speeds[0])
    alone.push(speeds[1])
  }
  const costs = { meter: median(metered), 'eventsource-parser alone': median(alone) }
  return { title: `A stream ${title}`, unit: 'MB/s', costs }
}
