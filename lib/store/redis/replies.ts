import { shown } from '../errors.js'
import type { Acquisition, QuotaStoreState } from '../store.js'

/** Reads what the acquire script answers. */
export function readAcquisition (reply: unknown): Acquisition {
  assertIntegers<[number, number, number, number]>(reply, 4)
  const [admitted, count, microseconds, overflow] = reply
  return { admitted: admitted === 1, count, windowRemaining: microseconds / 1000, overflow: overflow === 1 }
}

/** Reads what the inspect script answers. */
export function readState (reply: unknown): QuotaStoreState {
  assertIntegers<[number, number]>(reply, 2)
  const [trackedCallers, sweeps] = reply
  return { trackedCallers, sweeps }
}

function assertIntegers<Reply extends number[]> (reply: unknown, length: Reply['length']): asserts reply is Reply {
  if (!Array.isArray(reply) || reply.length !== length || !reply.every(Number.isInteger)) {
    throw new TypeError(`the server's answer is not understood: ${shown(reply)}`)
  }
}
