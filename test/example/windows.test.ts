// What the example shows about windows: taken from decisions and from the store, bounded, and removed when the window ends.
import t from 'tap'
import type { CountedDecision, QuotaDecision } from '../../lib/index.js'
import { VirtualClock } from '../../lib/testing.js'
import { QuotaWindows } from '../../examples/service/quota-windows.js'

const counted = { outcome: 'admitted', quota: 'default', unit: 'requests', window: 60_000, reason: null, operation: { method: 'POST', path: '/api/analyze' }, enforced: true, limit: 3, count: 1, windowRemaining: 60_000, overflow: false } as const

const decision = (callerKey: string, more: Partial<CountedDecision> = {}): QuotaDecision => ({ ...counted, callerKey, ...more })
const standing = (windowRemaining: number | null, overflow = false) => ({ windowRemaining, overflow })
const [alice, bob] = ['a'.repeat(64), 'b'.repeat(64)]

t.test('a window contains the admitted and rejected requests, and their times', async (t) => {
  const clock = new VirtualClock()
  const windows = new QuotaWindows(clock.now)
  windows.record(decision(alice))
  clock.advance(10_000)
  windows.record(decision(alice, { count: 2, windowRemaining: 50_000.25 }))
  windows.record(decision(alice, { outcome: 'rejected', count: 2, windowRemaining: 49_999.5 }))
  windows.record(decision(bob, { outcome: 'rejected', count: 0 }))
  t.match(windows.all(), [
    { caller: 'aaaaaaaa', digest: alice, admitted: 2, rejected: 1, remaining: 50_000, marks: [{ at: 0, admitted: true }, { at: 9999.75 }, { at: 10_000.5, admitted: false }] },
    { caller: 'bbbbbbbb', digest: bob, rejected: 1 }
  ], 'most requests first')

  clock.advance(50_000)
  t.same(windows.all().map(({ caller }) => caller), ['bbbbbbbb'], 'the window has ended')
  windows.record(decision(bob, { windowRemaining: 59_000 }))
  t.match(windows.all(), [{ caller: 'bbbbbbbb', admitted: 1, rejected: 0, marks: { length: 1 } }], 'the counts of a new window start from 0')
})

t.test('the requests of the current window are those that this instance has seen', async (t) => {
  const clock = new VirtualClock()
  const windows = new QuotaWindows(clock.now)
  const none = { rejected: 0, marks: [] }
  t.same(windows.of(alice, standing(null)), none, 'no window is open')
  t.same(windows.of(alice, standing(40_000)), none, 'another instance admitted them')
  windows.record(decision(alice))
  windows.record(decision(alice, { outcome: 'rejected' }))
  windows.record(decision(alice, { quota: 'tokens', outcome: 'rejected' }))
  t.same(windows.of(alice, standing(59_990)), { rejected: 1, marks: [{ at: 0, admitted: true }, { at: 0, admitted: false }] })
  clock.advance(40_000)
  t.same(windows.of(alice, standing(60_000)), none, 'the decisions that were seen belong to an earlier window')
  windows.record(decision(bob, { overflow: true }))
  t.match(windows.of(bob, standing(60_000, true)), { marks: { length: 1 } })
})

t.test('callers without a counter of their own are shown as one entry', async (t) => {
  const windows = new QuotaWindows(() => 0)
  windows.record(decision(alice, { overflow: true }))
  windows.record(decision(bob, { overflow: true, count: 2 }))
  t.match(windows.overflow(), { caller: 'overflow', admitted: 2 })
  t.same(windows.all(), [])
})

t.test('decisions without a count open no window', async (t) => {
  const windows = new QuotaWindows(() => 0)
  windows.record({ ...counted, outcome: 'unauthenticated', reason: 'anonymous', callerKey: null, count: null, windowRemaining: null })
  windows.record({ ...counted, outcome: 'unavailable', callerKey: alice, count: null, windowRemaining: null })
  t.same([windows.all(), windows.overflow()], [[], null])
})

t.test('the numbers of callers and of marks are bounded', async (t) => {
  const windows = new QuotaWindows(() => 0, { callers: 3, marks: 2 })
  for (const caller of 'abcde') for (let request = 1; request <= 4; request++) windows.record(decision(caller.repeat(64), { count: request }))
  t.same(windows.all().map(({ caller, marks }) => [caller, marks.length]), [['cccccccc', 2], ['dddddddd', 2], ['eeeeeeee', 2]])
})
