import { buffer } from 'node:stream/consumers'
import { meterBody, type BodyEnd } from '../../lib/model/meter.js'
import type { RecordedAnswer } from './recorded-answers.js'

/** Returns what a server sends for a recorded answer. */
export function bodyOf ({ form, chunks, hasDone = false }: RecordedAnswer): Buffer {
  const texts = chunks.map((chunk) => JSON.stringify(chunk))
  if (form === 'object') return Buffer.from(JSON.stringify(chunks[0], null, 2))
  if (form === 'array') return Buffer.from(`[${texts.join('\n,\r\n')}\n]\n`)
  if (form === 'lines') return Buffer.from(texts.map((text) => `${text}\n`).join(''))
  if (hasDone) texts.push('[DONE]')
  return Buffer.from(texts.map((text) => `data: ${text}\n\n`).join(''))
}

/**
 * Passes a body through a meter in parts; returns what arrived and how it ended.
 *
 * @param lengths Those of the parts, again and again.
 */
export async function meteredInParts (
  body: Buffer,
  lengths: readonly number[]
): Promise<{ readonly bytes: Buffer; readonly end: BodyEnd }> {
  const ends: BodyEnd[] = []
  const bytes = await buffer(meterBody(inParts(body, lengths), (end) => ends.push(end)))
  const [end, ...others] = ends
  if (end === undefined || others.length > 0) throw new Error(`it ended ${ends.length} times`)
  return { bytes, end }
}

async function * inParts (
  body: Buffer,
  lengths: readonly number[]
): AsyncGenerator<Uint8Array> {
  let start = 0
  for (let part = 0; start < body.length; part += 1) {
    const end = start + (lengths[part % lengths.length] ?? body.length)
    yield body.subarray(start, end)
    start = end
  }
}
