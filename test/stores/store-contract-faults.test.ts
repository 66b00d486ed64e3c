// The faults of stores that quotaStoreContract finds: each faulty store fails a check, and each
// check fails for a faulty store.
import { AssertionError } from 'node:assert/strict'
import { setImmediate } from 'node:timers/promises'
import t from 'tap'
import type { Acquisition, Demand, QuotaStore } from '../../lib/store/store.js'
import {
  quotaStoreContract,
  type QuotaStoreContractCheck,
  type QuotaStoreContractOptions
} from '../../lib/testing.js'
import { ReferenceStore, type Counter, type Entry } from '../support/reference-store.js'

type Inner = Omit<ReferenceStore, keyof QuotaStore | 'clock' | 'quotas' | 'entries'>
type Fault = (store: ReferenceStore, base: ReferenceStore) => Partial<QuotaStore> & Partial<Inner>

/**
 * Returns a store with a fault. `base` has the functions without the fault, on the same counters.
 */
function faulty (fault: Fault): (options: QuotaStoreContractOptions) => QuotaStore {
  return (options) => {
    const store = new ReferenceStore(options)
    const base: ReferenceStore = new Proxy(store, {
      get: (_, name) => {
        const value: unknown =
          Reflect.get(ReferenceStore.prototype, name) ?? Reflect.get(store, name)
        return typeof value === 'function' ? value.bind(store) : value
      }
    })
    return Object.assign(store, fault(store, base))
  }
}

const ownOf = (store: ReferenceStore, { counters, callerKey }: Demand) =>
  store.quotaOf(counters).counters.get(callerKey)
const isOver = (store: ReferenceStore, { tally }: Counter): boolean =>
  tally !== undefined && !store.isOpen(tally, null)
const isFull = (store: ReferenceStore, counters: string): boolean =>
  store.quotaOf(counters).counters.size >= store.maxTrackedCallers

type Condition = (
  store: ReferenceStore,
  demand: Demand,
  own: Counter | undefined,
  all: readonly Demand[]
) => unknown

/**
 * Reads a counter in one step and writes it in a later one, while other requests run, if a
 * condition holds.
 */
function racing (condition: Condition, isOverflow = false): Fault {
  return (store, base) => ({
    async acquire (demands) {
      const writes = demands
        .filter((demand) => condition(store, demand, ownOf(store, demand), demands))
        .map((demand) => {
          const quota = store.quotaOf(demand.counters)
          const counter = isOverflow ? quota.overflow : ownOf(store, demand)
          const tally = counter?.tally && { ...counter.tally }
          return () => {
            if (counter === undefined) quota.counters.delete(demand.callerKey)
            else if (tally !== undefined) counter.tally = tally
          }
        })
      await setImmediate()
      for (const write of writes) write()
      return base.acquire(demands)
    }
  })
}

/** The window that is open now on the counter that the caller has now. */
function tallyNow (store: ReferenceStore, { demand }: Entry) {
  const counter = ownOf(store, demand) ?? store.quotaOf(demand.counters).overflow
  return counter.tally
}

/** Settles in the window that is open now, instead of the one that counted. */
const settleInWindowNow: Fault = (store, base) => ({
  settle (acquisition, used, end) {
    const entry = store.entries.get(acquisition)
    const part = entry?.parts[0]
    const now = entry && tallyNow(store, entry)
    if (entry !== undefined && part !== undefined && now !== undefined) {
      entry.parts[0] = { tally: now, amount: part.amount }
    }
    base.settle(acquisition, used, end)
  }
})

