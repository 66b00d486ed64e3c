// What the package's own stores accept, and what is accepted from a store.
import t from 'tap'
import { PostgresQuotaStore } from '../../lib/postgres.js'
import { InsuredQuotaStore } from '../../lib/store/insured/insured-store.js'
import { MemoryQuotaStore } from '../../lib/store/memory/memory-store.js'
import { ShardedQuotaStore } from '../../lib/store/sharded/sharded-store.js'
import { required } from '../../lib/required.js'
import { acquireFrom, assertPeeked } from '../../lib/store/result-checks.js'
import type { Acquisition, Demand, QuotaStore } from '../../lib/store/store.js'
import { acquireOne, demand, estimate, place } from '../support/demands.js'

/** The stores that need no server. */
function ownStores (): Record<string, QuotaStore> {
  return {
    MemoryQuotaStore: new MemoryQuotaStore(),
    InsuredQuotaStore: new InsuredQuotaStore({ primary: new MemoryQuotaStore() }),
    ShardedQuotaStore: new ShardedQuotaStore([new MemoryQuotaStore(), new MemoryQuotaStore()])
  }
}

const wrongDemands: [Record<string, unknown>, RegExp][] = [
  [{ counters: 5 }, /field counters of a demand must be a string; it got 5/],
  [{ callerKey: null }, /field callerKey of a demand must be a string; it got null/],
  [{ limit: -1 }, /field limit of a demand must be an integer of at least 0; it got -1/],
  [{ limit: 2 ** 53 }, /field limit .* it got 9007199254740992/],
  [{ least: -700, most: -700 }, /field most of a demand must be an integer of at least 0/],
  [{ most: 1.5 }, /field most .* it got 1\.5/],
  [{ most: 2 ** 53 }, /field most .* it got 9007199254740992/],
  [{ least: -1 }, /field least of a demand must be an integer from 0 to most; it got -1/],
  [{ least: 2 }, /field least of a demand must be an integer from 0 to most; it got 2/],
  [{ least: NaN }, /field least .* it got NaN/],
  [{ least: undefined }, /field least .* it got undefined/],
  [{ isEstimate: undefined }, /field isEstimate of a demand must be true or false/],
  [{ unit: undefined }, /field unit of a demand must be a string; it got undefined/],
  [{ reference: 5 }, /field reference of a demand must be a string or null; it got 5/],
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
  for (const store of Object.values(ownStores())) {
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
  for (const store of [...Object.values(ownStores()), new PostgresQuotaStore({ pool })]) {
    for (const other of ['a', 'b']) {
      const twice = [demand('a'), demand('a', estimate()), demand(other, { limit: 9 })]
      await t.rejects(async () => store.acquire(twice), {
        name: 'TypeError',
        message: 'two demands of a request have the same counters "default"'
      })
    }
  }
})

t.test('a settlement that is not as described is a TypeError, and changes nothing', async (t) => {
  const wrongAmounts: [unknown, unknown, RegExp][] = [
    ...[-1, 1.5, NaN, 2 ** 53, '1', undefined].map((count): [unknown, unknown, RegExp] => [
      { count, held: 0 },
      undefined,
      /the count of a settlement must be an integer of at least 0; it got/
    ]),
    [{ count: 1 }, undefined, /the held of a settlement must be an integer .*; it got undefined/],
    [3, undefined, /the count of a settlement .*; it got undefined/],
    [null, undefined, /the count of a settlement .*; it got undefined/],
    [{ count: 1, held: 0 }, 5, /the once of a settlement must be a string or undefined; it got 5/]
  ]
  for (const [name, store] of Object.entries(ownStores())) {
    const { receipt } = await acquireOne(store, 'a', estimate(3))
    const settle = required(store.settle, 'the function settle')
    for (const [less, once, message] of wrongAmounts) {
      await t.rejects(
        async () => Reflect.apply(settle, store, [receipt, less, once]),
        { name: 'TypeError', message },
        name
      )
    }
    for (const wrong of [{}, null, undefined, 5, [], { counters: 'default', callerKey: 'a' }]) {
      await t.rejects(
        async () => settle.call(store, wrong, { count: 1, held: 1 }),
        { name: 'TypeError', message: /settles receipts of its own acquisitions/ },
        name
      )
    }
    t.match(await store.peek?.(demand('a', estimate(3))), { count: 3, held: 3 }, name)
  }
})

t.test('a receipt settles in the store that made the acquisition, and in no other', async (t) => {
  for (const more of [estimate(3), place()]) {
    const [store, other] = [new MemoryQuotaStore(), new MemoryQuotaStore()]
    const { receipt, granted } = await acquireOne(store, 'a', more)
    await acquireOne(other, 'a', more)
    t.equal(other.settle(receipt, { count: granted, held: granted }), false)
    t.equal(store.settle(structuredClone(receipt), { count: granted, held: granted }), true)
    const counts = [store, other].map((each) => each.peek(demand('a', more))?.count)
    t.same(counts, [0, granted])
  }
})

t.test('forget takes the counters and then a caller key, and is else a TypeError', async (t) => {
  const callerKey = '0123456789abcdef'.repeat(4)
  for (const [name, store] of Object.entries(ownStores())) {
    await acquireOne(store, callerKey)
    for (const key of ['alice', '', callerKey.toUpperCase(), `${callerKey}0`, undefined, null]) {
      await t.rejects(
        async () => Reflect.apply(required(store.forget, 'forget'), store, ['default', key]),
        { name: 'TypeError', message: /must be 64 hexadecimal digits, as callerKey\(\)/ },
        name
      )
    }
    await t.rejects(async () => store.forget?.(callerKey, 'default'), TypeError, name)
    t.match(await store.peek?.(demand(callerKey)), { count: 1 }, name)
    await store.forget?.('default', callerKey)
    t.equal(await store.peek?.(demand(callerKey)), null, name)
  }
})

