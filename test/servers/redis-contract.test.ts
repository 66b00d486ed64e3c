// quotaStoreContract with the Redis store.
import t from 'tap'
import { InsuredQuotaStore, type QuotaStore } from '../../lib/index.js'
import { RedisQuotaStore } from '../../lib/redis.js'
import { quotaStoreContract, type QuotaStoreContractOptions } from '../../lib/testing.js'
import { startRedis } from '../support/redis-server.js'

const { client } = await startRedis(t)

let stores = 0
const redis = (shards: number, rememberRejections: boolean) => (options: QuotaStoreContractOptions) =>
  new RedisQuotaStore({ client, keyPrefix: `contract-${++stores}:`, shards, rememberRejections, ...options })

const subjects: Record<string, (options: QuotaStoreContractOptions) => QuotaStore> = {
  'the Redis store': redis(1, false),
  'the Redis store with four shards': redis(4, false),
  'the Redis store that remembers rejections': redis(1, true),
  'the insured store over Redis': (options) => new InsuredQuotaStore({ primary: redis(1, false)(options), timeout: 10_000 })
}

for (const [name, create] of Object.entries(subjects)) {
  t.test(`${name} passes each check of quotaStoreContract`, async (t) => {
    for (const { name, run } of quotaStoreContract(create)) await t.resolves(run(), name)
  })
}
