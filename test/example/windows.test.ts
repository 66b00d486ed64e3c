// What the example's page shows of windows: made of decisions alone, bounded, and gone when the window is.
import t from 'tap'
import { VirtualClock } from '../lib/testing.js'
import type { QuotaDecision } from '../lib/index.js'

const { QuotaWindows }: typeof import('../examples/service/quota-windows.js') = await import(new URL('../build/examples/service/quota-windows.js', import.meta.url).href)

function decision (callerKey: string | null, more: Partial<QuotaDecision> = {}): QuotaDecision {
  return { outcome: 'admitted', operation: { method: 'POST', path: '/api/analyze' }, enforced: true, limit: 3, callerKey, count: 1, windowRemaining: 60_000, overflow: false, ...more }
}

t.test('a window holds what was admitted and refused, and when', async (t) => {
  const clock = new VirtualClock()
  const windows = new QuotaWindows(clock.now)
  windows.record(decision('a'.repeat(64)))
  clock.advance(10_000)
  windows.record(decision('a'.repeat(64), { count: 2, windowRemaining: 50_000.25 }))
  windows.record(decision('a'.repeat(64), { outcome: 'rejected', count: 2, limit: 2, windowRemaining: 49_999.5 }))
  windows.record(decision('b'.repeat(64), { outcome: 'rejected', count: 0 }))
  t.match(windows.of('a'.repeat(64)), { caller: 'aaaaaaaa', admitted: 2, refused: 1, limit: 2, remaining: 50_000, marks: [{ at: 0, admitted: true }, { at: 9999.75 }, { at: 10_000.5, admitted: false }] })
  t.same(windows.all().map(({ caller }) => caller), ['aaaaaaaa', 'bbbbbbbb'], 'most requests first')
  t.equal(windows.of('c'.repeat(64)), null)

  clock.advance(50_000)
  t.equal(windows.of('a'.repeat(64)), null, 'the window has ended')
  t.same(windows.all().map(({ caller }) => caller), ['bbbbbbbb'])
  windows.record(decision('b'.repeat(64), { windowRemaining: 59_000 }))
  t.match(windows.of('b'.repeat(64)), { admitted: 1, refused: 0, marks: { length: 1 } }, 'a new window starts anew')
})

t.test('callers without a counter of their own are shown as one', async (t) => {
  const windows = new QuotaWindows(() => 0)
  windows.record(decision('a'.repeat(64), { overflow: true }))
  windows.record(decision('b'.repeat(64), { overflow: true, count: 2 }))
  t.match(windows.overflow(), { caller: 'overflow', admitted: 2 })
  t.same(windows.all(), [])
})

t.test('decisions about nobody open no window', async (t) => {
  const windows = new QuotaWindows(() => 0)
  windows.record(decision(null, { outcome: 'unauthenticated', count: null, windowRemaining: null }))
  windows.record(decision('a'.repeat(64), { outcome: 'unavailable', count: null, windowRemaining: null }))
  t.same([windows.all(), windows.overflow()], [[], null])
})

t.test('neither callers nor marks grow without bound', async (t) => {
  const windows = new QuotaWindows(() => 0, { callers: 3, marks: 2 })
  for (const caller of 'abcde') for (let request = 1; request <= 4; request++) windows.record(decision(caller.repeat(64), { count: request }))
  t.same(windows.all().map(({ caller, marks }) => [caller, marks.length]), [['cccccccc', 2], ['dddddddd', 2], ['eeeeeeee', 2]])
})
