// Specification, sections 3 and 8: the memory store against an independent model of the state table, step by step.
import { deepStrictEqual } from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import { MemoryQuotaStore } from '../lib/index.js'
import { VirtualClock } from '../lib/testing/virtual-clock.js'
import { CounterModel } from './support/counter-model.js'
import { assertProperty } from './support/property.js'
import { walks } from './support/random-steps.js'

const runs = 500
const stepsPerRun = 500

t.test(`${runs * stepsPerRun} random steps`, async (t) => {
  const seen = { admitted: 0, rejected: 0, overflow: 0, sweeps: 0 }
  await assertProperty(fc.asyncProperty(walks(stepsPerRun), async ({ maxTrackedCallers, steps }) => {
    const clock = new VirtualClock()
    const store = new MemoryQuotaStore({ clock: clock.now, maxTrackedCallers })
    const model = new CounterModel(maxTrackedCallers)
    for (const step of steps) {
      if (step.kind === 'clear') {
        store.clearCounters()
        model.clear()
      } else {
        clock.advance(step.gap)
        const acquisition = store.acquire(step.caller, step.limit)
        deepStrictEqual(acquisition, model.acquire(clock.now(), step.caller, step.limit))
        seen[acquisition.admitted ? 'admitted' : 'rejected'] += 1
        if (acquisition.overflow) seen.overflow += 1
      }
      deepStrictEqual(store.inspect(), model.inspect())
    }
    seen.sweeps += store.inspect().sweeps
  }), { numRuns: runs })
  t.comment(JSON.stringify(seen))
  t.ok(Object.values(seen).every((count) => count > 10_000), 'every kind of step was taken often')
})

t.test('so many callers that a sweep clears away over several requests', async (t) => {
  const seen = { overflow: 0, underWay: 0 }
  const step = fc.record({
    gap: fc.oneof({ weight: 3_000, arbitrary: fc.constantFrom(0, 0, 0, 1) }, { weight: 1, arbitrary: fc.constantFrom(60_000, 119_999, 120_000, 180_000) }),
    caller: fc.noBias(fc.integer({ min: 0, max: 5_999 })).map(String)
  })
  const walk = fc.record({ maxTrackedCallers: fc.constantFrom(2_500, 4_000, 6_000), steps: fc.array(step, { minLength: 30_000, maxLength: 30_000, size: 'max' }) })
  await assertProperty(fc.asyncProperty(walk, async ({ maxTrackedCallers, steps }) => {
    const clock = new VirtualClock()
    const store = new MemoryQuotaStore({ clock: clock.now, maxTrackedCallers })
    const model = new CounterModel(maxTrackedCallers)
    let sinceGap = 0
    for (const { gap, caller } of steps) {
      clock.advance(gap)
      sinceGap = gap > 1 ? 0 : sinceGap + 1
      const acquisition = store.acquire(caller, 2)
      deepStrictEqual(acquisition, model.acquire(clock.now(), caller, 2))
      if (acquisition.overflow) seen.overflow += 1
      if (sinceGap < 8) {
        deepStrictEqual(store.inspect(), model.inspect())
        seen.underWay += 1
      }
    }
  }), { numRuns: 6, endOnFailure: true })
  t.comment(JSON.stringify(seen))
  t.ok(seen.overflow > 1_000 && seen.underWay > 50)
})
