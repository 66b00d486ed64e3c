// docs/rules.md, "Store": the memory store, compared step by step with an independent reference.
import t from 'tap'
import { MemoryQuotaStore } from '../../lib/store/memory/memory-store.js'
import { compareWithReference } from '../support/compare-stores.js'

t.test('the memory store has the same results as the reference, in 150,000 random steps', async (t) => {
  const seen = await compareWithReference({ create: (options) => new MemoryQuotaStore(options), walks: 300 })
  t.comment(JSON.stringify(seen))
  t.ok(Object.values(seen).every((count) => count > 5_000), 'every kind of step was taken often')
})
