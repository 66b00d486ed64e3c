// Which of its two stores an insured store uses.
import t from 'tap'
import { hasFunction } from '../../lib/errors.js'
import { InsuredQuotaStore, MemoryQuotaStore } from '../../lib/index.js'
import { nodeTimers } from '../../lib/store/time-limit.js'
import { VirtualClock } from '../../lib/testing.js'
import { answered, insure, pass, publishedChanges, ToldStore, toldAnswer } from '../support/told-store.js'

const rejection = { admitted: false, count: 5, windowRemaining: 1_000, overflow: false }

t.test('the primary answers as long as it works, and synchronously if it returns no promise', async (t) => {
  const { primary, store } = insure()
  t.equal((await store.acquire('a', 5)).count, 77)
  primary.manner = 'answers'
  t.same(store.acquire('a', 5), toldAnswer)
  t.equal(store.state, 'primary')
})

const tooLate = 'no answer within 30 ms'
const nonsense = 'the quota store returned an invalid result from acquire'
const reasons = {
  throws: 'thrown',
  rejects: 'rejected',
  hangs: tooLate,
  'answers late': tooLate,
  'fails late': tooLate,
  'answers nonsense': nonsense,
  'promises nonsense': nonsense
} as const

for (const manner of Object.keys(reasons) as (keyof typeof reasons)[]) {
  t.test(`the fallback answers if the primary ${manner}, until one request finds that the primary has recovered`, async (t) => {
    const { clock, primary, store } = insure()
    const unhandled: unknown[] = []
    const listener = (reason: unknown) => { unhandled.push(reason) }
    process.on('unhandledRejection', listener)
    t.teardown(() => process.off('unhandledRejection', listener))
    const published = publishedChanges(t)
    t.equal((await store.acquire('a', 1)).count, 77, 'the primary usually returns promises')
    primary.manner = manner
    t.match(await answered(clock, store.acquire('a', 1)), { admitted: true, count: 1 }, 'the fallback answers')
    t.equal(store.state, 'fallback')
    t.match(await store.acquire('a', 1), { admitted: false, count: 1 }, 'the fallback counts requests')
    t.equal(primary.asked, 2, 'the primary is not called during the cool-down')

    await pass(clock, 100)
    await answered(clock, Promise.all(Array.from({ length: 10 }, async () => store.acquire('b', 3))))
    t.equal(primary.asked, 3, 'one request tries the primary after the cool-down')
    t.equal(store.state, 'fallback')

    await pass(clock, 100)
    primary.manner = 'promises'
    const [first, ...others] = await Promise.all(Array.from({ length: 10 }, async () => store.acquire('c', 3)))
    t.equal(first?.count, 77, 'the trial succeeds')
    t.ok(others.every(({ count }) => count <= 3), 'the other requests did not wait for the trial')
    t.equal(store.state, 'primary')
    t.equal((await store.acquire('a', 1)).count, 77)
    await pass(clock, 70)
    t.same(unhandled, [])
    t.equal(store.state, 'primary', 'late answers are ignored')
    t.match(published, [{ store, state: 'fallback', error: { message: reasons[manner] } }, { store, state: 'primary', error: undefined }], 'each change is published once')
    t.equal(published.length, 2)
  })
}

t.test('the primary is not called for the length of the cool-down after a failure', async (t) => {
  const { clock, primary, store } = insure()
  primary.manner = 'throws'
  for (const [passed, asked] of [[0, 1], [99, 1], [1, 2], [99, 2]] as const) {
    clock.advance(passed)
    await store.acquire('a', 5)
    t.equal(primary.asked, asked, 'a failed trial begins another cool-down')
  }
})

t.test('a clock that is set back does not lengthen the cool-down', async (t) => {
  let back = 0
  const { clock, primary, store } = insure({ clock: () => 1_000_000 - back })
  primary.manner = 'throws'
  await store.acquire('a', 5)
  back = 500_000
  primary.manner = 'promises'
  await answered(clock, store.acquire('a', 5))
  t.equal(store.state, 'primary')
})

t.test('an answer that was requested before a change does not change the state', async (t) => {
  const { clock, primary, store } = insure({ timeout: 200, coolDown: 10 })
  primary.manner = 'fails late'
  const slow = store.acquire('a', 5)
  primary.manner = 'throws'
  await store.acquire('a', 5)
  await pass(clock, 20)
  primary.manner = 'answers'
  await store.acquire('a', 5)
  t.equal(store.state, 'primary')
  t.match(await answered(clock, slow), { admitted: true, count: 2 }, 'the fallback answers')
  t.equal(store.state, 'primary')
})

