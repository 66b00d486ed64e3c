// `RedisQuotaStore` had no property `maxTrackedCallers`: the fallback of an insured store had the default cap instead of the primary's, and the
// metric `llm_quota_max_tracked_callers`, which the alert for the cap compares with, had no series.
import t from 'tap'
import { PostgresQuotaStore } from '../../lib/postgres.js'
import { RedisQuotaStore } from '../../lib/redis.js'

const maxTrackedCallers = 3
const fail = () => Promise.reject(new Error('no connection'))

t.test('each store on a server has its caller cap as a property', async (t) => {
  const redis = new RedisQuotaStore({ client: { evaluateDigest: fail, evaluateSource: fail }, maxTrackedCallers })
  const postgres = new PostgresQuotaStore({ pool: { query: fail }, maxTrackedCallers })
  for (const store of [redis, postgres]) t.equal(store.maxTrackedCallers, 3)
})
