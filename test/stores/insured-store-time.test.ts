// How long an insured store waits for its primary, and the effect of a stalled event loop.
import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { VirtualClock } from '../../lib/testing.js'
import { answered, insure, manyTurns, pass } from '../support/insured.js'

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

t.test('a stall of the event loop uses at most half of the timeout', async (t) => {
  for (const [answerAt, count] of [[14, 77], [16, 1]] as const) {
    const clock = new VirtualClock()
    let stalled = 0
    const { primary, store } = insure({ clock: () => clock.now() + stalled, timers: clock })
    primary.manner = 'hangs'
    const asked = store.acquire('a', 5)
    stalled += 10_000
    clock.advance(7.5)
    await pass(clock, answerAt)
    await manyTurns()
    primary.answerNow()
    t.equal((await asked).count, count)
  }
})

t.test('an answer that is read within a few turns after the timeout is used', async (t) => {
  for (const [turns, count] of [[0, 77], [1, 77], [2, 77], [3, 1]] as const) {
    const { clock, primary, store } = insure()
    primary.manner = 'hangs'
    const asked = store.acquire('a', 5)
    clock.advance(30)
    for (let passed = 0; passed < turns; passed++) await turn()
    primary.answerNow()
    t.equal((await asked).count, count, `${turns} turns`)
  }
})

t.test('the store waits for a few turns after the last of several stalls, but the wait is bounded', async (t) => {
  for (const [stalls, turns, count] of [[1, 3, 77], [1, 4, 1], [5, 7, 77], [5, 8, 1], [13, 15, 77], [20, 15, 77], [20, 16, 1]] as const) {
    const clock = new VirtualClock()
    let stalled = 0
    const { primary, store } = insure({ clock: () => clock.now() + stalled, timers: clock })
    primary.manner = 'hangs'
    const asked = store.acquire('a', 5)
    clock.advance(30)
    for (let passed = 0; passed < turns; passed++) {
      if (passed < stalls) stalled += 10
      await turn()
    }
    primary.answerNow()
    t.equal((await asked).count, count, `${stalls} stalls, ${turns} turns`)
  }
})

t.test('a turn that takes only a small part of the timeout is not a stall', async (t) => {
  const clock = new VirtualClock()
  let busy = 0
  const { primary, store } = insure({ clock: () => clock.now() + busy, timers: clock })
  primary.manner = 'hangs'
  const asked = store.acquire('a', 5)
  clock.advance(30)
  for (let passed = 0; passed < 3; passed++) {
    busy += 7.5
    await turn()
  }
  primary.answerNow()
  t.equal((await asked).count, 1)
})

t.test('the wait ends even if the clock stops or is set back', async (t) => {
  let time = 0
  for (const step of [0, -1_000_000]) {
    const { clock, primary, store } = insure({ clock: () => { time += step; return time } })
    primary.manner = 'hangs'
    const asked = store.acquire('a', 5)
    await pass(clock, 59)
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
