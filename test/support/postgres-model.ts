import { deepStrictEqual } from 'node:assert/strict'
import fc from 'fast-check'
import { MemoryQuotaStore } from '../../lib/index.js'
import { PostgresQuotaStore, type PostgresPool } from '../../lib/postgres.js'
import { VirtualClock } from '../../lib/testing.js'
import { assertProperty } from './property.js'
import { walksOfQuotas, windows } from './random-steps.js'

/**
 * Compares each quota of `PostgresQuotaStore` with `MemoryQuotaStore`, step by step, on random steps with a clock of the test's.
 *
 * @param walks The number of walks of 500 steps, each from empty tables and with a random caller cap.
 * @returns What happened, to show that each kind of step was taken.
 */
export async function compareWithMemory (pool: PostgresPool, walks: number): Promise<Record<string, number>> {
  const seen = { admitted: 0, rejected: 0, overflow: 0, peeked: 0, entered: 0, left: 0, sweeps: 0 }
  await assertProperty(fc.asyncProperty(walksOfQuotas(500), async ({ maxTrackedCallers, steps }) => {
    const clock = new VirtualClock()
    clock.advance(1_000_000)
    const postgres = new PostgresQuotaStore({ pool, clock: clock.now, maxTrackedCallers, rememberRefusals: false })
    const memory = new MemoryQuotaStore({ clock: clock.now, maxTrackedCallers })
    await postgres.clearCounters()
    const leaves: (() => Promise<void>)[] = []
    for (const { quota, cost, pause, step } of steps) {
      clock.advance(pause + ('gap' in step ? step.gap : 0))
      const nameAndWindow = [`quota ${quota}`, windows[quota] ?? 0] as const
      const [actual, expected] = quota === 0 ? [postgres, memory] : [postgres.quota(...nameAndWindow), memory.quota(...nameAndWindow)]
      if (step.kind === 'acquire') {
        const acquisition = expected.acquire(step.caller, step.limit, cost)
        deepStrictEqual(await actual.acquire(step.caller, step.limit, cost), acquisition)
        seen[acquisition.admitted ? 'admitted' : 'rejected'] += 1
        if (acquisition.overflow) seen.overflow += 1
      } else if (step.kind === 'enter') {
        const [one, other] = [await actual.enter(step.caller, step.limit), expected.enter(step.caller, step.limit)]
        deepStrictEqual([one.admitted, one.count, one.leave !== undefined], [other.admitted, other.count, other.leave !== undefined])
        if (one.admitted) leaves.push(async () => { await Promise.all([one.leave?.(), other.leave?.()]) })
        if (one.admitted) seen.entered += 1
      } else if (step.kind === 'leave') {
        seen.left += leaves.length > 0 ? 1 : 0
        for (const leave of leaves.splice(step.index % (leaves.length + 1), 1)) await leave()
      } else if (step.kind === 'clear') {
        deepStrictEqual(await postgres.clearCounters(), memory.clearCounters())
      } else if (step.kind === 'forget') {
        deepStrictEqual(await actual.forget(step.caller), expected.forget(step.caller))
      } else {
        const peeked = expected.peek(step.caller)
        deepStrictEqual(await actual.peek(step.caller), peeked)
        deepStrictEqual(await actual.inspect(), expected.inspect())
        if (peeked !== null) seen.peeked += 1
      }
    }
    for (const leave of leaves) await leave()
    seen.sweeps += memory.inspect().sweeps
  }), { numRuns: walks })
  return seen
}
