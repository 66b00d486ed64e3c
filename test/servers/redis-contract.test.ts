// quotaStoreContract with the Redis store, which is also compared step by step with the reference.
import t from 'tap'
import { InsuredQuotaStore, ShardedQuotaStore, type QuotaStore } from '../../lib/index.js'
import { RedisQuotaStore } from '../../lib/redis.js'
import { quotaStoreContract, type QuotaStoreContractOptions } from '../../lib/testing.js'
import { compareWithReference } from '../support/compare-stores.js'
import { startRedis } from '../support/redis-server.js'

const { client } = await startRedis(t)

let stores = 0
const redis = (rememberRejections: boolean) => (options: QuotaStoreContractOptions) =>
  new RedisQuotaStore({
    client,
    keyPrefix: `contract-${++stores}:`,
    rememberRejections,
    ...options
  })

const subjects: Record<string, (options: QuotaStoreContractOptions) => QuotaStore> = {
  'the Redis store': redis(false),
  'the Redis store that remembers rejections': redis(true),
  'four Redis stores': (options) =>
    new ShardedQuotaStore(Array.from({ length: 4 }, () => redis(false)(options))),
  'the insured store over Redis': (options) =>
    new InsuredQuotaStore({ primary: redis(false)(options), timeout: 10_000 })
}

for (const [subject, create] of Object.entries(subjects)) {
  const checks = quotaStoreContract(create).filter(
    // What a longer window changes is the same in each of them.
    ({ name }) => subject === 'the Redis store' || !/of one (hour|day)$/.test(name)
  )
  t.test(`${subject} passes each check of quotaStoreContract`, { timeout: 300_000 }, async (t) => {
    for (const { name, run } of checks) await t.test(name, (t) => t.resolves(run()))
  })
}

const walks = Number(process.env.RANDOM_WALKS ?? 8)

for (const areTogether of [false, true]) {
  const how = areTogether ? 'some together' : 'each on its own'
  // A failure is shrunk for as long as the test may take, and a busy machine needs longer than
  // tap's default of 30 s.
  t.test(
    `the Redis store has the results of the reference, in ${walks * 500} random steps, ${how}`,
    { timeout: 300_000 },
    async (t) => {
      const seen = await compareWithReference({
        create: redis(false),
        walks,
        areTogether,
        placesEnd: true
      })
      t.comment(JSON.stringify(seen))
      const { overflow, sweeps, ...others } = seen
      t.same([overflow, sweeps], [0, 0])
      t.ok(
        Object.values(others).every((count) => count > 10 * walks),
        'every kind of step was taken often'
      )
    }
  )
}
