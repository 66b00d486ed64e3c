// The Redis store on a real server, compared step by step with the independent model.
import { deepStrictEqual } from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import { RedisQuotaStore } from '../../lib/redis.js'
import { VirtualClock } from '../../lib/testing.js'
import { CounterModel } from '../support/counter-model.js'
import { assertProperty } from '../support/property.js'
import { walks } from '../support/random-steps.js'
import { startRedis } from '../support/redis-server.js'

const runs = Number(process.env.RANDOM_WALKS ?? 200)
const stepsPerRun = 500

// A failure is shrunk for as long as the test may take, and a busy machine needs longer than tap's default of 30 s.
t.test(`the Redis store has the same results as the model, in ${runs * stepsPerRun} random steps`, { timeout: 300_000 }, async (t) => {
  const { client } = await startRedis(t)
  // Once the server has cached the scripts, commands arrive in the order of the steps.
  const first = new RedisQuotaStore({ client })
  await first.acquire('a', 1)
  await first.peek('a')
  await first.forget('a')
  await first.inspect()

  const seen = { admitted: 0, rejected: 0, overflow: 0, sweeps: 0 }
  let walk = 0
  await assertProperty(fc.asyncProperty(walks(stepsPerRun), async ({ maxTrackedCallers, steps }) => {
    const clock = new VirtualClock()
    const store = new RedisQuotaStore({ client, clock: clock.now, maxTrackedCallers, rememberRefusals: false, keyPrefix: `walk-${++walk}:` })
    const model = new CounterModel(maxTrackedCallers)
    // All are sent without waiting for replies. One connection keeps their order, and each reads the clock when it is sent.
    const answers: [unknown, unknown][] = []
    for (const step of steps) {
      if (step.kind === 'clear') {
        answers.push([store.clearCounters(), model.clear()])
      } else if (step.kind === 'forget') {
        answers.push([store.forget(step.caller), model.forget(step.caller)])
      } else if (step.kind === 'peek') {
        clock.advance(step.gap)
        answers.push([store.peek(step.caller), model.peek(clock.now(), step.caller)])
      } else {
        clock.advance(step.gap)
        answers.push([store.acquire(step.caller, step.limit), model.acquire(clock.now(), step.caller, step.limit)])
      }
      answers.push([store.inspect(), model.inspect()])
    }
    for (const [actual, expected] of answers) deepStrictEqual(await actual, expected)
    for (const [, expected] of answers) tally(expected)
  }), { numRuns: runs })
  t.comment(JSON.stringify(seen))
  t.ok(Object.values(seen).every((count) => count > 4_000), 'every kind of step was taken often')

  function tally (expected: unknown): void {
    const { admitted, overflow, sweeps } = Object(expected)
    if (admitted === true) seen.admitted += 1
    if (admitted === false) seen.rejected += 1
    if (overflow === true) seen.overflow += 1
    if (sweeps > 0) seen.sweeps += 1
  }
})
