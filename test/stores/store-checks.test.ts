// What the package's own stores accept, and what is accepted from a store.
import t from 'tap'
import { PostgresQuotaStore } from '../../lib/postgres.js'
import { InsuredQuotaStore } from '../../lib/store/insured/insured-store.js'
import { MemoryQuotaStore } from '../../lib/store/memory/memory-store.js'
import { SharedStore } from '../../lib/store/shared/shared-store.js'
import { required } from '../../lib/required.js'
import { acquireFrom, assertPeeked } from '../../lib/store/checks.js'
import type { Acquisition, Demand, QuotaStore } from '../../lib/store/store.js'
import { DriverServer } from '../support/driver-server.js'
import { acquireOne, demand, estimate, place } from '../support/told-store.js'

const wrongDemands: [Record<string, unknown>, RegExp][] = [
  [{ counters: 5 }, /field counters of a demand must be a string; it got 5/],
  [{ callerKey: null }, /field callerKey of a demand must be a string; it got null/],
  [{ limit: 0 }, /field limit of a demand must be an integer of at least 1; it got 0/],
  [{ limit: 2 ** 53 }, /field limit .* it got 9007199254740992/],
  [{ least: -700, most: -700 }, /field most of a demand must be an integer of at least 0/],
  [{ most: 1.5 }, /field most .* it got 1\.5/],
  [{ most: 2 ** 53 }, /field most .* it got 9007199254740992/],
  [{ least: -1 }, /field least of a demand must be an integer from 0 to most; it got -1/],
  [{ least: 2 }, /field least of a demand must be an integer from 0 to most; it got 2/],
  [{ least: NaN }, /field least .* it got NaN/],
  [{ least: undefined }, /field least .* it got undefined/],
  [{ isEstimate: undefined }, /field isEstimate of a demand must be true or false/],
  [{ window: 0 }, /field window of a demand must be an integer of at least 1, or null; it got 0/],
  [{ window: 1.5 }, /field window .* it got 1\.5/],
  [{ start: '2026', end: 5 }, /field start of a demand must be milliseconds since the epoch/],
  [{ end: 5 }, /field start of a demand .* as end is; it got null/],
  [{ start: 5 }, /field end of a demand must be .* after start; it got null/],
  [{ start: 5, end: 5 }, /field end of a demand must be .* after start; it got 5/],
  [{ ...place(), least: 0 }, /field least of a demand must be 1 for a concurrent request/],
  [{ ...place(), least: 1, most: 2 }, /field most of a demand must be 1 for a concurrent request/],
  [{ ...place(), isEstimate: false }, /field isEstimate .* true for a concurrent request/],
  [{ ...place(), start: 5 }, /field start of a demand must be null for a concurrent request/],
  [{ ...place(), end: 5 }, /field end of a demand must be null for a concurrent request/]
]

t.test('a demand that is not as described is a TypeError, and nothing is counted', async (t) => {
  const stores = [
    new MemoryQuotaStore(),
    new InsuredQuotaStore({ primary: new MemoryQuotaStore() })
  ]
  for (const store of stores) {
    for (const [fields, message] of wrongDemands) {
      const wrong: Demand = Object.assign(demand('a'), fields)
      const valid = demand('a', estimate())
      await t.rejects(async () => store.acquire([valid, wrong]), { name: 'TypeError', message })
      await t.rejects(async () => store.peek?.(wrong), { name: 'TypeError', message })
    }
    t.equal((await acquireOne(store, 'a')).count, 1)
    t.equal((await acquireOne(store, 'a', estimate())).count, 1)
  }
})

t.test('two demands of a request on the same counters are a TypeError, whoever asks', async (t) => {
  const pool = { query: async () => ({ rows: [] }) }
  const stores = [
    new MemoryQuotaStore(),
    new InsuredQuotaStore({ primary: new MemoryQuotaStore() }),
    new PostgresQuotaStore({ pool })
  ]
  for (const store of stores) {
    for (const other of ['a', 'b']) {
      const twice = [demand('a'), demand('a', estimate()), demand(other, { limit: 9 })]
      await t.rejects(async () => store.acquire(twice), {
        name: 'TypeError',
        message: 'two demands of a request have the same counters "default"'
      })
    }
  }
})

t.test('an acquisition is settled with an integer of at least 0 only', async (t) => {
  const store = new MemoryQuotaStore()
  const acquisition = await acquireOne(store, 'a', estimate(3))
  for (const used of [-1, 1.5, NaN, 2 ** 53, undefined, '1']) {
    t.throws(
      () => {
        Reflect.apply(store.settle, store, [acquisition, used])
      },
      { name: 'TypeError', message: /must be an integer of at least 0; it got/ }
    )
  }
  t.match(store.peek(demand('a', estimate(3))), { count: 3, held: 3 })
})

const insure = () => new InsuredQuotaStore({ primary: new MemoryQuotaStore() })
const pairs: Record<string, readonly [QuotaStore, QuotaStore]> = {
  MemoryQuotaStore: [new MemoryQuotaStore(), new MemoryQuotaStore()],
  InsuredQuotaStore: [insure(), insure()]
}