t.test('a valid answer that was requested before the primary failed does not end the cool-down', async (t) => {
  const { clock, primary, store } = insure({ timeout: 200, coolDown: 1_000 })
  primary.manner = 'answers late'
  const slow = store.acquire('a', 5)
  primary.manner = 'throws'
  await store.acquire('a', 5)
  t.same(await answered(clock, slow), toldAnswer)
  t.equal(store.state, 'fallback')
})

t.test('a rejection from memory is an answer, but does not show that the server of the primary answers', async (t) => {
  const { clock, primary, store } = insure()
  await store.acquire('a', 5)
  primary.manner = 'rejects'
  await store.acquire('a', 5)
  clock.advance(100)
  primary.manner = 'answers'
  primary.answer = rejection
  t.same(store.acquire('a', 5), rejection)
  t.same(store.acquire('a', 5), rejection, 'a rejection from memory does not use up the trial')
  t.equal(store.state, 'fallback')
  primary.manner = 'rejects'
  await store.acquire('b', 5)
  t.equal(primary.asked, 5, 'another request tries the server')
  primary.manner = 'answers'
  t.match(store.acquire('a', 5), { admitted: true, count: 2 }, 'the memory of the primary is not used during the cool-down')
  clock.advance(100)
  primary.manner = 'promises'
  t.same(await store.acquire('a', 5), rejection)
  t.equal(store.state, 'primary', 'a rejection by the server shows that it answers')
})

t.test('a rejection by a primary that never returns promises counts as an answer', async (t) => {
  const { clock, primary, store } = insure()
  primary.manner = 'throws'
  await store.acquire('a', 5)
  clock.advance(100)
  primary.manner = 'answers'
  primary.answer = rejection
  t.same(store.acquire('a', 5), rejection)
  t.equal(store.state, 'primary')
})

for (const manner of ['throws', 'rejects', 'hangs'] as const) {
  t.test(`inspect and peek do not change the state if the primary ${manner}`, async (t) => {
    const { clock, primary, store } = insure()
    const published = publishedChanges(t)
    primary.manner = manner
    t.same(await answered(clock, store.inspect()), { trackedCallers: 0, sweeps: 0 }, 'the fallback answers')
    t.equal(await answered(clock, store.peek('a')), null)
    t.equal(store.state, 'primary')
    t.same(published, [])

    await answered(clock, store.acquire('a', 5))
    t.equal(store.state, 'fallback')
    clock.advance(100)
    primary.manner = 'promises'
    t.same(await store.inspect(), { trackedCallers: 1, sweeps: 0 }, 'the fallback also answers during the cool-down')
    t.match(await store.peek('a'), { count: 1 })
    t.equal(store.state, 'fallback')
    t.equal((await store.acquire('a', 5)).count, 77, 'only an acquire tries the primary')
    t.equal(store.state, 'primary')
    t.equal(published.length, 2)
  })
}

t.test('forget and clearCounters call both stores in the same turn, and do not change the state', async (t) => {
  const { primary, fallback, store } = insure()
  primary.manner = 'throws'
  for (const caller of ['a', 'b']) await store.acquire(caller, 5)
  primary.manner = 'promises'
  const forgotten = store.forget('a')
  t.same(primary.told, ['forget a'])
  t.equal(fallback.peek('a'), null)
  t.match(fallback.peek('b'), { count: 1 })
  await forgotten
  const cleared = store.clearCounters()
  t.same(primary.told, ['forget a', 'clear'])
  t.same(fallback.inspect(), { trackedCallers: 0, sweeps: 0 })
  await cleared
  t.equal(store.state, 'fallback')

  for (const [manner, message] of [['throws', 'thrown'], ['rejects', 'rejected'], ['hangs', tooLate]] as const) {
    const { clock, primary, fallback, store } = insure()
    fallback.acquire('a', 5)
    primary.manner = manner
    await t.rejects(answered(clock, store.forget('a')), { message })
    t.equal(fallback.peek('a'), null)
    fallback.acquire('a', 5)
    await t.rejects(answered(clock, store.clearCounters()), { message })
    t.same(fallback.inspect(), { trackedCallers: 0, sweeps: 0 })
    t.equal(store.state, 'primary')
  }

  const failing = new ToldStore(new VirtualClock())
  failing.manner = 'throws'
  const other = insure({ fallback: failing })
  await t.rejects(other.store.forget('a'), { message: 'thrown' })
  await t.rejects(other.store.clearCounters(), { message: 'thrown' })
  t.same(other.primary.told, ['forget a', 'clear'], 'the primary is called even if the fallback fails')
})

