// docs/rules.md, "Store": the memory store, compared step by step with an independent model.
import { deepStrictEqual } from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import { MemoryQuotaStore } from '../../lib/index.js'
import { VirtualClock } from '../../lib/testing.js'
import { compareWithModel } from '../support/compare-stores.js'
import { PlainStore } from '../support/plain-store.js'
import { assertProperty } from '../support/property.js'

// A pause after which counters are due for removal, followed by as many requests as there are callers, so more than half of the callers send one.
const callers = 6_000
const burst = fc.record({
  gap: fc.constantFrom(60_000, 119_999, 120_000, 180_000),
  steps: fc.array(fc.record({
    gap: fc.constantFrom(0, 0, 0, 1),
    caller: fc.noBias(fc.integer({ min: 0, max: callers - 1 })).map(String)
  }), { minLength: callers, maxLength: callers, size: 'max' })
})

t.test('each quota of the memory store has the same results as its model, in 150,000 random steps', async (t) => {
  const seen = await compareWithModel({ create: (options) => new MemoryQuotaStore(options), walks: 300 })
  t.comment(JSON.stringify(seen))
  t.ok(Object.values(seen).every((count) => count > 5_000), 'every kind of step was taken often')
})

t.test('the memory store has the same results as the model while it deletes many counters over several requests', async (t) => {
  for (const maxTrackedCallers of [2_500, 3_000, 6_000]) {
    t.test(`the results are the same with ${callers} callers and a cap of ${maxTrackedCallers}`, async (t) => {
      let overflow = 0
      await assertProperty(fc.asyncProperty(fc.array(burst, { minLength: 5, maxLength: 5 }), async (bursts) => {
        const clock = new VirtualClock()
        const store = new MemoryQuotaStore({ clock: clock.now, maxTrackedCallers })
        const model = new PlainStore({ clock: clock.now, maxTrackedCallers })
        for (const { gap, steps } of bursts) {
          clock.advance(gap)
          for (const [index, { gap, caller }] of steps.entries()) {
            clock.advance(gap)
            const acquisition = store.acquire(caller, 2)
            deepStrictEqual(acquisition, model.acquire(caller, 2))
            if (acquisition.overflow) overflow += 1
            if (index < 8) deepStrictEqual(store.inspect(), model.inspect())
          }
        }
      }), { numRuns: 2, endOnFailure: true })
      t.equal(overflow > 1_000, maxTrackedCallers < callers, `${overflow} requests at the cap`)
    })
  }
})
