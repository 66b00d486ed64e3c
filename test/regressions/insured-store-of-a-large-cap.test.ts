// An insured store without a fallback of the host's could not be created if the cap of its primary
// was larger than that of a memory store can be.
import t from 'tap'
import { InsuredQuotaStore, MemoryQuotaStore } from '../../lib/index.js'

t.test('the default fallback of a primary with a large cap has the largest cap in memory', (t) => {
  const primary = { acquire: () => [], maxTrackedCallers: 2 ** 24 + 1 }
  const { fallback } = new InsuredQuotaStore({ primary })
  t.ok(fallback instanceof MemoryQuotaStore)
  t.match(fallback, { maxTrackedCallers: 2 ** 24 })
  t.end()
})
