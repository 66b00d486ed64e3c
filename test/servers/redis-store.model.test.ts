// The Redis store on a real server, compared step by step with the reference.
import t from 'tap'
import { RedisQuotaStore } from '../../lib/redis.js'
import { compareWithReference } from '../support/compare-stores.js'
import { startRedis } from '../support/redis-server.js'

const walks = Number(process.env.RANDOM_WALKS ?? 60)
let stores = 0

const { client } = await startRedis(t)

for (const areTogether of [false, true]) {
  // A failure is shrunk for as long as the test may take, and a busy machine needs longer than tap's default of 30 s.
  t.test(`the Redis store has the same results as the reference, in ${walks * 500} random steps, ${areTogether ? 'some together' : 'each on its own'}`, { timeout: 300_000 }, async (t) => {
    const create = (options: object) => new RedisQuotaStore({ client, rememberRejections: false, keyPrefix: `own-${++stores}:`, ...options })
    const seen = await compareWithReference({ create, walks, areTogether, hasLeases: true })
    t.comment(JSON.stringify(seen))
    t.ok(Object.values(seen).every((count) => count > 10 * walks), 'every kind of step was taken often')
  })
}
