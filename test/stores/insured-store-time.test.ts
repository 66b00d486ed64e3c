// How long an insured store waits for its primary, and the effect of a stalled event loop.
import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { VirtualClock } from '../../lib/testing/virtual-clock.js'
import { answered, demand, insure, pass } from '../support/told-store.js'
import { until } from '../support/until.js'

// After a time limit, a result that arrives within five turns of the event loop is used.
const moreThanGrace = 7

async function passTurns (turns: number): Promise<void> {
  for (let passed = 0; passed < turns; passed++) await turn()
}

/** An insured store whose primary hangs, and a request that waits for it. */
function wait (options?: Parameters<typeof insure>[0], clock?: VirtualClock) {
  const insured = insure(options, clock)
  insured.primary.manner = 'hangs'
  const asked = insured.store.acquire([demand('a')])
  return { ...insured, count: async () => (await answered(insured.clock, asked))[0]?.count }
}

for (const timeout of [0.5, 1, 30, 1_000]) {
  t.test(`the fallback is used after a timeout of ${timeout} ms, and not earlier`, async (t) => {
    const inTime = wait({ timeout })
    await pass(inTime.clock, Math.ceil(timeout) - 1)
    inTime.primary.answerNow()
    t.equal(await inTime.count(), 77, 'a result just before the timeout is used')
    t.equal(inTime.store.state, 'primary')

    const tooLate = wait({ timeout })
    tooLate.clock.advance(Math.ceil(timeout))
    await until('the primary has failed', () => tooLate.store.state === 'fallback')
    tooLate.primary.answerNow()
    t.equal(await tooLate.count(), 1, 'a later result is not used')
    t.equal(tooLate.store.state, 'fallback')
  })
}

t.test('a result that is read within a few turns after the timeout is used', async (t) => {
  for (const [turns, expected] of [[0, 77], [1, 77], [4, 77], [moreThanGrace, 1]] as const) {
    const { clock, primary, count } = wait()
    clock.advance(30)
    await passTurns(turns)
    primary.answerNow()
    t.equal(await count(), expected, `${turns} turns`)
  }
})

t.test(
  'the wait begins again after a stall, but not without end, nor if a timer is a little late',
  async (t) => {
    const long = 10_000
    const cases = [
      [0, long, 31, 1],
      [1, long, 29, 77],
      [1, long, 31, 1],
      [3, long, 29, 77],
      [3, long, 31, 1],
      [5, long, 1, 1],
      [1, 15, 0, 1]
    ] as const
    for (const [stalls, length, answerAt, expected] of cases) {
      const clock = new VirtualClock()
      let stalled = 0
      const { primary, count } = wait({ clock: () => clock.now() + stalled }, clock)
      for (let stall = 0; stall < stalls; stall++) {
        stalled += length
        clock.advance(30)
        await passTurns(moreThanGrace)
      }
      clock.advance(answerAt)
      await passTurns(moreThanGrace)
      primary.answerNow()
      t.equal(
        await count(),
        expected,
        `a result ${answerAt} ms after ${stalls} stalls of ${length} ms`
      )
    }
  }
)

t.test('no timer remains after a result', async (t) => {
  const pending = new Set<unknown>()
  const timers = {
    setTimeout () {
      const timer = {}
      pending.add(timer)
      return timer
    },
    clearTimeout (timer: unknown) {
      pending.delete(timer)
    }
  }
  const { primary, store } = insure({ timers })
  for (const manner of ['promises', 'rejects'] as const) {
    primary.manner = manner
    const asked = store.acquire([demand('a')])
    t.equal(pending.size, 1)
    await asked
    t.equal(pending.size, 0, manner)
  }
})
