// quotaStoreContract with every store of the package.
import { Redis } from 'ioredis'
import t from 'tap'
import { InsuredQuotaStore, MemoryQuotaStore, type QuotaStore } from '../../lib/index.js'
import { RedisQuotaStore } from '../../lib/redis.js'
import { quotaStoreContract, type QuotaStoreContractOptions } from '../../lib/testing.js'
import { RedisServer } from '../support/redis-server.js'

const server = process.env.REDIS_URL === undefined ? await RedisServer.start() : undefined
const client = server?.client() ?? new Redis(String(process.env.REDIS_URL))
t.teardown(async () => {
  client.disconnect()
  await server?.stop()
})

let stores = 0
const redis = (shards: number, rememberRefusals: boolean) => (options: QuotaStoreContractOptions) =>
  new RedisQuotaStore({ client, keyPrefix: `contract-${process.pid}-${++stores}:`, shards, rememberRefusals, ...options })

const subjects: Record<string, (options: QuotaStoreContractOptions) => QuotaStore> = {
  'the memory store': (options) => new MemoryQuotaStore(options),
  'the Redis store with one shard': redis(1, false),
  'the Redis store with four shards': redis(4, false),
  'the Redis store that remembers rejections': redis(1, true),
  'the insured store': (options) => new InsuredQuotaStore({ primary: new MemoryQuotaStore(options) }),
  'the insured store over Redis': (options) => new InsuredQuotaStore({ primary: redis(1, false)(options), timeout: 10_000 })
}

for (const [name, create] of Object.entries(subjects)) {
  t.test(`${name} passes each check of quotaStoreContract`, async (t) => {
    for (const { name, run } of quotaStoreContract(create)) await t.resolves(run(), name)
  })
}
