// quotaStoreContract with the Redis store, which is also compared step by step with the reference.
import t from 'tap'
import { InsuredQuotaStore, type QuotaStore } from '../../lib/index.js'
import { RedisQuotaStore } from '../../lib/redis.js'
import { quotaStoreContract, type QuotaStoreContractOptions } from '../../lib/testing.js'
import { compareWithReference } from '../support/compare-stores.js'
import { startRedis } from '../support/redis-server.js'

const { client } = await startRedis(t)

let stores = 0
const redis =
  (shards: number, rememberRejections: boolean) => (options: QuotaStoreContractOptions) =>
    new RedisQuotaStore({
      client,
      keyPrefix: `contract-${++stores}:`,
      shards,
      rememberRejections,
      ...options
    })

/** Returns the shards of callers, as they come: the first shard has only two of the first ones. */
function unevenShards (): (callerKey: string) => number {
  const order = new Map<string, number>()
  return (callerKey) => {
    const position = order.get(callerKey) ?? order.size
    order.set(callerKey, position)
    return position > 4 && position < 24 ? 1 + (position % 3) : position % 4
  }
}

const subjects: Record<string, (options: QuotaStoreContractOptions) => QuotaStore> = {
  'the Redis store': redis(1, false),
  'the Redis store with four shards': redis(4, false),
  'the Redis store with shards that have few of the first callers': (options) =>
    Object.assign(redis(4, false)(options), { shardOf: unevenShards() }),
  'the Redis store that remembers rejections': redis(1, true),
  'the insured store over Redis': (options) =>
    new InsuredQuotaStore({ primary: redis(1, false)(options), timeout: 10_000 })
}

for (const [subject, create] of Object.entries(subjects)) {
  const checks = quotaStoreContract(create).filter(
    // What a longer window changes is the same in each of them.
    ({ name }) => subject === 'the Redis store' || !/of one (hour|day)$/.test(name)
  )
  t.test(`${subject} passes each check of quotaStoreContract`, async (t) => {
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
        create: redis(1, false),
        walks,
        areTogether,
        placesEnd: true
      })
      t.comment(JSON.stringify(seen))
      t.ok(
        Object.values(seen).every((count) => count > 10 * walks),
        'every kind of step was taken often'
      )
    }
  )
}
