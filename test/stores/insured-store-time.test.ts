// How long an insured store waits for its primary, and the effect of a stalled event loop.
import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { VirtualClock } from '../../lib/testing.js'
import { answered, insure, manyTurns, pass } from '../support/told-store.js'

for (const timeout of [0.5, 1, 3, 30, 100, 1_000]) {
  t.test(`the fallback is used after a timeout of ${timeout} ms, and not earlier`, async (t) => {
    const { clock, primary, store } = insure({ timeout })
    primary.manner = 'hangs'
    const inTime = store.acquire('a', 5)
    await pass(clock, Math.ceil(timeout) - 1)
    primary.answerNow()
    t.equal((await inTime).count, 77, 'an answer just before the timeout is used')
    t.equal(store.state, 'primary')

    const tooLate = store.acquire('a', 5)
    clock.advance(Math.ceil(timeout))
    await manyTurns()
    primary.answerNow()
    t.equal((await tooLate).count, 1, 'a later answer is not used')
    t.equal(store.state, 'fallback')
  })
}

t.test('an answer that is read within a few turns after the timeout is used', async (t) => {
  for (const [turns, count] of [[0, 77], [1, 77], [4, 77], [7, 1]] as const) {
    const { clock, primary, store } = insure()
    primary.manner = 'hangs'
    const asked = store.acquire('a', 5)
    clock.advance(30)
    for (let passed = 0; passed < turns; passed++) await turn()
    primary.answerNow()
    t.equal((await asked).count, count, `${turns} turns`)
  }
})

t.test('the wait begins again after a stall of the event loop, but not without end, and not if a timer is only a little late', async (t) => {
  const long = 10_000
  for (const [stalls, length, answerAt, count] of [[0, long, 31, 1], [1, long, 29, 77], [1, long, 31, 1], [3, long, 29, 77], [3, long, 31, 1], [5, long, 1, 1], [1, 15, 0, 1]] as const) {
    const clock = new VirtualClock()
    let stalled = 0
    const { primary, store } = insure({ clock: () => clock.now() + stalled, timers: clock })
    primary.manner = 'hangs'
    const asked = store.acquire('a', 5)
    for (let stall = 0; stall < stalls; stall++) {
      stalled += length
      clock.advance(30)
      await manyTurns()
    }
    clock.advance(answerAt)
    await manyTurns()
    primary.answerNow()
    t.equal((await asked).count, count, `an answer ${answerAt} ms after ${stalls} stalls of ${length} ms`)
  }
})

t.test('the wait ends even if the clock stops or is set back', async (t) => {
  let time = 0
  for (const step of [0, -1_000_000]) {
    const { clock, primary, store } = insure({ clock: () => { time += step; return time } })
    primary.manner = 'hangs'
    const asked = store.acquire('a', 5)
    await pass(clock, 29)
    t.equal(store.state, 'primary')
    await pass(clock, 1)
    t.equal((await answered(clock, asked)).count, 1)
  }
})

t.test('no timer remains after an answer', async (t) => {
  const pending = new Set<unknown>()
  const clock = new VirtualClock()
  const timers = {
    setTimeout (callback: () => void, delay: number): unknown {
      const timer = clock.setTimeout(callback, delay)
      pending.add(timer)
      return timer
    },
    clearTimeout (timer: unknown): void {
      pending.delete(timer)
      clock.clearTimeout(timer)
    }
  }
  const { primary, store } = insure({ timers })
  for (const manner of ['promises', 'rejects'] as const) {
    primary.manner = manner
    await store.acquire('a', 5)
  }
  t.equal(pending.size, 0)
})