const faults: Record<string, Fault> = {
  'races for a new counter': racing((_, { window }, own) => window !== null && own === undefined),
  'races on an existing counter': racing(
    (store, { window, least }, own) => window !== null && least === 1 && own && !isOver(store, own)
  ),
  'races at the start of a window': racing((store, _, own) => own && isOver(store, own)),
  'races on the overflow counter': racing(
    (store, { counters }, own) => own === undefined && isFull(store, counters),
    true
  ),
  'races with costs': racing((_, { least }) => least > 1),
  'races for a place': racing((_, { window }) => window === null),
  'is atomic for single demands only': racing(
    (_, __, own, demands) => demands.length > 1 && own !== undefined
  ),
  'counts what comes before the demand without room': (store, base) => ({
    acquire (demands) {
      const full = demands.findIndex(
        (demand) => !store.hasRoom(store.reach(demand).tally.count, demand)
      )
      const acquisitions = base.acquire(demands)
      if (full > 0) base.acquire(demands.slice(0, full))
      return acquisitions
    }
  }),
  'returns one result for several demands': (_, base) => ({
    acquire: (demands) => base.acquire(demands).slice(0, 1)
  }),
  'has one counter for all': (_, base) => ({
    acquire: (demands) => base.acquire(demands.map((each) => ({ ...each, callerKey: 'all' })))
  }),
  'has the same counters for each unit and window of a name': (_, base) => ({
    acquire: (demands) =>
      base.acquire(
        demands.map((each) => ({ ...each, counters: each.counters.replace(/\..*/, '') }))
      )
  }),
  'admits one over the limit': () => ({
    hasRoom: (count, { least, limit }) => count + Math.max(least, 1) <= limit + 1
  }),
  'counts rejections': () => ({ rejectedAmount: ({ least }) => least }),
  'counts the demands with room of what it rejects': () => ({
    rejectedAmount: ({ least }, hasRoom) => (hasRoom ? least : 0)
  }),
  'admits every cost below the limit': () => ({ hasRoom: (count, { limit }) => count < limit }),
  'admits each cost of 0': (_, base) => ({
    hasRoom: (count, demand) => demand.least === 0 || base.hasRoom(count, demand)
  }),
  'asks for room for the most': (_, base) => ({
    hasRoom: (count, demand) => base.hasRoom(count, { ...demand, least: demand.most })
  }),
  'grants more than there is room for': () => ({ grant: (_count, { most }) => most }),
  'grants the least only': () => ({ grant: (_count, { least }) => least }),
  'grants one less than there is room for': (_, base) => ({
    grant: (count, demand) => Math.max(demand.least, base.grant(count, demand) - 1)
  }),
  'forgets what is held': (_, base) => ({
    add: (tally, amount) => {
      base.add(tally, amount, 0)
    }
  }),
  'holds exact costs, too': (_, base) => ({
    acquire: (demands) => base.acquire(demands.map((each) => ({ ...each, isEstimate: true })))
  }),
  'does not list what is held': (_, base) => ({
    list: (name) => ({
      callers: base.list(name).callers.map((caller) => ({ ...caller, held: 0 })),
      cursor: null
    })
  }),
  'peek does not show what is held': (_, base) => ({
    peek (demand) {
      const peeked = base.peek(demand)
      return peeked && { ...peeked, held: 0 }
    }
  }),
  'has a window 1 ms too long': (store, base) => ({
    isOpen: (tally, end) =>
      base.isOpen(tally, end) ||
      (tally.end === null && store.clock() - tally.start === tally.length)
  }),
  'has a sliding window': (store, base) => ({
    reach (demand) {
      Object.assign(base.reach(demand).tally, { start: store.clock() })
      return base.reach(demand)
    }
  }),
  'sweeps 1 ms too early': (_, base) => ({ kept: (quota, window) => base.kept(quota, window - 1) }),
  'sweeps 1 ms too late': (_, base) => ({ kept: (quota, window) => base.kept(quota, window + 1) }),
  'sweeps too often': (store) => ({
    isSweepDue: ({ sweptAt }) => sweptAt !== undefined && store.clock() - sweptAt >= 59_999
  }),
  'sweeps at the caller cap only': (store, base) => ({
    isSweepDue: (quota) => quota.counters.size >= store.maxTrackedCallers && base.isSweepDue(quota)
  }),
  'tracks one caller too many': (store) => ({ maxTrackedCallers: store.maxTrackedCallers + 1 }),
  'never settles': () => ({ settle () {} }),
  'settles without an end of what is held': () => ({ letGo () {} }),
  'holds what was settled less': (_, base) => ({
    letGo: (tally, held) => {
      base.letGo(tally, Math.floor(held / 2))
    }
  }),
  'settles another amount': (_, base) => ({
    settle: (acquisition, used, end) => {
      base.settle(acquisition, used + 1, end)
    }
  }),
  'settles with less than was used beyond the grant': () => ({ settleMore () {} }),
  'takes nothing back': () => ({ settleLess () {} }),
  'takes everything back at once': (_, base) => ({
    settleLess: (entry) => {
      base.settleLess(entry, Infinity)
    }
  }),
  'settles only the first time': (_, base) => {
    const settled = new WeakSet<Acquisition>()
    return {
      settle (acquisition, used, end) {
        if (!settled.has(acquisition)) base.settle(acquisition, used, end)
        settled.add(acquisition)
      }
    }
  },
  'settles twice': (_, base) => ({
    settleLess (entry, less) {
      base.settleLess(entry, less)
      for (const { tally } of entry.parts) base.takeBack(tally, less)
    }
  }),
  'adds twice': (_, base) => ({
    settleMore (entry, more, end) {
      base.settleMore(entry, more, end)
      base.settleMore({ ...entry, parts: [] }, more, end)
    }
  }),
  'ends what is held as often as it settles': (store, base) => ({
    settle (acquisition, used, end) {
      const entry = store.entries.get(acquisition)
      const tally = entry && tallyNow(store, entry)
      if (entry?.held === 0 && tally !== undefined) base.letGo(tally, acquisition.granted)
      base.settle(acquisition, used, end)
    }
  }),
  'takes back in the window that is open now': settleInWindowNow,
  'adds to the window that counted': (_, base) => ({
    settleMore ({ parts }, more) {
      const [first] = parts
      if (first === undefined) return
      base.add(first.tally, more, 0)
      first.amount += more
    }
  }),
  'adds up to the limit only': (store, base) => ({
    settleMore (entry, more, end) {
      const tally = tallyNow(store, entry)
      const room = entry.demand.limit - (tally?.count ?? 0)
      base.settleMore(entry, Math.min(more, Math.max(0, room)), end)
    }
  }),
  'is not seen when it adds': (store, base) => ({
    settleMore (entry, more, end) {
      const own = ownOf(store, entry.demand)
      const lastSeen = own?.lastSeen ?? 0
      base.settleMore(entry, more, end)
      if (own !== undefined) own.lastSeen = lastSeen
    }
  }),
  'is seen when it takes back': (store, base) => ({
    settleLess (entry, less) {
      base.settleLess(entry, less)
      const own = ownOf(store, entry.demand)
      if (own !== undefined) own.lastSeen = store.clock()
    }
  }),
  'takes back from the first window first': (_, base) => ({
    settleLess (entry, less) {
      entry.parts.reverse()
      base.settleLess(entry, less)
      entry.parts.reverse()
    }
  }),
  'settles rejected requests': (store, base) => ({
    acquire (demands) {
      const acquisitions = base.acquire(demands)
      for (const [index, acquisition] of acquisitions.entries()) {
        const demand = demands[index]
        if (demand === undefined || store.entries.has(acquisition)) continue
        const { tally } = store.reach(demand)
        store.entries.set(acquisition, { demand, parts: [{ tally, amount: 0 }], held: 0 })
      }
      return acquisitions
    }
  }),
  'frees a place twice': (store, base) => ({
    settle (acquisition, used, end) {
      const entry = store.entries.get(acquisition)
      base.settle(acquisition, used, end)
      if (entry?.demand.window !== null) return
      const [part] = entry.parts
      if (part !== undefined) part.amount = 1
    }
  }),
  'settles nothing of several demands': (_, base) => {
    const several = new WeakSet<Acquisition>()
    return {
      acquire (demands) {
        const acquisitions = base.acquire(demands)
        if (demands.length > 1) for (const acquisition of acquisitions) several.add(acquisition)
        return acquisitions
      },
      settle: (acquisition, used, end) => {
        if (!several.has(acquisition)) base.settle(acquisition, used, end)
      }
    }
  },
  'peek counts': (_, base) => ({
    peek (demand) {
      base.acquire([demand])
      return base.peek(demand)
    }
  }),
  'peek ignores a due sweep': (store, base) => ({
    peek (demand) {
      store.isSweepDue = () => false
      const peeked = base.peek(demand)
      store.isSweepDue = base.isSweepDue
      return peeked
    }
  }),
  'peek ignores the overflow counter': (_, base) => ({
    peek: (demand) => (base.peek(demand)?.overflow === true ? null : base.peek(demand))
  }),
  'list returns windows that are over': (store) => ({
    list (counters) {
      const keys = [...store.quotaOf(counters).counters.keys()]
      return {
        callers: keys.map((callerKey) => ({ callerKey, count: 1, held: 0, windowRemaining: 1 })),
        cursor: null
      }
    }
  }),
  'list leaves out callers without a count': (_, base) => ({
    list: (name) => ({
      callers: base.list(name).callers.filter(({ count }) => count > 0),
      cursor: null
    })
  }),
  'forget does nothing in a time zone': (_, base) => ({
    forget: (key, name) => {
      if (!name.includes('/')) base.forget(key, name)
    }
  }),
  'list returns the first page only': (_, base) => ({
    list: (name) => ({ callers: base.list(name).callers.slice(0, 10), cursor: null })
  }),
  'forget removes the caller in every quota': (store) => ({
    forget: (callerKey) => {
      for (const { counters } of store.quotas.values()) counters.delete(callerKey)
    }
  }),
  'forget does nothing': () => ({ forget () {} }),
  'forget removes the overflow counter': (store, base) => ({
    forget (callerKey, counters) {
      base.forget(callerKey, counters)
      store.quotaOf(counters).overflow = { lastSeen: 0 }
    }
  }),
  'clearCounters clears the default quota only': (store) => ({
    clearCounters: () => {
      store.quotas.delete('default')
    }
  }),
  'clearCounters keeps the overflow counter': (store) => ({
    clearCounters: () => {
      for (const { counters } of store.quotas.values()) counters.clear()
    }
  })
}

