import { deepStrictEqual, ok, strictEqual } from 'node:assert/strict'
import { unlimited } from '../store/counter.js'
import { admitted, assertResult, burst, check, checkAtCap, everyShard, inTurn, minute, smallCap } from './checks.js'

/** Checks of the rules in docs/rules.md, "Sweep" and "Caller cap and overflow counter". */
export const boundsChecks = [
  checkAtCap('a sweep removes a caller one window and 60 s after its last request, before a caller is looked up', async (subject) => {
    const { tracked } = await subject.fill()
    subject.clock.advance(subject.retention)
    const [first, ...later] = await subject.visit(everyShard)
    strictEqual(first?.acquisition.overflow, false)
    strictEqual(later.filter(({ acquisition }) => !acquisition.overflow).length + 1, tracked.length)
  }),
  checkAtCap('a sweep removes no caller earlier, whether its last request was admitted or rejected or cost nothing', async (subject) => {
    const { clock, window, retention } = subject
    for (const [limit, cost] of [[unlimited, 1], [1, 1], [unlimited, 0]] as const) {
      const { tracked } = await subject.fill()
      clock.advance(window - 1)
      for (const { number } of tracked) await subject.acquire(number, limit, cost)
      clock.advance(retention - 1)
      strictEqual(await subject.trackedOf(everyShard), 0)
    }
  }),
  check('sweeps 60 s after the previous sweep, and no earlier', async (subject) => {
    const counts = await inTurn([0, minute - 1, 1, minute - 1, 1], async (gap) => {
      subject.clock.advance(gap)
      await subject.visit(0)
      return (await subject.inspect()).sweeps
    })
    const shards = Number(counts[2])
    ok(shards > 0)
    deepStrictEqual(counts, [0, 0, shards, shards, 2 * shards])
  }),
  checkAtCap('tracks no more callers than the cap, even if all arrive at once, and others share the overflow counter', async (subject) => {
    for (const first of [0, everyShard]) {
      const all = await burst((index) => subject.acquire(first + index, 1))
      const overflowing = all.filter(({ overflow }) => overflow)
      const tracked = all.length - overflowing.length
      ok(tracked >= 1 && tracked <= smallCap, `${tracked} callers got a counter of their own, and the caller cap is ${smallCap}`)
      const { length } = overflowing.filter(({ admitted }) => admitted)
      ok(length >= 1 && length <= smallCap, `the overflow counters admitted ${length} requests instead of 1 each`)
      subject.clock.advance(subject.retention)
    }
  }),
  checkAtCap('inspect returns the number of tracked callers, without those that a sweep removed', async (subject) => {
    for (const first of [0, everyShard]) {
      const tracked = await subject.trackedOf(first)
      strictEqual((await subject.inspect()).trackedCallers, tracked)
      subject.clock.advance(subject.retention)
    }
  }),
  checkAtCap('the overflow counter has the same window and limit as others, and callers with a counter keep using it', async (subject) => {
    const { clock, window } = subject
    const { tracked, overflowing: [{ number, acquisition: first }] } = await subject.fill()
    assertResult(first, { ...admitted(1, window), overflow: true })
    clock.advance(window - 1)
    const { count } = await subject.acquire(number)
    ok(count > 1)
    assertResult(await subject.acquire(number, count + 3, 3), { admitted: true, count: count + 3, windowRemaining: 1, overflow: true })
    assertResult(await subject.acquire(number, count + 3), { admitted: false, count: count + 3, windowRemaining: 1, overflow: true })
    for (const { number } of tracked) assertResult(await subject.acquire(number, 2), admitted(2, 1))
    clock.advance(1)
    assertResult(await subject.acquire(number, 1), { ...admitted(1, window), overflow: true })
  }),
  checkAtCap('clearCounters removes all counters of every quota, and resets the sweeps and the interval between them', async (subject) => {
    const { clock, store } = subject
    const quotas = [subject, subject.quota('chat.requests.minute', minute)]
    const visits = () => inTurn(quotas, (quota) => quota.visit(0, 1))
    const before = await visits()
    clock.advance(minute)
    await inTurn(quotas, (quota) => quota.visit(everyShard, 1))
    clock.advance(minute / 2)
    await store.clearCounters()
    for (const quota of quotas) deepStrictEqual(await quota.inspect(), { trackedCallers: 0, sweeps: 0 })
    for (const [index, { acquisition }] of (await visits()).flat().entries()) {
      const { admitted, count, windowRemaining, overflow } = acquisition
      assertResult(before.flat()[index]?.acquisition, { admitted, count, windowRemaining, overflow })
    }
    clock.advance(minute / 2)
    await subject.visit(0, 1)
    strictEqual((await subject.inspect()).sweeps, 0)
  })
]
