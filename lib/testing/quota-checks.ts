import { deepStrictEqual, strictEqual } from 'node:assert/strict'
import type { Acquisition } from '../store/store.js'
import { assertResult, caller, check, checkAtCap, day, hour, inTurn, minute, type Subject } from './checks.js'

/** Checks of several quotas in a store, which share nothing, and of windows that end with the day of a time zone. */
export const quotaChecks = [
  checkAtCap('each quota has counters, a caller cap and an overflow counter of its own', async (subject) => {
    const [first, ...others] = await inTurn(quotasOf(subject), async (quota) => {
      const { tracked, overflowing } = await quota.fill()
      return [...tracked, overflowing[0]].map(({ acquisition }) => acquisition.count)
    })
    for (const counts of others) deepStrictEqual(counts, first)
  }),
  check('each quota has sweeps of its own', async (subject) => {
    const quotas = quotasOf(subject)
    for (const quota of quotas) {
      await quota.visit(0)
      subject.clock.advance(minute / 2)
    }
    await inTurn(quotas, (quota) => quota.visit(0))
    deepStrictEqual(await inTurn(quotas, async (quota) => (await quota.inspect()).sweeps > 0), [true, true, false])
  }),
  check('forget removes the counter of one quota only, and list returns the callers of one quota', async (subject) => {
    const quotas = quotasOf(subject)
    const counts = () => inTurn(quotas, async (quota) => (await quota.acquire(1)).count)
    await counts()
    await quotas[1]?.forget(1)
    deepStrictEqual(await inTurn(quotas, async (quota) => (await quota.list()).size), [1, 0, 1])
    deepStrictEqual(await counts(), [2, 1, 2])
  }),
  check('opens a new window of a time zone for a later end only, whatever the time', async (subject) => {
    const today = Date.now() + day
    for (const [demanded, count, end] of [[0, 1, 0], [0, 2, 0], [-hour, 3, 0], [1, 1, 1], [0, 2, 1], [day, 1, day]] as const) {
      subject.clock.advance(2 * hour)
      assertResult(await acquireUntil(subject, today + demanded), { admitted: true, count, windowRemaining: null, end: today + end })
    }
    strictEqual((await acquireUntil(subject, today + day, 2)).admitted, true)
    strictEqual((await acquireUntil(subject, today, 2)).admitted, false)
  }),
  check('peek, list and release follow the windows of a time zone', async (subject) => {
    const { store } = subject
    const today = Date.now() + day
    const { counters } = zoned(subject, today)
    const acquisition = await acquireUntil(subject, today)
    for (const end of [today - hour, today]) assertResult(await store.peek(zoned(subject, end)), { count: 1, end: today })
    strictEqual(await store.peek(zoned(subject, today + 1)), null)
    deepStrictEqual(await subject.quota(counters, day).list(), new Map([[caller(1), { count: 1, windowRemaining: null }]]))
    await store.release(acquisition, 1)
    const again = await acquireUntil(subject, today)
    strictEqual(again.count, 1)
    await acquireUntil(subject, today + day)
    await store.release(again, 1)
    assertResult(await store.peek(zoned(subject, today + day)), { count: 1, end: today + day })
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
