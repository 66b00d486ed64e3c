import { deepStrictEqual, strictEqual } from 'node:assert/strict'
import type { Acquisition } from '../store/store.js'
import { caller, check, day, hour, inTurn, largeCap, minute, smallCap, type Subject } from './checks.js'

/** Checks of several quotas in a store, which share nothing, and of windows that end with the day of a time zone. */
export const quotaChecks = [
  check('each quota has counters, a caller cap and an overflow counter of its own', smallCap, async (subject) => {
    const [first, ...others] = await inTurn(quotasOf(subject), async (quota) => {
      const { tracked, overflowing } = await quota.fill()
      return [...tracked, overflowing[0]].map(({ acquisition }) => acquisition.count)
    })
    for (const counts of others) deepStrictEqual(counts, first)
  }),
  check('each quota has sweeps of its own', largeCap, async (subject) => {
    const quotas = quotasOf(subject)
    for (const quota of quotas) {
      await quota.visit(0)
      subject.clock.advance(minute / 2)
    }
    const sweeps = await inTurn(quotas, async (quota) => {
      await quota.visit(0)
      return (await quota.store.inspect(quota.counters)).sweeps > 0
    })
    deepStrictEqual(sweeps, [true, true, false])
  }),
  check('forget removes the counter of one quota only, and list returns the callers of one quota', largeCap, async (subject) => {
    const quotas = quotasOf(subject)
    const counts = () => inTurn(quotas, async (quota) => (await quota.acquire(1)).count)
    await counts()
    await subject.store.forget(caller(1), String(quotas[1]?.counters))
    deepStrictEqual(await inTurn(quotas, async (quota) => (await quota.list()).size), [1, 0, 1])
    deepStrictEqual(await counts(), [2, 1, 2])
  }),
  check('clearCounters removes the counters of each quota', largeCap, async (subject) => {
    const visits = () => inTurn(quotasOf(subject), (quota) => quota.visit(0))
    await visits()
    await subject.store.clearCounters()
    for (const { acquisition } of (await visits()).flat()) strictEqual(acquisition.count, 1)
  }),
  check('opens a new window of a time zone for a later end only, whatever the time', largeCap, async (subject) => {
    const today = Date.now() + day
    const results = await inTurn([today, today, today - hour, today + 1, today, today + day], async (end) => {
      subject.clock.advance(2 * hour)
      return acquireUntil(subject, end)
    })
    deepStrictEqual(results.map(({ count, windowRemaining, end }) => [count, windowRemaining, end]), [
      [1, null, today], [2, null, today], [3, null, today], [1, null, today + 1], [2, null, today + 1], [1, null, today + day]
    ])
    strictEqual((await acquireUntil(subject, today + day, 2)).admitted, true)
    strictEqual((await acquireUntil(subject, today, 2)).admitted, false)
  }),
  check('peek, list and release follow the windows of a time zone', largeCap, async (subject) => {
    const { store } = subject
    const today = Date.now() + day
    const peeked = async (end: number) => { const result = await store.peek(zoned(subject, end)); return result && [result.count, result.end] }
    const acquisition = await acquireUntil(subject, today)
    deepStrictEqual(await inTurn([today - hour, today, today + 1], peeked), [[1, today], [1, today], null])
    deepStrictEqual(await subject.quota(zoned(subject, today).counters, day).list(), new Map([[caller(1), { count: 1, windowRemaining: null }]]))
    await store.release(acquisition, 1)
    deepStrictEqual(await peeked(today), [0, today])
    const [first] = await inTurn([today, today + day], (end) => acquireUntil(subject, end))
    if (first !== undefined) await store.release(first, 1)
    deepStrictEqual(await peeked(today + day), [1, today + day])
  })
]

/** The quota of the subject and two others of the store. */
function quotasOf (subject: Subject): Subject[] {
  return [subject, subject.quota('chat.requests.minute', minute), subject.quota('chat-2.requests.hour', hour)]
}

function zoned (subject: Subject, end: number, limit?: number) {
  return { ...subject.demand(1, limit), counters: 'budget.requests.day.Europe/Berlin', window: 25 * hour, end }
}

function acquireUntil (subject: Subject, end: number, limit?: number): Promise<Acquisition> {
  return subject.acquireOne(zoned(subject, end, limit))
}