// A quota of an hour and of a day is checked like that of a minute.
const isOfMinute = ({ name }: { readonly name: string }): boolean =>
  !/, in a quota with a window of one (hour|day)$/.test(name)

type Create = (options: QuotaStoreContractOptions) => QuotaStore

async function isBroken (check: QuotaStoreContractCheck): Promise<boolean> {
  try {
    await check.run()
    return false
  } catch (error) {
    if (!(error instanceof AssertionError)) throw error
    return true
  }
}

async function brokenRules (create: Create, isChecked = isOfMinute): Promise<string[]> {
  const broken: string[] = []
  for (const check of quotaStoreContract(create).filter(isChecked)) {
    if (await isBroken(check)) broken.push(check.name)
  }
  return broken
}

t.test(
  'a correct store passes every check, also one that lacks the functions of some checks',
  async (t) => {
    t.same(await brokenRules((options) => new ReferenceStore(options)), [])
    const left: ReferenceStore[] = []
    t.same(
      await brokenRules((options) => {
        const store = new ReferenceStore(options)
        left.push(store)
        return {
          acquire: (demands) => store.acquire(demands),
          settle: (...given) => {
            store.settle(...given)
          }
        }
      }),
      []
    )
    const concurrent = left.flatMap((store) =>
      ['streams', 'jobs'].flatMap((name) => store.list(`${name}.concurrent`).callers)
    )
    t.same(
      concurrent.filter(({ count }) => count > 0),
      [],
      'after a check, the store holds no places'
    )
  }
)

