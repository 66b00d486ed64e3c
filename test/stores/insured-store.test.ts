// Which of its two stores an insured store uses, and where it settles.
import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { localAuthentication } from '../../lib/caller/authentication.js'
import { callerKey } from '../../lib/caller/caller-key.js'
import { OverloadError } from '../../lib/errors.js'
import { hasFunction } from '../../lib/option-checks.js'
import { required } from '../../lib/required.js'
import { InsuredQuotaStore } from '../../lib/store/insured/insured-store.js'
import { MemoryQuotaStore } from '../../lib/store/memory/memory-store.js'
import type { Acquisition, Settled } from '../../lib/store/store.js'
import { nodeTimers } from '../../lib/time-limit.js'
import { VirtualClock } from '../../lib/testing/virtual-clock.js'
import { acquireOne, demand, estimate, place } from '../support/demands.js'
import { matchExactly } from '../support/match-exactly.js'
import { answered, insure, pass, publishedChanges, ToldStore } from '../support/told-store.js'
import { unhandledRejections } from '../support/unhandled.js'

const admitted: Acquisition = {
  admitted: true,
  granted: 1,
  count: 1,
  held: 0,
  windowRemaining: 60_000
}
const tooLate = 'no response within 30 ms'
const nonsense = 'the quota store returned an invalid result from acquire:'
const natural = 'must be an integer of at least 0'
const slow = { hangs: tooLate, 'answers late': tooLate, 'fails late': tooLate } as const
const reasons = {
  throws: 'thrown',
  rejects: 'rejected',
  ...slow,
  'answers nonsense': `${nonsense} must be an array of 1; it got null`,
  'promises nonsense': `${nonsense} the field count ${natural}; it got undefined`
} as const

for (const manner of Object.keys(reasons) as (keyof typeof reasons)[]) {
  t.test(
    `the fallback decides if the primary ${manner}, until one request finds that it works`,
    async (t) => {
      const { clock, primary, store, countOf } = insure()
      const published = publishedChanges(t)
      const many = (caller: string) =>
        Promise.all(Array.from({ length: 10 }, () => countOf(caller, 3)))
      t.equal(await countOf(), 77, 'the primary usually returns promises')
      primary.manner = manner
      t.equal(await countOf('a', 1), 1, 'the fallback decides')
      t.equal(store.state, 'fallback')
      t.equal(await countOf('a', 1), -1, 'the fallback counts requests')
      t.equal(primary.asked, 2, 'the primary is not called during the cool-down')
      clock.advance(100)
      await many('b')
      t.equal(primary.asked, 3, 'one request tries the primary after the cool-down')
      t.equal(store.state, 'fallback')
      clock.advance(200)
      primary.manner = 'promises'
      t.same(
        await many('c'),
        [77, 1, 2, 3, -3, -3, -3, -3, -3, -3],
        'the trial succeeds, and the other requests do not wait for it'
      )
      t.equal(store.state, 'primary')
      await pass(clock, 70)
      t.equal(store.state, 'primary', 'late results do not change the state')
      t.same(store.decisions, { primary: 2, fallback: 21 }, 'each call is counted once')
      const changes = [
        { store, state: 'fallback', error: { message: reasons[manner] } },
        { store, state: 'primary', error: undefined }
      ]
      matchExactly(t, published, changes, 'each change is published once')
      t.equal(published.length, 2)
    }
  )
}

t.test('a primary that is overloaded is not left, and its requests fail', async (t) => {
  let isOverloaded = true
  const acquire = () => {
    if (isOverloaded) return Promise.reject(new OverloadError(2_500))
    throw new Error('no connection')
  }
  const { clock, store, countOf } = insure({ primary: { acquire } })
  const published = publishedChanges(t)
  await t.rejects(countOf(), { code: 'FST_ERR_LLM_QUOTA_OVERLOAD', statusCode: 503 })
  t.equal(store.state, 'primary')
  t.same(published, [])
  t.same(store.decisions, { primary: 0, fallback: 0 })
  isOverloaded = false
  t.equal(await countOf(), 1, 'another error is a failure')
  isOverloaded = true
  clock.advance(100)
  await t.rejects(countOf(), { code: 'FST_ERR_LLM_QUOTA_OVERLOAD' })
  t.equal(store.state, 'fallback')
  await t.rejects(countOf(), { code: 'FST_ERR_LLM_QUOTA_OVERLOAD' }, 'the next one tries, too')
})

