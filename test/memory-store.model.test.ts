// Specification, sections 3 and 8: the memory store against an independent model of the state table, step by step.
import { deepStrictEqual } from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import { MemoryQuotaStore } from '../lib/index.js'
import { VirtualClock } from '../lib/testing/virtual-clock.js'
import { CounterModel } from './support/counter-model.js'
import { walks } from './support/random-steps.js'

const runs = 500
const stepsPerRun = 500

t.test(`${runs * stepsPerRun} random steps`, async (t) => {
  const seen = { admitted: 0, rejected: 0, overflow: 0, sweeps: 0 }
  fc.assert(fc.property(walks(stepsPerRun), ({ maxTrackedCallers, steps }) => {
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