t.test('no request is admitted if the fallback also fails', async (t) => {
  for (const manner of ['throws', 'rejects', 'hangs', 'answers late', 'answers nonsense', 'promises nonsense'] as const) {
    const clock = new VirtualClock()
    const fallback = new ToldStore(clock)
    const { primary, store } = insure({ fallback }, clock)
    primary.manner = 'rejects'
    fallback.manner = manner
    await t.rejects(answered(clock, store.acquire('a', 5)), manner)
  }
})

t.test('the fallback can return promises and hang, and no request waits longer than the timeout', async (t) => {
  const clock = new VirtualClock()
  const fallback = new ToldStore(clock)
  const { primary, store } = insure({ fallback }, clock)
  primary.manner = 'hangs'
  t.equal((await answered(clock, store.acquire('a', 5))).count, 77, 'the fallback answers')
  t.equal((await store.inspect()).trackedCallers, 77)
  fallback.manner = 'hangs'
  for (const state of ['with the primary', 'without the primary']) {
    const began = clock.now()
    await t.rejects(answered(clock, store.acquire('a', 5)), { message: 'no answer within 15 ms' }, state)
    // A few turns of the event loop, each with one virtual millisecond, pass after each of the two time limits.
    t.ok(clock.now() - began <= 30 + 2 * 6, state)
    clock.advance(100)
  }
})

t.test('the default fallback has the caller cap of the primary and the clock of the store', async (t) => {
  const clock = new VirtualClock()
  const primary = new MemoryQuotaStore({ maxTrackedCallers: 3 })
  primary.acquire = () => { throw new Error('no connection') }
  const store = new InsuredQuotaStore({ primary, clock: clock.now, timers: clock })
  const acquired = await Promise.all(['a', 'b', 'c', 'd'].map((caller) => store.acquire(caller, 1)))
  t.same(acquired.map(({ overflow }) => overflow), [false, false, false, true])
  clock.advance(59_999)
  t.match(store.acquire('a', 1), { admitted: false, windowRemaining: 1 })
  clock.advance(1)
  t.match(store.acquire('a', 1), { admitted: true })
})

t.test('a named quota has the state of its store, and counters of its own in the primary and in the fallback', async (t) => {
  const clock = new VirtualClock()
  const primary = new MemoryQuotaStore({ clock: clock.now })
  const store = new InsuredQuotaStore({ primary, coolDown: 100, clock: clock.now, timers: clock })
  const hourly = store.quota('hourly', 3_600_000)
  t.equal(store.quota('hourly', 3_600_000), hourly, 'the same object for the same name')
  t.match(await hourly.acquire('a', 5), { count: 1, windowRemaining: 3_600_000 })
  t.match(await store.acquire('a', 5), { count: 1, windowRemaining: 60_000 })
  t.match(primary.quota('hourly', 3_600_000).peek('a'), { count: 1 })

  const published = publishedChanges(t)
  const { acquire } = primary
  primary.acquire = () => { throw new Error('no connection') }
  await store.acquire('a', 5)
  t.equal(hourly.state, 'fallback')
  t.match(await hourly.acquire('a', 5), { count: 1, windowRemaining: 3_600_000 }, 'the fallback counts this quota apart')
  clock.advance(100)
  t.match(await hourly.acquire('a', 5), { count: 2 }, 'the primary of the named quota works')
  t.equal(store.state, 'primary', 'one answer shows that the server works')
  primary.acquire = acquire
  t.match(await store.acquire('a', 5), { count: 2 })
  t.match(published, [{ store, state: 'fallback' }, { store, state: 'primary' }], 'the store publishes for all its quotas')
  t.equal(published.length, 2)
})

// Requests in flight: a place goes back to the store that gave it.