t.test('a primary can return results instead of promises', async (t) => {
  const { primary, store } = insure()
  primary.manner = 'answers'
  matchExactly(t, await store.acquire([demand('a')]), [{ admitted: true, count: 77 }])
  t.same(await store.list?.('default'), {
    callers: [{ callerKey: 'default 0', count: 77, held: 0, windowRemaining: 60_000 }],
    cursor: 'primary:1'
  })
})

t.test('the primary is not called for the length of the cool-down after a failure', async (t) => {
  let back = 0
  const { clock, primary, countOf } = insure({ clock: () => clock.now() - back })
  primary.manner = 'throws'
  for (const [passed, asked] of [[0, 1], [99, 1], [1, 2], [99, 2]] as const) {
    clock.advance(passed)
    await countOf()
    t.equal(primary.asked, asked, 'a failed trial begins another cool-down')
  }
  back = 500_000
  primary.manner = 'promises'
  t.equal(await countOf(), 77, 'a clock that is set back does not lengthen it')
})

t.test(
  'the primary is not called from its failure on, even before the fallback has decided, or if it ' +
    'fails, too',
  async (t) => {
    for (const manner of ['answers late', 'throws'] as const) {
      const clock = new VirtualClock()
      const fallback = Object.assign(new ToldStore(clock), { manner })
      const { primary, store } = insure({ fallback, timeout: 1_000 }, clock)
      primary.manner = 'throws'
      const first = store.acquire([demand('a')]).catch(() => null)
      await turn()
      const second = store.acquire([demand('b')]).catch(() => null)
      await answered(clock, Promise.all([first, second]))
      t.equal(primary.asked, 1, manner)
      t.equal(fallback.asked, 2, manner)
      t.equal(store.state, 'fallback', manner)
    }
  }
)

t.test('a call that fails after another one failed does not lengthen the cool-down', async (t) => {
  const { clock, primary, store, countOf } = insure()
  primary.manner = 'fails late'
  const slow = store.acquire([demand('a')])
  primary.manner = 'throws'
  t.equal(await countOf('b'), 1)
  matchExactly(t, await answered(clock, slow), [{ admitted: true, count: 1 }])
  const passed = clock.now()
  t.ok(passed >= 30 && passed < 100, `the late one has failed after ${passed} ms`)
  primary.manner = 'promises'
  clock.advance(100 - passed)
  t.equal(await countOf('b'), 77)
})

t.test('the result of a call from before a change does not change the state', async (t) => {
  for (const [late, slowCount, state] of [
    ['fails late', 2, 'primary'],
    ['answers late', 77, 'fallback']
  ] as const) {
    const { clock, primary, store, countOf } = insure({
      timeout: 200,
      coolDown: late === 'fails late' ? 10 : 1_000
    })
    primary.manner = late
    const slow = store.acquire([demand('a')])
    primary.manner = 'throws'
    t.equal(await countOf(), 1)
    clock.advance(20)
    primary.manner = 'promises'
    await countOf('b')
    matchExactly(t, await answered(clock, slow), [{ admitted: true, count: slowCount }])
    t.equal(store.state, state)
  }
})

t.test(
  "only a result of the primary's own server changes the state, not one from its memory",
  async (t) => {
    const { clock, primary, store, countOf } = insure()
    await countOf()
    primary.manner = 'rejects'
    await countOf()
    for (const manner of ['answers', 'promises'] as const) {
      Object.assign(primary, { manner, admitted: false, isRemembered: true })
      clock.advance(100)
      const asked = primary.asked
      t.equal(await countOf(), -77, 'the result is used')
      t.equal(await countOf(), -77, 'it does not use up the trial')
      t.equal(store.state, 'fallback')
      primary.manner = 'rejects'
      await countOf('b')
      t.equal(primary.asked, asked + 3, 'another request tries the server')
    }
    t.equal(await countOf(), 2, 'the memory of the primary is not used during the cool-down')
    clock.advance(100)
    Object.assign(primary, { manner: 'promises', isRemembered: false })
    t.equal(await countOf(), -77)
    t.equal(store.state, 'primary', 'a rejection by the server shows that it works')
  }
)