const admitted: Acquisition = {
  admitted: true,
  granted: 2,
  count: 3,
  held: 2,
  windowRemaining: 5
}
const rejected: Acquisition = { ...admitted, admitted: false, granted: 0 }

const usable: unknown[] = [
  [admitted],
  [rejected],
  [{ ...admitted, overflow: false }],
  [{ ...admitted, overflow: true, receipt: 'a receipt' }],
  [{ ...rejected, isRemembered: true }]
]

const range = 'an integer from 1 to 3'
const natural = 'an integer of at least 0'
const time = 'milliseconds above 0'

/** Fields of an acquisition, and what the error says of them. */
const wrongFields: [Acquisition, object, string][] = [
  [admitted, { isRemembered: true }, 'isRemembered must be true for a rejected demand, or absent'],
  [rejected, { isRemembered: false }, 'isRemembered must be true for a rejected demand, or absent'],
  [admitted, { granted: 0 }, `granted must be ${range}; it got 0`],
  [admitted, { granted: 4 }, `granted must be ${range}; it got 4`],
  [admitted, { granted: 1.5 }, `granted must be ${range}; it got 1.5`],
  [admitted, { granted: undefined }, `granted must be ${range}; it got undefined`],
  [rejected, { granted: 1 }, 'granted must be 0 for a rejected request; it got 1'],
  [admitted, { held: 4 }, 'held must be an integer from 0 to count; it got 4'],
  [admitted, { held: -1 }, 'held must be an integer from 0 to count; it got -1'],
  [admitted, { held: undefined }, 'held must be an integer from 0 to count; it got undefined'],
  [admitted, { count: -1 }, `count must be ${natural}; it got -1`],
  [admitted, { count: 3.5 }, `count must be ${natural}; it got 3.5`],
  [admitted, { count: '3' }, `count must be ${natural}; it got a string`],
  [admitted, { windowRemaining: 0 }, `windowRemaining must be ${time}; it got 0`],
  [admitted, { windowRemaining: null }, `windowRemaining must be ${time}; it got null`],
  [admitted, { windowRemaining: NaN }, `windowRemaining must be ${time}; it got NaN`],
  [admitted, { windowRemaining: 1e300 }, `windowRemaining must be ${time}; it got 1e`],
  [admitted, { end: 5_000 }, 'end must be absent, as the demand has none; it got 5000'],
  [admitted, { overflow: 'yes' }, 'overflow must be true, false or absent; it got a string'],
  [admitted, { admitted: 1 }, 'admitted must be true or false; it got 1']
]

const wrongResults: [unknown, string][] = [
  ...wrongFields.map(([base, fields, rule]): [unknown, string] => [
    [{ ...base, ...fields }],
    `the field ${rule}`
  ]),
  [[null], 'must be an object for each demand; it got null'],
  [[admitted, admitted], 'must be an array of 1; it got an array'],
  [[], 'must be an array of 1; it got an array'],
  [null, 'must be an array of 1; it got null'],
  [admitted, 'must be an array of 1; it got an object']
]

t.test('a result of a store is used only if it is as described', async (t) => {
  const demands = [demand('a', { least: 1, most: 3 })]
  for (const result of usable) {
    t.equal(acquireFrom({ acquire: () => result as Acquisition[] }, demands), result)
  }
  for (const [result, wrong] of wrongResults) {
    for (const given of [result, Promise.resolve(result)]) {
      const store = { acquire: () => given as Acquisition[] }
      const start = `the quota store returned an invalid result from acquire: ${wrong}`
      await t.rejects(
        async () => acquireFrom(store, demands),
        { name: 'TypeError', message: start },
        wrong
      )
    }
  }
  const two = [...demands, demand('b', { least: 1, most: 3 })]
  const result = [null, rejected]
  t.equal(acquireFrom({ acquire: () => result }, two), result, 'one of them not asked')
  t.doesNotThrow(() => {
    assertPeeked(null, demand('a'))
  })
  t.throws(() => {
    assertPeeked(null, demand('a', place()))
  }, /invalid result from peek: must be an object/)
  t.throws(() => {
    assertPeeked({ ...admitted, held: 9 }, demand('a'))
  }, /invalid result from peek: the field held must be/)
})

// The window that the result of a demand has, and those that it cannot have.
const windows: [string, Demand, object, object[], RegExp][] = [
  [
    'a place',
    demand('a', place()),
    { windowRemaining: null },
    [{ windowRemaining: undefined }, { windowRemaining: 30_000 }, { windowRemaining: '5' }],
    /the field windowRemaining must be null for a concurrent request/
  ],
  [
    'a day of a time zone',
    demand('a', { start: 1_000, end: 2_000 }),
    { windowRemaining: null, end: 2_000 },
    [{ end: undefined }, { end: '2000' }, { end: 1.5 }],
    /the field end must be milliseconds since the epoch/
  ]
]

for (const [what, asked, window, wrong, message] of windows) {
  t.test(`a result of a store on ${what} is used only if it has the window of one`, async (t) => {
    const result = { ...admitted, granted: 1, ...window }
    t.same(await acquireFrom({ acquire: () => [result] }, [asked]), [result])
    for (const fields of wrong) {
      const unusable: Acquisition = Object.assign({ ...result }, fields)
      await t.rejects(async () => acquireFrom({ acquire: () => [unusable] }, [asked]), message)
      t.throws(() => {
        assertPeeked(unusable, asked)
      }, message)
    }
  })
}