for (const [name, [store, other]] of Object.entries(pairs)) {
  t.test(`${name} settles what it has acquired itself, and nothing else`, async (t) => {
    for (const more of [estimate(3), place()]) {
      const own = await acquireOne(store, 'a', more)
      const ofOther = await acquireOne(other, 'a', more)
      for (const foreign of [ofOther, { ...own }, {}, null, undefined, 'a']) {
        const settle = required(store.settle, 'the function settle')
        await t.rejects(async () => Reflect.apply(settle, store, [foreign, 0]), {
          name: 'TypeError',
          message: /settles only the very object that its function acquire/
        })
      }
      const counts = async () => [
        (await store.peek?.(demand('a', more)))?.count,
        (await other.peek?.(demand('a', more)))?.count
      ]
      const granted = own.granted
      t.same(await counts(), [granted, granted])
      await store.settle?.(own, 0)
      t.same(await counts(), [0, granted])
    }
  })
}

t.test('a place that is settled with more than 0 stays taken, in every store', async (t) => {
  const stores = [
    new MemoryQuotaStore(),
    insure(),
    new SharedStore({}, 1, () => new DriverServer(() => 0))
  ]
  for (const store of stores) {
    const taken = await acquireOne(store, 'a', place())
    for (const [used, count] of [[1, 1], [0, 0]] as const) {
      await store.settle?.(taken, used)
      t.match(await store.peek?.(demand('a', place())), { count })
    }
  }
})

const admitted: Acquisition = {
  admitted: true,
  granted: 2,
  count: 3,
  held: 2,
  windowRemaining: 5,
  overflow: false
}
const rejected: Acquisition = { ...admitted, admitted: false, granted: 0 }

const results: [boolean, unknown, string][] = [
  [true, [admitted], 'admitted'],
  [true, [rejected], 'rejected'],
  [true, [{ ...rejected, isRemembered: true }], 'remembered'],
  [false, [{ ...admitted, isRemembered: true }], 'admitted from memory'],
  [false, [{ ...rejected, isRemembered: false }], 'isRemembered is true or absent'],
  [false, [{ ...admitted, granted: 0 }], 'less than the least'],
  [false, [{ ...admitted, granted: 4 }], 'more than the most'],
  [false, [{ ...admitted, granted: 1.5 }], 'a fraction'],
  [false, [{ ...admitted, granted: undefined }], 'nothing granted'],
  [false, [{ ...rejected, granted: 1 }], 'granted although rejected'],
  [false, [{ ...admitted, held: 4 }], 'more held than counted'],
  [false, [{ ...admitted, held: -1 }], 'less than nothing held'],
  [false, [{ ...admitted, held: undefined }], 'no held'],
  [false, [{ ...admitted, count: -1 }], 'less than nothing counted'],
  [false, [{ ...admitted, count: 3.5 }], 'a part of one counted'],
  [false, [{ ...admitted, count: '3' }], 'a text as the count'],
  [false, [{ ...admitted, windowRemaining: 0 }], 'a window that has ended'],
  [false, [{ ...admitted, windowRemaining: null }], 'no time'],
  [false, [{ ...admitted, windowRemaining: NaN }], 'a time that is no number'],
  [false, [{ ...admitted, windowRemaining: '5' }], 'a text as the time'],
  [false, [{ ...admitted, windowRemaining: 1e300 }], 'a time that never ends'],
  [false, [{ ...admitted, end: 5_000 }], 'an end that was not asked for'],
  [false, [{ ...admitted, overflow: undefined }], 'no overflow'],
  [false, [{ ...admitted, admitted: 1 }], 'admitted is true or false'],
  [false, [null], 'not asked, but not rejected'],
  [false, [admitted, admitted], 'too many'],
  [false, [], 'too few'],
  [false, null, 'null'],
  [false, admitted, 'no array']
]

t.test('a result of a store is used only if it is as described', async (t) => {
  const demands = [demand('a', { least: 1, most: 3 })]
  for (const [isValid, result, name] of results) {
    const store = { acquire: () => result as Acquisition[] }
    if (isValid) t.equal(await acquireFrom(store, demands), result, name)
    else await t.rejects(acquireFrom(store, demands), /invalid result from acquire/, name)
  }
  const two = [...demands, demand('b', { least: 1, most: 3 })]
  const result = [null, rejected]
  t.equal(await acquireFrom({ acquire: () => result }, two), result, 'one of them not asked')
  t.doesNotThrow(() => {
    assertPeeked(null, demand('a'))
  })
  t.throws(() => {
    assertPeeked(null, demand('a', place()))
  }, /invalid result from peek/)
  t.throws(() => {
    assertPeeked({ ...admitted, held: 9 }, demand('a'))
  }, /invalid result from peek/)
})

t.test('a result of a store on a place is used only if it has no window', async (t) => {
  const demands = [demand('a', place())]
  const taken = { ...admitted, granted: 1, windowRemaining: null }
  t.same(await acquireFrom({ acquire: () => [taken] }, demands), [taken])
  for (const windowRemaining of [undefined, 30_000, NaN, '5']) {
    const result = [{ ...taken, windowRemaining }] as Acquisition[]
    await t.rejects(acquireFrom({ acquire: () => result }, demands), /result from acquire/)
    t.throws(() => {
      assertPeeked(result[0], demand('a', place()))
    }, /result from peek/)
  }
})