t.test('each faulty store fails a check, and each check fails for a faulty store', async (t) => {
  const left = new Set(
    quotaStoreContract((options) => new ReferenceStore(options))
      .filter(isOfMinute)
      .map(({ name }) => name)
  )
  for (const [name, fault] of Object.entries(faults)) {
    const checks = quotaStoreContract(faulty(fault)).filter(isOfMinute)
    let isFound = false
    for (const check of checks.filter((each) => left.has(each.name))) {
      if (!(await isBroken(check))) continue
      isFound = true
      left.delete(check.name)
    }
    // Checks that have failed before are needed only until one fails.
    for (const check of checks) isFound ||= await isBroken(check)
    t.ok(isFound, name)
  }
  t.same(left, new Set())
})

t.test(
  'a window of a minute, or a retention of 120 s, in each quota fails the checks of longer windows',
  async (t) => {
    const wrong: Record<string, Fault> = {
      'takes each window for a minute': (_, base) => ({
        acquire: (demands) =>
          base.acquire(demands.map((demand) => ({ ...demand, window: demand.window && 60_000 })))
      }),
      'keeps each counter for 120 s': (_, base) => ({ kept: (quota) => base.kept(quota, 60_000) })
    }
    for (const [name, fault] of Object.entries(wrong)) {
      t.not((await brokenRules(faulty(fault), (check) => !isOfMinute(check))).length, 0, name)
    }
  }
)
