// `RedisQuotaStore` had no property `maxTrackedCallers`: the fallback of an insured store had the default cap instead of the primary's, and the
// metric `llm_quota_max_tracked_callers`, which the alert for the cap compares with, had no series.
import Fastify from 'fastify'
import { Registry } from 'prom-client'
import t from 'tap'
import quotaPlugin, { InsuredQuotaStore } from '../../lib/index.js'
import quotaMetricsPlugin from '../../lib/metrics.js'
import { PostgresQuotaStore } from '../../lib/postgres.js'
import { RedisQuotaStore } from '../../lib/redis.js'

const maxTrackedCallers = 3
const fail = () => Promise.reject(new Error('no connection'))
const primaries = {
  RedisQuotaStore: () => new RedisQuotaStore({ client: { evaluateDigest: fail, evaluateSource: fail, removeKey: fail }, maxTrackedCallers }),
  PostgresQuotaStore: () => new PostgresQuotaStore({ pool: { query: fail }, maxTrackedCallers })
}

for (const [name, createPrimary] of Object.entries(primaries)) {
  t.test(`the fallback of a ${name}, and the fallback of its named quotas, have its caller cap`, async (t) => {
    const store = new InsuredQuotaStore({ primary: createPrimary() })
    for (const quota of [store, store.quota('hourly', 3_600_000)]) {
      const overflows = []
      for (const caller of ['a', 'b', 'c', 'd']) overflows.push((await quota.acquire(caller, 1)).overflow)
      t.same(overflows, [false, false, false, true])
    }
  })

  t.test(`the metrics contain the caller cap of a ${name}`, async (t) => {
    const app = Fastify()
    t.teardown(() => app.close())
    const registry = new Registry()
    await app.register(quotaPlugin, { store: new InsuredQuotaStore({ primary: createPrimary() }) })
    await app.register(quotaMetricsPlugin, { registry })
    await app.ready()
    const metrics = await registry.metrics()
    t.match(metrics, 'llm_quota_max_tracked_callers{quota="default"} 3')
  })
}
