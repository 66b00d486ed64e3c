import { deepStrictEqual, ok, strictEqual } from 'node:assert/strict'
import type { Acquisition } from '../store/store.js'
import { admitted, assertResult, burst, check, everyShard, inTurn, largeCap, minute, numberAdmitted, smallCap, unlimited, type Visit } from './checks.js'

/** Checks of the rules in docs/rules.md, "Sweep" and "Caller cap and overflow counter". */
export const boundsChecks = [
  check('a sweep removes a caller one window and 60 s after its last request, before the caller of the request is looked up', smallCap, async (subject) => {
    const { tracked } = await subject.fill()
    subject.clock.advance(subject.retention)
    const [first, ...later] = await subject.visit(everyShard)
    strictEqual(first?.acquisition.overflow, false)
    strictEqual(later.filter(({ acquisition }) => !acquisition.overflow).length + 1, tracked.length)
  }),
  check('a sweep removes no caller earlier, whether its last request was admitted, was rejected or had a cost of 0', smallCap, async (subject) => {
    const { clock, window, retention } = subject
    for (const [limit, cost] of [[unlimited, 1], [1, 1], [unlimited, 0]] as const) {
      const { tracked } = await subject.fill()
      clock.advance(window - 1)
      for (const { number } of tracked) await subject.acquire(number, limit, cost)
      clock.advance(retention - 1)
      strictEqual(await subject.trackedOf(everyShard), 0)
    }
  }),
  check('sweeps 60 s after the previous sweep, and no earlier', largeCap, async (subject) => {
    const counts = await inTurn([0, minute - 1, 1, minute - 1, 1], async (gap) => {
      subject.clock.advance(gap)
      await subject.visit(0)
      return (await subject.store.inspect(subject.counters)).sweeps
    })
    const shards = Number(counts[2])
    ok(shards > 0)
    deepStrictEqual(counts, [0, 0, shards, shards, 2 * shards])
  }),
  check('inspect returns the number of tracked callers, without those that a sweep removed', smallCap, async (subject) => {
    const { tracked } = await subject.fill()
    for (const first of [everyShard, 2 * everyShard]) {
      strictEqual((await subject.store.inspect(subject.counters)).trackedCallers, tracked.length)
      subject.clock.advance(subject.retention)
      await subject.visit(first)
    }
  }),
  check('tracks no more callers than the caller cap, and the others share the overflow counter', smallCap, async (subject) => {
    assertBounds(await subject.visit(0, 1))
  }),
  check('the overflow counter has the same window and limit as other counters', smallCap, async (subject) => {
    const { clock, window } = subject
    const { overflowing: [{ number, acquisition: first }] } = await subject.fill()
    assertResult(first, { ...admitted(1, window), overflow: true })
    clock.advance(window - 1)
    const { count } = await subject.acquire(number)
    ok(count > 1)
    assertResult(await subject.acquire(number, count + 3, 3), { admitted: true, count: count + 3, windowRemaining: 1, overflow: true })
    assertResult(await subject.acquire(number, count + 3), { admitted: false, count: count + 3, windowRemaining: 1, overflow: true })
    clock.advance(1)
    assertResult(await subject.acquire(number, 1), { ...admitted(1, window), overflow: true })
  }),
  check('callers that have a counter keep using it after the caller cap is reached', smallCap, async (subject) => {
    const { tracked } = await subject.fill()
    for (const { number } of tracked) assertResult(await subject.acquire(number, 2), admitted(2, subject.window))
  }),
  check('clearCounters removes all counters and the overflow counter, and resets the number of sweeps and the interval between them', smallCap, async (subject) => {
    const { clock, store, counters } = subject
    const before = await subject.visit(0, 1)
    clock.advance(minute)
    await subject.visit(everyShard, 1)
    clock.advance(minute / 2)
    await store.clearCounters()
    deepStrictEqual({ ...await store.inspect(counters) }, { trackedCallers: 0, sweeps: 0 })
    const after = await subject.visit(0, 1)
    for (const [index, { acquisition: { admitted, count, windowRemaining, overflow } }] of before.entries()) {
      const actual = after[index]?.acquisition
      if (actual !== undefined) assertResult(actual, { admitted, count, windowRemaining, overflow } as Acquisition)
    }
    clock.advance(minute / 2)
    await subject.visit(0, 1)
    strictEqual((await store.inspect(counters)).sweeps, 0)
  }),
  check('tracks no more callers than the caller cap, and the others share the overflow counter, even if all of them arrive at once', smallCap, async (subject) => {
    for (const first of [0, everyShard]) {
      assertBounds(await burst(async (index) => ({ number: first + index, acquisition: await subject.acquire(first + index, 1) })))
      subject.clock.advance(subject.retention)
    }
  })
]

/** Asserts the bounds of a filled store whose callers sent one request each, with a limit of 1. */
function assertBounds (visits: readonly Visit[]): void {
  const overflowing = visits.filter(({ acquisition }) => acquisition.overflow)
  const tracked = visits.length - overflowing.length
  const admittedByOverflow = numberAdmitted(overflowing.map(({ acquisition }) => acquisition))
  ok(tracked >= 1 && tracked <= smallCap, `${tracked} callers got a counter of their own, and the caller cap is ${smallCap}`)
  ok(admittedByOverflow >= 1 && admittedByOverflow <= smallCap, `the overflow counters admitted ${admittedByOverflow} requests instead of 1 each`)
}