t.test('a rejection from memory, beside a demand that was not asked, does not change the state',
  async (t) => {
    const remembered = { ...admitted, admitted: false, granted: 0, isRemembered: true } as const
    let isDown = false
    const acquire = () => {
      if (isDown) throw new Error('no connection')
      return [null, remembered]
    }
    const { clock, fallback, store, countOf } = insure({ primary: { acquire } })
    const demands = [demand('a', estimate()), demand('a')]
    t.same(await store.acquire(demands), [null, remembered])
    t.equal(store.state, 'primary')
    t.equal(fallback.inspect('default').trackedCallers, 0)
    isDown = true
    t.equal(await countOf('b'), 1)
    isDown = false
    clock.advance(100)
    t.same(await store.acquire(demands), [null, remembered])
    t.equal(store.state, 'fallback')
  }
)

t.test('arguments that are not as described are no failure of the primary', async (t) => {
  const { primary, store } = insure()
  await t.rejects(async () => store.acquire([demand('a', { most: 1.5 })]), TypeError)
  await t.rejects(async () => store.peek?.(demand('a', { least: -1 })), TypeError)
  await t.rejects(async () => store.forget?.('a', 'default'), TypeError)
  t.equal(store.state, 'primary')
  t.same([primary.asked, primary.told], [0, []])
})

for (const manner of ['throws', 'rejects', 'hangs'] as const) {
  t.test(
    `inspect, peek and list do not change the state if the primary ${manner}`,
    async (t) => {
      const { clock, primary, fallback, store, countOf } = insure()
      const published = publishedChanges(t)
      const read = async () => [
        await answered(clock, store.inspect?.('default')),
        await answered(clock, store.peek?.(demand('a'))),
        await answered(clock, store.list?.('default'))
      ]
      await store.acquire([demand('a')])
      fallback.acquire([demand('b')])
      primary.manner = manner
      matchExactly(
        t,
        await read(),
        [{ trackedCallers: 1 }, null, { callers: [{ callerKey: 'b', count: 1 }], cursor: null }],
        'the fallback is read'
      )
      t.equal(store.state, 'primary')
      t.equal(await countOf(), 1)
      primary.manner = 'promises'
      clock.advance(100)
      matchExactly(t, await read(), [
        { trackedCallers: 2 },
        { count: 1 },
        { callers: [{ callerKey: 'b' }, { callerKey: 'a' }] }
      ])
      t.equal(store.state, 'fallback')
      t.equal(await countOf(), 77, 'only an acquire tries the primary')
      matchExactly(t, await read(), [
        { trackedCallers: 77 },
        { count: 77 },
        { callers: [{ callerKey: 'default 0' }], cursor: 'primary:1' }
      ])
      t.equal(published.length, 2)
    }
  )
}

t.test('what the primary answers late to inspect, peek or list is ignored', async (t) => {
  const { clock, primary, store } = insure()
  primary.manner = 'answers late'
  const reads = Promise.all([
    store.inspect?.('default'),
    store.peek?.(demand('a')),
    store.list?.('default')
  ])
  matchExactly(t, await answered(clock, reads), [{ trackedCallers: 0 }, null, { callers: [] }])
  await pass(clock, 60)
  t.equal(store.state, 'primary')
})

t.test('the next page comes from the store of the last page, or fails with it', async (t) => {
  for (const manner of ['throws', 'rejects', 'hangs'] as const) {
    const clock = new VirtualClock()
    const fallback = Object.assign(new ToldStore(clock), { count: 5 })
    const { primary, store } = insure({ fallback }, clock)
    const page = async (cursor?: string) => answered(clock, store.list?.('default', cursor))
    const ofPrimary = { callers: [{ callerKey: 'default 0', count: 77 }], cursor: 'primary:1' }
    matchExactly(t, await page(), ofPrimary)
    primary.manner = manner
    await t.rejects(page('primary:1'), manner)
    const pages = [await page()]
    primary.manner = 'promises'
    pages.push(await page('fallback:1'))
    matchExactly(t, pages, [
      { callers: [{ callerKey: 'default 0', count: 5 }], cursor: 'fallback:1' },
      { callers: [{ callerKey: 'default 1', count: 5 }], cursor: 'fallback:2' }
    ])
    fallback.manner = manner
    await t.rejects(page('fallback:1'), manner)
    await t.rejects(page('1'), TypeError, 'a cursor of neither')
  }
})