t.test('a place is taken from the primary, and from the fallback if the primary fails', async (t) => {
  for (const manner of ['throws', 'rejects', 'hangs', 'answers nonsense', 'promises nonsense'] as const) {
    const { clock, primary, fallback, store } = insure()
    const onPrimary = await store.enter('a', 2)
    t.match(onPrimary, { admitted: true, count: 77 })
    primary.manner = manner
    const onFallback = await answered(clock, store.enter('a', 2))
    t.match(onFallback, { admitted: true, count: 1 }, manner)
    t.equal(store.state, 'fallback')
    t.match(await store.enter('a', 1), { admitted: false, count: 1 })
    primary.manner = 'promises'
    primary.places = 1
    await onPrimary.leave?.()
    t.equal(primary.places, 0, 'the place goes back to the primary, which answers again')
    t.match(fallback.enter('a', 0), { count: 1 })
    await onFallback.leave?.()
    t.match(fallback.enter('a', 0), { count: 0 })
    await pass(clock, 100)
    t.match(await store.enter('a', 2), { count: 77 })
    t.equal(store.state, 'primary', 'an entry ends the outage')
  }
})

t.test('a place that the primary or the fallback gives too late is given back', async (t) => {
  const clock = new VirtualClock()
  const fallback = new ToldStore(clock)
  const { primary, store } = insure({ fallback }, clock)
  primary.manner = 'answers late'
  fallback.manner = 'answers late'
  await t.rejects(async () => answered(clock, store.enter('a', 2)), { message: 'no answer within 15 ms' })
  t.same([primary.places, fallback.places], [1, 1])
  await pass(clock, 60)
  t.same([primary.places, fallback.places], [0, 0])
})

t.test('leave never fails', async (t) => {
  for (const manner of ['throws', 'rejects', 'answers nonsense'] as const) {
    const { primary, store } = insure()
    const { leave } = await store.enter('a', 2)
    primary.manner = manner
    await t.resolves(async () => leave?.())
  }
})

t.test('the insured store lacks each function that one of its stores lacks', async (t) => {
  const bare = { acquire: () => toldAnswer }
  for (const options of [{ primary: bare }, { primary: new MemoryQuotaStore(), fallback: bare }]) {
    const store = new InsuredQuotaStore(options)
    const present = ['acquire', 'quota', 'enter', 'peek', 'forget', 'clearCounters', 'inspect'].filter((name) => hasFunction(store, name))
    t.same(present, ['acquire'])
    t.match(await store.acquire('a', 5), { admitted: true })
  }
})

t.test('the timeout uses the timers of Node.js by default', async (t) => {
  const primary = new ToldStore(new VirtualClock())
  primary.manner = 'hangs'
  const store = new InsuredQuotaStore({ primary, timeout: 1 })
  // The store's own timers do not keep the process alive.
  const wait = setInterval(() => {}, 1_000)
  t.teardown(() => { clearInterval(wait) })
  t.match(await store.acquire('a', 5), { admitted: true, count: 1 })
  t.equal(store.state, 'fallback')
  const timer = nodeTimers.setTimeout(() => {}, 600_000)
  t.equal(timer.hasRef(), false)
  nodeTimers.clearTimeout(timer)
})

t.test('the error for an invalid option of an InsuredQuotaStore contains its name', async (t) => {
  const primary = new MemoryQuotaStore()
  const invalid: [object, RegExp][] = [
    [{ primary: undefined }, /option primary must be a store/],
    [{ fallback: {} }, /option fallback must be a store with a function acquire; it got an object/],
    [{ clock: 5, fallback: primary }, /option clock must be a function; it got 5/],
    [{ timers: null }, /option timers must be timers with a function setTimeout; it got null/],
    [{ cooldown: 5 }, /option cooldown does not exist; it got 5/],
    [{ timers: { setTimeout } }, /option timers must be timers with a function clearTimeout/],
    ...[0, -1, NaN, Infinity, 2 ** 31, '100'].flatMap((value): [object, RegExp][] => [
      [{ timeout: value }, /option timeout must be a number of milliseconds/],
      [{ coolDown: value }, /option coolDown must be a number of milliseconds/]
    ])
  ]
  for (const [options, message] of invalid) {
    t.throws(() => Reflect.construct(InsuredQuotaStore, [{ primary, ...options }]), { code: 'FST_ERR_LLM_QUOTA_OPTION', message })
  }
  t.doesNotThrow(() => new InsuredQuotaStore({ primary, timeout: 2 ** 31 - 1, coolDown: 2 ** 31 - 1 }))
  t.throws(() => Reflect.construct(InsuredQuotaStore, []), { code: 'FST_ERR_LLM_QUOTA_OPTION', message: /option options must be an object; it got undefined/ })
})
