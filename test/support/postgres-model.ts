import { deepStrictEqual } from 'node:assert/strict'
import fc from 'fast-check'
import { MemoryQuotaStore } from '../../lib/index.js'
import { PostgresQuotaStore, type PostgresPool } from '../../lib/postgres.js'
import { VirtualClock } from '../../lib/testing.js'
import { assertProperty } from './property.js'

const minute = 60_000
const windows: Record<string, number> = { default: minute, 'per-hour': 60 * minute, 'tokens-per-day': 1_440 * minute }
const { MAX_SAFE_INTEGER } = Number

const gap = fc.oneof(
  { weight: 40, arbitrary: fc.constantFrom(0, 0, 0, 0, 1, 1_000) },
  { weight: 4, arbitrary: fc.constantFrom(1, 2, 60, 61, 1_440, 1_441).chain((minutes) => fc.constantFrom(-1, 0, 1).map((more) => minutes * minute + more)) },
  { weight: 3, arbitrary: fc.integer({ min: 0, max: 130_000 }) }
)
const acquire = fc.record({
  kind: fc.constant('acquire' as const),
  limit: fc.oneof({ weight: 5, arbitrary: fc.integer({ min: 1, max: 4 }) }, fc.constantFrom(MAX_SAFE_INTEGER, MAX_SAFE_INTEGER - 1)),
  cost: fc.oneof({ weight: 6, arbitrary: fc.constant(1) }, fc.constantFrom(0, 2, 1_000, MAX_SAFE_INTEGER))
})
const enter = fc.record({ kind: fc.constant('enter' as const), limit: fc.integer({ min: 0, max: 3 }) })
const leave = fc.record({ kind: fc.constant('leave' as const), which: fc.nat() })
const rest = fc.record({ kind: fc.constantFrom('peek', 'peek', 'peek', 'inspect', 'inspect', 'forget' as const) })
const clear = fc.record({ kind: fc.constant('clear' as const) })
const action = fc.oneof(
  { weight: 120, arbitrary: acquire }, { weight: 40, arbitrary: rest }, { weight: 10, arbitrary: enter }, { weight: 8, arbitrary: leave }, { weight: 1, arbitrary: clear }
)
const step = fc.record({ gap, quota: fc.constantFrom('default', 'default', 'default', 'per-hour', 'tokens-per-day'), caller: fc.constantFrom(...'abcdef'), action })

/** What happened in a comparison, to show that it was no empty one. */
export interface Seen { steps: number, admitted: number, rejected: number, overflow: number, sweeps: number, entered: number }

/**
 * Compares `PostgresQuotaStore` with `MemoryQuotaStore`, step by step, on random steps with a clock of the test's.
 *
 * @param walks The number of walks of 500 steps, each with a table's worth of new counters and a random caller cap.
 */
export async function compareWithMemory (pool: PostgresPool, walks: number): Promise<Seen> {
  const seen = { steps: 0, admitted: 0, rejected: 0, overflow: 0, sweeps: 0, entered: 0 }
  const walk = fc.record({ maxTrackedCallers: fc.integer({ min: 1, max: 5 }), steps: fc.array(step, { minLength: 500, maxLength: 500, size: 'max' }) })
  await assertProperty(fc.asyncProperty(walk, async ({ maxTrackedCallers, steps }) => {
    const clock = new VirtualClock()
    clock.advance(1_000_000)
    const postgres = new PostgresQuotaStore({ pool, clock: clock.now, maxTrackedCallers, rememberRefusals: false })
    const memory = new MemoryQuotaStore({ clock: clock.now, maxTrackedCallers })
    await postgres.clearCounters()
    const leaves: (() => Promise<void>)[] = []
    for (const { gap, quota, caller, action } of steps) {
      clock.advance(gap)
      const [actual, expected] = [postgres, memory].map((store) => quota === 'default' ? store : store.quota(quota, windows[quota] ?? minute))
      if (actual === undefined || expected === undefined) throw new Error('there are two stores')
      seen.steps += 1
      if (action.kind === 'acquire') {
        const acquisition = await expected.acquire(caller, action.limit, action.cost)
        deepStrictEqual(await actual.acquire(caller, action.limit, action.cost), acquisition)
        seen[acquisition.admitted ? 'admitted' : 'rejected'] += 1
        if (acquisition.overflow) seen.overflow += 1
      } else if (action.kind === 'enter') {
        const [one, other] = [await actual.enter(caller, action.limit), await expected.enter(caller, action.limit)]
        deepStrictEqual([one.admitted, one.count, one.leave !== undefined], [other.admitted, other.count, other.leave !== undefined])
        if (one.admitted) {
          seen.entered += 1
          leaves.push(async () => { await Promise.all([one.leave?.(), other.leave?.()]) })
        }
      } else if (action.kind === 'leave') {
        for (const leave of leaves.splice(action.which % (leaves.length + 1), 1)) await leave()
      } else if (action.kind === 'clear') {
        await Promise.all([actual.clearCounters(), expected.clearCounters()])
      } else if (action.kind === 'forget') {
        await Promise.all([actual.forget(caller), expected.forget(caller)])
      } else if (action.kind === 'peek') {
        deepStrictEqual(await actual.peek(caller), await expected.peek(caller))
      } else {
        deepStrictEqual(await actual.inspect(), await expected.inspect())
      }
    }
    for (const leave of leaves) await leave()
    seen.sweeps += (await memory.inspect()).sweeps
  }), { numRuns: walks })
  return seen
}