t.test('an insured store can be the primary of another one', async (t) => {
  const clock = new VirtualClock()
  const last = new ToldStore(clock)
  const inner = insure({ fallback: Object.assign(last, { count: 5 }) }, clock)
  const { store } = insure({ primary: inner.store }, clock)
  inner.primary.manner = 'throws'
  const { receipt, count } = await acquireOne(store, 'a')
  t.equal(count, 5)
  await store.settle?.(receipt, { count: 1, held: 0 })
  t.same(last.told, ['settle 1 and 0 of default'])
  const page = await store.list?.('default')
  const next = await store.list?.('default', page?.cursor ?? '')
  matchExactly(t, next, { callers: [{ callerKey: 'default 1', count: 5 }] })
  t.equal(store.state, 'primary')
})

t.test(
  'forget and clearCounters call both stores in the same turn, and do not change the state',
  async (t) => {
    const one = required(callerKey(localAuthentication('one')), 'its key')
    for (const [manner, message] of [
      ['promises', ''],
      ['throws', 'thrown'],
      ['rejects', 'rejected']
    ] as const) {
      const { clock, primary, fallback, store, countOf } = insure()
      const run = async (task: unknown) =>
        message === ''
          ? t.resolves(task as Promise<void>)
          : t.rejects(answered(clock, task), { message })
      primary.manner = 'throws'
      for (const caller of [one, 'b']) await countOf(caller)
      primary.manner = manner
      const forgotten = store.forget?.('default', one)
      t.same(
        [primary.told, fallback.peek(demand(one)), fallback.peek(demand('b'))?.count],
        [[`forget ${one.slice(0, 4)} in default`], null, 1]
      )
      await run(forgotten)
      const cleared = store.clearCounters?.()
      t.same(
        [primary.told[1], fallback.inspect('default')],
        ['clear', { trackedCallers: 0, sweeps: 0 }]
      )
      await run(cleared)
      t.equal(store.state, 'fallback')
      const other = insure({ fallback: Object.assign(new ToldStore(clock), { manner }) }, clock)
      await run(other.store.clearCounters?.())
      t.same(other.primary.told, ['clear'], 'the primary is called even if the fallback fails')
    }
  }
)

t.test(
  'no request is admitted if the fallback fails as well, and each of the two can use the timeout',
  async (t) => {
    for (const manner of [
      'throws',
      'rejects',
      'hangs',
      'answers late',
      'answers nonsense',
      'promises nonsense'
    ] as const) {
      const clock = new VirtualClock()
      const fallback = new ToldStore(clock)
      const { primary, store, countOf } = insure({ fallback }, clock)
      primary.manner = 'hangs'
      t.equal(await countOf(), 77, 'the fallback can return promises')
      fallback.manner = manner
      for (let time = 0; time < 2; time++) {
        const began = clock.now()
        await t.rejects(async () => answered(clock, store.acquire([demand('a')])), manner)
        // A few turns of the event loop, each with one virtual millisecond, pass after each of the
        // two time limits.
        t.ok(clock.now() - began <= 2 * (30 + 6), manner)
        clock.advance(100)
      }
      t.same(store.decisions, { primary: 0, fallback: 1 }, manner)
    }
  }
)

t.test('an acquisition is settled in the store that made it, whichever is used then', async (t) => {
  const { clock, primary, fallback, store } = insure()
  const demands = [demand('a', estimate(4)), demand('a', place())]
  const acquire = async () => {
    const acquisitions = await answered(clock, store.acquire(demands))
    return acquisitions.map((acquisition) => structuredClone(acquisition?.receipt))
  }
  const ofPrimary = await acquire()
  primary.manner = 'throws'
  const ofFallback = await acquire()
  primary.manner = 'promises'
  for (const receipts of [ofFallback, ofPrimary]) {
    await store.settle?.(receipts[0], { count: 3, held: 4 })
    await store.settle?.(receipts[1], { count: 1, held: 1 })
  }
  t.same(primary.told, [
    'settle 3 and 4 of chat.tokens.day',
    'settle 1 and 1 of streams.concurrent'
  ])
  t.same(demands.map((each) => fallback.peek(each)?.count), [1, 0])
  t.equal(store.state, 'fallback')
})

