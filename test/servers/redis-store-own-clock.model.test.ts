// The Redis store with the server's own time and real expiry, compared with the independent model.
//
// A shard derives the time from its key's time to live, so a test moves the clock forward by shortening it. All gaps are whole seconds,
// and a walk takes less than a second, so the real time that passes does not change any result.
import { deepStrictEqual } from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import { RedisQuotaStore } from '../../lib/redis.js'
import { CounterModel } from '../support/counter-model.js'
import { assertProperty } from '../support/property.js'
import { startRedis } from '../support/redis-server.js'

const walks = Number(process.env.RANDOM_WALKS ?? 200)
const stepsPerWalk = 60

const gap = fc.oneof({ weight: 9, arbitrary: fc.constantFrom(0, 0, 0, 1, 7, 30) }, { weight: 3, arbitrary: fc.constantFrom(59, 60, 61, 119, 120, 121, 179, 180, 181) })
const caller = fc.constantFrom(...'abcdefgh')
const kind = fc.oneof({ weight: 8, arbitrary: fc.constant('acquire' as const) }, { weight: 2, arbitrary: fc.constant('peek' as const) }, { weight: 1, arbitrary: fc.constant('forget' as const) })
const step = fc.record({ kind, gap, caller, limit: fc.integer({ min: 1, max: 4 }) })
const walk = fc.record({
  maxTrackedCallers: fc.integer({ min: 1, max: 6 }),
  steps: fc.array(step, { minLength: stepsPerWalk, maxLength: stepsPerWalk, size: 'max' })
})

const shorten = "local left = redis.call('PTTL', KEYS[1]) if left > 0 then redis.call('PEXPIRE', KEYS[1], left - ARGV[1]) end return 0"

/** The model, which forgets everything 180 s after the first request or the latest sweep, as the key expires. */
class ExpiringModel {
  readonly #model: CounterModel
  now = 0
  #renewedAt = -Infinity
  #sweeps = 0

  constructor (maxTrackedCallers: number) {
    this.#model = new CounterModel(maxTrackedCallers)
  }

  advance (milliseconds: number): void {
    this.now += milliseconds
    if (this.now - this.#renewedAt < 180_000) return
    this.#model.clear()
    this.#renewedAt = -Infinity
    this.#sweeps = 0
  }

  acquire (caller: string, limit: number) {
    const answer = this.#model.acquire(this.now, caller, limit)
    const { sweeps } = this.#model.inspect()
    if (this.#renewedAt === -Infinity || sweeps > this.#sweeps) this.#renewedAt = this.now
    this.#sweeps = sweeps
    return answer
  }

  peek (caller: string) {
    return this.#model.peek(this.now, caller)
  }

  forget (caller: string): void {
    this.#model.forget(caller)
  }

  inspect () {
    return this.#model.inspect()
  }
}

// The remaining time of a window in seconds, rounded up like Retry-After, because less than a second of real time passes.
function rounded<Answer extends { windowRemaining: number }> (answer: Answer | null) {
  return answer === null ? null : { ...answer, windowRemaining: Math.ceil(answer.windowRemaining / 1000) }
}

t.test(`the Redis store with the server's clock has the same results as the model, in ${walks * stepsPerWalk} random steps`, { timeout: 300_000 }, async (t) => {
  const { client } = await startRedis(t)
  let number = 0
  let expired = 0
  await assertProperty(fc.asyncProperty(walk, async ({ maxTrackedCallers, steps }) => {
    const keyPrefix = `walk-${++number}:`
    const store = new RedisQuotaStore({ client, maxTrackedCallers, rememberRefusals: false, keyPrefix })
    const model = new ExpiringModel(maxTrackedCallers)
    const answers: [unknown, unknown][] = []
    for (const { kind, gap, caller, limit } of steps) {
      if (gap > 0) {
        const before = model.inspect().trackedCallers
        answers.push([client.eval(shorten, 1, `${keyPrefix}{0}:default:counters`, gap * 1000), 0])
        model.advance(gap * 1000)
        if (before > 0 && model.inspect().trackedCallers === 0) expired += 1
      }
      if (kind === 'acquire') answers.push([Promise.resolve(store.acquire(caller, limit)).then(rounded), rounded(model.acquire(caller, limit))])
      if (kind === 'peek') answers.push([store.peek(caller).then(rounded), rounded(model.peek(caller))])
      if (kind === 'forget') answers.push([store.forget(caller), model.forget(caller)])
      answers.push([store.inspect(), model.inspect()])
    }
    for (const [actual, expected] of answers) deepStrictEqual(await actual, expected)
  }), { numRuns: walks })
  t.ok(expired > walks / 2, `the key expired ${expired} times`)
})
