// What the memory store does by the wall clock: the counters of days, weeks and months.
import t from 'tap'
import { MemoryQuotaStore } from '../../lib/store/memory/memory-store.js'
import { VirtualClock } from '../../lib/testing/virtual-clock.js'
import { demand } from '../support/demands.js'
import { setWallClock } from '../support/time.js'

const minute = 60_000
const month = 31 * 86_400_000

t.test('the callers of a month do not fill the cap of the next one', async (t) => {
  const setTime = setWallClock(t)
  const clock = new VirtualClock()
  const store = new MemoryQuotaStore({ clock: clock.now, maxTrackedCallers: 3 })
  const start = Date.parse('2026-10-01')
  const next = Date.parse('2026-11-01')
  const counters = 'chat.tokens.month'
  /** Returns for each caller whether it uses the overflow counter. */
  const visit = (begins: number, ...callers: string[]) =>
    callers.map((caller) => {
      const window = { window: month, start: begins, end: begins + month }
      const [acquisition] = store.acquire([demand(caller, { counters, ...window })])
      return acquisition?.overflow === true
    })
  setTime(next - minute)
  t.same(visit(start, 'a', 'b', 'c', 'd'), [false, false, false, true])
  for (const passed of [minute, minute - 1]) {
    clock.advance(passed)
    setTime(next + passed - minute)
    t.same(visit(next, 'e'), [true], 'the end of the window is not a minute ago')
  }
  t.equal(store.inspect(counters).trackedCallers, 3)
  clock.advance(minute)
  setTime(next + minute)
  t.same(visit(next, 'e', 'f', 'g', 'h'), [false, false, false, true])
})

t.test('a counter of a month is kept until it ends, however long nothing was asked', async (t) => {
  const setTime = setWallClock(t)
  const clock = new VirtualClock()
  const store = new MemoryQuotaStore({ clock: clock.now })
  const start = setTime('2026-10-01')
  const end = start + month
  const asked = demand('a', { window: month, start, end })
  store.acquire([asked])
  // The clock of the process that the window is measured by stands still while it sleeps.
  clock.advance(2 * month)
  setTime(end - 1)
  store.acquire([demand('b', { window: month, start, end })])
  t.match(store.peek(asked), { count: 1, end })
  t.equal(store.list('default').callers.length, 2)
  setTime(end)
  t.equal(store.list('default').callers.length, 0)
})

t.test('a settlement with a text is not applied after the end of a month', async (t) => {
  const setTime = setWallClock(t)
  const store = new MemoryQuotaStore()
  const start = setTime('2026-10-01')
  const end = start + month
  const [acquisition] = store.acquire([demand('a', { window: month, start, end })])
  const settle = (once: string) => store.settle(acquisition?.receipt, { count: 0, held: 0 }, once)
  setTime(end - 1)
  t.equal(settle('a'), true)
  t.equal(settle('a'), false)
  setTime(end)
  t.equal(settle('b'), false)
})