t.test('a settlement has no time limit, and fails only if its store does', async (t) => {
  const { clock, primary, store } = insure()
  const receipts = await Promise.all(
    Array.from({ length: 10 }, async () => (await acquireOne(store, 'a', estimate())).receipt)
  )
  primary.manner = 'hangs'
  const answers: (() => void)[] = []
  const settled = receipts.map((receipt) => {
    const settling = store.settle?.(receipt, { count: 1, held: 1 })
    answers.push(primary.answerNow)
    return settling
  })
  await pass(clock, 1_000)
  for (const answer of answers) answer()
  t.equal((await Promise.all(settled)).length, 10)
  primary.manner = 'rejects'
  await t.rejects(async () => store.settle?.(receipts[0], { count: 1, held: 1 }), /rejected/)
  t.equal(store.state, 'primary')
})

t.test('a text with a settlement passes through, and its result comes back', async (t) => {
  const { clock, primary, store } = insure()
  const ofPrimary = await acquireOne(store, 'a', estimate(4))
  t.equal(await store.settle?.(ofPrimary.receipt, { count: 1, held: 4 }, 'x'), true)
  t.same(primary.told, ['settle 1 and 4 of chat.tokens.day, once for x'])
  primary.manner = 'throws'
  const ofFallback = await answered(clock, acquireOne(store, 'a', estimate(4)))
  t.equal(await store.settle?.(ofFallback.receipt, { count: 1, held: 4 }, 'x'), true)
  t.equal(await store.settle?.(ofFallback.receipt, { count: 1, held: 4 }, 'x'), false)
})

t.test(
  'a text of the primary is a receipt for every process, and none of the fallback is a text',
  async (t) => {
    const clock = new VirtualClock()
    const { primary, store } = insure({ fallback: new ToldStore(clock) }, clock)
    const { receipt } = await acquireOne(store, 'a')
    t.equal(receipt, 'default')
    const other = insure()
    await other.store.settle?.(receipt, { count: 1, held: 0 })
    t.same(other.primary.told, ['settle 1 and 0 of default'])
    primary.manner = 'throws'
    const ofFallback = await acquireOne(store, 'a')
    t.same(ofFallback.receipt, { store: 'fallback', receipt: 'default' })
    const inMemory = new InsuredQuotaStore({ primary: new MemoryQuotaStore() })
    t.type((await acquireOne(inMemory, 'a')).receipt, 'object')
    for (const wrong of [undefined, null, 5, {}, { store: 'other', receipt: 'default' }]) {
      await t.rejects(async () => store.settle?.(wrong, { count: 1, held: 0 }), TypeError)
    }
  }
)

t.test(
  'what a late result has counted is given back whole, once, and nothing of a late rejection',
  async (t) => {
    for (const manner of ['answers late', 'fails late'] as const) {
      for (const admitted of [true, false]) {
        const clock = new VirtualClock()
        const fallback = new ToldStore(clock)
        const { primary, store } = insure({ fallback }, clock)
        for (const each of [primary, fallback]) Object.assign(each, { manner, admitted })
        const demands = [demand('a'), demand('a', estimate(3)), demand('a', place())]
        await t.rejects(async () => answered(clock, store.acquire(demands)), {
          message: tooLate
        })
        await pass(clock, 100)
        const isCounted = admitted && manner === 'answers late'
        const expected = isCounted
          ? [
              'settle 1 and 0 of default',
              'settle 3 and 3 of chat.tokens.day',
              'settle 1 and 1 of streams.concurrent'
            ]
          : []
        t.same([primary.told, fallback.told], [expected, expected])
      }
    }
  }
)

t.test('a late result that cannot be settled is ignored, and no unhandled rejection', async (t) => {
  const unhandled = unhandledRejections(t)
  for (const manner of ['throws', 'rejects'] as const) {
    const { clock, primary, store } = insure()
    primary.manner = 'answers late'
    await answered(clock, store.acquire([demand('a', estimate(3))]))
    primary.manner = manner
    await pass(clock, 100)
    t.same(primary.told, ['settle 3 and 3 of chat.tokens.day'], manner)
  }
  t.same(unhandled, [])
})

