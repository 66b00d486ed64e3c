import { deepStrictEqual, ok, strictEqual } from 'node:assert/strict'
import { admitted, burst, caller, check, everyShard, fill, inTurn, largeCap, numberAdmitted, smallCap, trackedOf, unlimited, visit } from './checks.js'

/** Checks of the rules in docs/rules.md, "Sweep" and "Caller cap and overflow counter". */
export const boundsChecks = [
  check('a sweep removes a caller one window and 60 s after its last request, before the caller of the request is looked up', smallCap, [], async ({ store, clock, retention }) => {
    const { tracked } = await fill(store)
    clock.advance(retention)
    const later = await visit(store, everyShard)
    strictEqual(later[0]?.overflow, false)
    strictEqual(later.filter(({ overflow }) => !overflow).length, tracked.length)
  }),
  check('a sweep removes no caller earlier, whether its last request was admitted, was rejected or had a cost of 0', smallCap, [], async ({ store, clock, window, retention }) => {
    for (const [limit, cost] of [[unlimited, 1], [1, 1], [unlimited, 0]] as const) {
      const { tracked } = await fill(store)
      clock.advance(window - 1)
      for (const { caller } of tracked) await store.acquire(caller, limit, cost)
      clock.advance(retention - 1)
      strictEqual(await trackedOf(store, everyShard), 0)
    }
  }),
  check('sweeps 60 s after the previous sweep, and no earlier', largeCap, ['inspect'], async ({ store, clock }) => {
    const counts = await inTurn([0, 59_999, 1, 59_999, 1], async (gap) => {
      clock.advance(gap)
      await visit(store, 0)
      return (await store.inspect()).sweeps
    })
    const shards = Number(counts[2])
    ok(shards > 0)
    deepStrictEqual(counts, [0, 0, shards, shards, 2 * shards])
  }),
  check('inspect returns the number of tracked callers, without those that a sweep removed', smallCap, ['inspect'], async ({ store, clock, retention }) => {
    const { tracked } = await fill(store)
    strictEqual((await store.inspect()).trackedCallers, tracked.length)
    clock.advance(retention)
    await visit(store, everyShard)
    strictEqual((await store.inspect()).trackedCallers, tracked.length)
  }),
  check('tracks no more callers than the caller cap, and the others share the overflow counter', smallCap, [], async ({ store }) => {
    const { tracked, overflowing } = await fill(store, 1)
    assertBounds(tracked.length, numberAdmitted(overflowing))
  }),
  check('the overflow counter has the same window and limit as other counters', smallCap, [], async ({ store, clock, window }) => {
    const { overflowing: [{ caller, ...first }] } = await fill(store)
    deepStrictEqual(first, { ...admitted(1, window), overflow: true })
    clock.advance(window - 1)
    const { count } = await store.acquire(caller, unlimited)
    ok(count > 1)
    deepStrictEqual(await store.acquire(caller, count + 1, 3), { admitted: true, count: count + 3, windowRemaining: 1, overflow: true })
    deepStrictEqual(await store.acquire(caller, count + 3), { admitted: false, count: count + 3, windowRemaining: 1, overflow: true })
    clock.advance(1)
    deepStrictEqual(await store.acquire(caller, 1), first)
  }),
  check('callers that have a counter keep using it after the caller cap is reached', smallCap, [], async ({ store, window }) => {
    const { tracked } = await fill(store)
    for (const { caller } of tracked) deepStrictEqual(await store.acquire(caller, 2), admitted(2, window))
  }),
  check('clearCounters removes all counters and the overflow counter, and resets the number of sweeps and the interval between them', smallCap, ['clearCounters', 'inspect'], async ({ store, clock }) => {
    const before = await visit(store, 0, 1)
    clock.advance(60_000)
    await visit(store, everyShard, 1)
    clock.advance(30_000)
    await store.clearCounters()
    deepStrictEqual(await store.inspect(), { trackedCallers: 0, sweeps: 0 })
    deepStrictEqual(await visit(store, 0, 1), before)
    clock.advance(30_000)
    await visit(store, 0, 1)
    strictEqual((await store.inspect()).sweeps, 0)
  }),
  check('admits exactly as many concurrent requests as the limit allows: on the overflow counter', smallCap, [], async ({ store, clock, window }) => {
    const { overflowing: [{ caller }] } = await fill(store)
    const { count } = await store.acquire(caller, unlimited)
    strictEqual(numberAdmitted(await burst(() => store.acquire(caller, count + 5))), 5)
    clock.advance(window)
    strictEqual(numberAdmitted(await burst(() => store.acquire(caller, 5))), 5)
  }),
  check('tracks no more callers than the caller cap, and the others share the overflow counter, even if all of them arrive at once', smallCap, [], async ({ store, clock, retention }) => {
    for (const first of [0, everyShard]) {
      const visits = await burst((index) => store.acquire(caller(first + index), 1))
      const overflowing = visits.filter(({ overflow }) => overflow)
      ok(overflowing.length < visits.length, 'no caller got a counter of its own')
      assertBounds(visits.length - overflowing.length, numberAdmitted(overflowing))
      clock.advance(retention)
    }
  })
]

/** Asserts the bounds of a filled store whose callers sent one request each, with a limit of 1. */
function assertBounds (tracked: number, admittedByOverflow: number): void {
  ok(tracked <= smallCap, `${tracked} callers got a counter of their own, and the caller cap is ${smallCap}`)
  ok(admittedByOverflow >= 1 && admittedByOverflow <= smallCap, `the overflow counters admitted ${admittedByOverflow} requests instead of 1 each`)
}
