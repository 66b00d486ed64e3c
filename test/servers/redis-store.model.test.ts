// The Redis store on a real server, compared step by step with the model.
import fc from 'fast-check'
import t from 'tap'
import { RedisQuotaStore } from '../../lib/redis.js'
import { compareWithModel, stepsWithGaps } from '../support/compare-stores.js'
import { PlainStore } from '../support/plain-store.js'
import { startRedis } from '../support/redis-server.js'

const walks = Number(process.env.RANDOM_WALKS ?? 100)
let stores = 0

const { client } = await startRedis(t)

// A failure is shrunk for as long as the test may take, and a busy machine needs longer than tap's default of 30 s.
t.test(`each quota of the Redis store has the same results as the model, in ${walks * 500} random steps`, { timeout: 300_000 }, async (t) => {
  const create = (options: object) => new RedisQuotaStore({ client, rememberRefusals: false, keyPrefix: `own-${++stores}:`, ...options })
  const seen = await compareWithModel({ create, walks, isPipelined: true, hasLeases: true })
  t.comment(JSON.stringify(seen))
  t.ok(Object.values(seen).every((count) => count > 10 * walks), 'every kind of step was taken often')
})

// A shard derives the time from its key's time to live, so a test moves the clock forward by shortening it. All gaps are whole seconds,
// and a walk takes less than a second, so the real time that passes does not change any result.
const seconds = fc.oneof({ weight: 9, arbitrary: fc.constantFrom(0, 0, 0, 1, 7, 30) }, { weight: 3, arbitrary: fc.constantFrom(59, 60, 61, 119, 120, 121, 179, 180, 181) })
const shorten = "local left = redis.call('PTTL', KEYS[1]) if left > 0 then redis.call('PEXPIRE', KEYS[1], left - ARGV[1]) end return 0"
let expired = 0

/** The model, which forgets everything 180 s after the first request or the latest sweep, as the key expires. */
class ExpiringStore extends PlainStore {
  #renewedAt = -Infinity

  override sweep (now: number): void {
    this.#expire()
    const { sweeps } = this
    super.sweep(now)
    if (this.#renewedAt === -Infinity || this.sweeps > sweeps) this.#renewedAt = now
  }

  override peek (callerKey: string) {
    this.#expire()
    return super.peek(callerKey)
  }

  override inspect () {
    this.#expire()
    return super.inspect()
  }

  #expire (): void {
    if (this.clock() - this.#renewedAt < 180_000) return
    if (this.entries.size > 0) expired += 1
    this.clearCounters()
    this.#renewedAt = -Infinity
  }
}

t.test(`the Redis store with the server's clock has the same results as the model, in ${walks * 120} random steps`, { timeout: 300_000 }, async (t) => {
  await compareWithModel({
    create: ({ maxTrackedCallers }) => new RedisQuotaStore({ client, maxTrackedCallers, rememberRefusals: false, keyPrefix: `server-${++stores}:` }),
    walks: 2 * walks,
    length: 60,
    step: stepsWithGaps(seconds.map((gap) => gap * 1_000)),
    isPipelined: true,
    advance: (ms) => client.eval(shorten, 1, `server-${stores}:{0}:default:counters`, ms),
    unit: 1_000,
    Model: ExpiringStore
  })
  t.ok(expired > walks, `the key expired ${expired} times`)
})