t.test(
  'a late result is also settled by a client whose promises run nothing before they are awaited',
  async (t) => {
    const clock = new VirtualClock()
    const settled: Settled[] = []
    const primary = {
      acquire: (): Promise<Acquisition[]> =>
        new Promise((resolve) => {
          clock.setTimeout(() => {
            resolve([{ ...admitted, receipt: 'a receipt' }])
          }, 50)
        }),
      settle: (_receipt: unknown, less: Settled): Promise<void> =>
        Object({
          then (fulfil: () => void) {
            settled.push(less)
            fulfil()
          }
        })
    }
    const store = new InsuredQuotaStore({ primary, timeout: 15, clock: clock.now, timers: clock })
    await answered(clock, store.acquire([demand('a')]))
    t.same(settled, [])
    await pass(clock, 100)
    t.same(settled, [{ count: 1, held: 0 }])
  }
)

t.test(
  'the default fallback has the caller cap of the primary, if any, and the clock of the store',
  async (t) => {
    const acquire = (): never => {
      throw new Error('no connection')
    }
    for (const [maxTrackedCallers, overflow] of [
      [3, true],
      [Infinity, undefined],
      [undefined, undefined]
    ] as const) {
      const clock = new VirtualClock()
      const primary = { acquire, ...(maxTrackedCallers !== undefined && { maxTrackedCallers }) }
      const store = new InsuredQuotaStore({ primary, clock: clock.now, timers: clock })
      const one = { limit: 1 }
      for (const caller of ['a', 'b', 'c']) {
        t.match(await acquireOne(store, caller, one), { admitted: true, overflow: undefined })
      }
      t.match(await acquireOne(store, 'd', one), { admitted: true, overflow })
      clock.advance(59_999)
      t.match(await acquireOne(store, 'a', one), { admitted: false, windowRemaining: 1 })
      clock.advance(1)
      t.match(await acquireOne(store, 'a', one), { admitted: true })
    }
  }
)

t.test('the insured store lacks each function that one of its stores lacks', async (t) => {
  const bare = { acquire: () => [admitted] }
  for (const options of [{ primary: bare }, { primary: new MemoryQuotaStore(), fallback: bare }]) {
    const store = new InsuredQuotaStore(options)
    const present = [
      'acquire',
      'settle',
      'peek',
      'forget',
      'list',
      'inspect',
      'clearCounters'
    ].filter((name) => hasFunction(store, name))
    t.same(present, ['acquire'])
    matchExactly(t, await store.acquire([demand('a')]), [{ admitted: true }])
  }
})

t.test(
  'the timeout uses the timers of Node.js by default, which do not keep the process alive',
  async (t) => {
    const primary = Object.assign(new ToldStore(new VirtualClock()), { manner: 'hangs' })
    const store = new InsuredQuotaStore({ primary, timeout: 1 })
    const wait = setInterval(() => {}, 1_000)
    t.teardown(() => {
      clearInterval(wait)
    })
    matchExactly(t, await store.acquire([demand('a')]), [{ admitted: true, count: 1 }])
    const timer = nodeTimers.setTimeout(() => {}, 600_000)
    t.equal(timer.hasRef(), false)
    nodeTimers.clearTimeout(timer)
  }
)

t.test('the error for an invalid option of an InsuredQuotaStore contains its name', async (t) => {
  const primary = new MemoryQuotaStore()
  const invalid: [object | undefined, RegExp][] = [
    [undefined, /option options must be a plain object; it got undefined/],
    [{ primary: undefined }, /option primary must be a store/],
    [{ primary: 'host=db password=hidden' }, /option primary .* it got a string$/],
    [{ primary: { password: 'hidden' } }, /option primary .* it got an object$/],
    [{ fallback: {} }, /option fallback must be a store with a function acquire; it got an object/],
    [{ clock: 5, fallback: primary }, /option clock must be a function; it got 5/],
    [{ timers: null }, /option timers must be timers with a function setTimeout; it got null/],
    [{ timers: { setTimeout } }, /option timers must be timers with a function clearTimeout/],
    [{ cooldown: 5 }, /option cooldown does not exist; it got 5/],
    [{ timeout: 0 }, /option timeout must be a number of milliseconds/],
    [{ coolDown: 2 ** 31 }, /option coolDown must be a number of milliseconds/]
  ]
  for (const [options, message] of invalid) {
    t.throws(
      () =>
        Reflect.construct(
          InsuredQuotaStore,
          options === undefined ? [] : [{ primary, ...options }]
        ),
      { code: 'FST_ERR_LLM_QUOTA_OPTION', message }
    )
  }
  t.doesNotThrow(
    () => new InsuredQuotaStore({ primary, timeout: 2 ** 31 - 1, coolDown: 2 ** 31 - 1 })
  )
})
