// The faults of stores that quotaStoreContract finds: each faulty store fails a check, and each check fails for a faulty store.
import { AssertionError } from 'node:assert/strict'
import { setImmediate } from 'node:timers/promises'
import t from 'tap'
import type { Acquisition, Demand, QuotaStore } from '../../lib/store/store.js'
import { quotaStoreContract, type QuotaStoreContractOptions } from '../../lib/testing.js'
import { ReferenceStore, type Counter } from '../support/reference-store.js'

type Inner = Omit<ReferenceStore, keyof QuotaStore | 'clock' | 'quotas' | 'held'>
type Fault = (store: ReferenceStore, base: ReferenceStore) => Partial<QuotaStore> & Partial<Inner>

/** Returns a store with a fault. `base` has the functions without the fault, on the same counters. */
function faulty (fault: Fault): (options: QuotaStoreContractOptions) => QuotaStore {
  return (options) => {
    const store = new ReferenceStore(options)
    const base: ReferenceStore = new Proxy(store, {
      get: (_, name) => {
        const value: unknown = Reflect.get(ReferenceStore.prototype, name) ?? Reflect.get(store, name)
        return typeof value === 'function' ? value.bind(store) : value
      }
    })
    return Object.assign(store, fault(store, base))
  }
}

const ownOf = (store: ReferenceStore, { counters, callerKey }: Demand): Counter | undefined => store.quotaOf(counters).counters.get(callerKey)
const isOver = (store: ReferenceStore, { tally }: Counter): boolean => tally !== undefined && !store.isOpen(tally, null)

/** Reads a counter in one step and writes it in a later one, while other requests run, if a condition holds. */
function racing (condition: (store: ReferenceStore, demand: Demand, own: Counter | undefined, demands: readonly Demand[]) => boolean, isOverflow = false): Fault {
  return (store, base) => ({
    async acquire (demands) {
      const writes = demands.filter((demand) => condition(store, demand, ownOf(store, demand), demands)).map((demand) => {
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

/** Gives back in the counter that the caller has now, in the window that is open now. */
const releaseFromNow = (limit: (demand: Demand, amount: number) => number): Fault => (store, base) => {
  const demandOf = new WeakMap<Acquisition, Demand>()
  return {
    acquire (demands) {
      const acquisitions = base.acquire(demands)
      acquisitions.forEach((acquisition, index) => { if (demands[index] !== undefined) demandOf.set(acquisition, demands[index]) })
      return acquisitions
    },
    release (acquisition, amount) {
      const demand = demandOf.get(acquisition)
      if (demand === undefined) return
      const { tally } = ownOf(store, demand) ?? store.quotaOf(demand.counters).overflow
      if (tally !== undefined) tally.count = Math.max(0, tally.count - limit(demand, amount))
    }
  }
}

const faults: Record<string, Fault> = {
  'races for a new counter': racing((_, { window }, own) => window !== null && own === undefined),
  'races on an existing counter': racing((store, { window, cost }, own) => window !== null && cost === 1 && own !== undefined && !isOver(store, own)),
  'races at the start of a window': racing((store, _, own) => own !== undefined && isOver(store, own)),
  'races on the overflow counter': racing((store, { counters }, own) => own === undefined && store.quotaOf(counters).counters.size >= store.maxTrackedCallers, true),
  'races with costs': racing((_, { cost }) => cost > 1),
  'races for a place': racing((_, { window }) => window === null),
  'is atomic for single demands only': racing((_, __, own, demands) => demands.length > 1 && own !== undefined),
  'races for the last place below the caller cap': (store, base) => ({
    async acquire (demands) {
      for (const { counters, window } of demands) if (window !== null) base.sweep(store.quotaOf(counters), window)
      const hadRoom = demands.map(({ counters }) => store.quotaOf(counters).counters.size < store.maxTrackedCallers)
      await setImmediate()
      store.create = (quota, callerKey, window) => {
        const counter = { lastSeen: store.clock() }
        return hadRoom[0] === true ? quota.counters.set(callerKey, counter) && counter : base.create(quota, callerKey, window)
      }
      return base.acquire(demands)
    }
  }),
  'races when it gives back': (store) => ({
    async release (acquisition, amount) {
      const held = store.held.get(acquisition)
      const read = held?.tally.count ?? 0
      await setImmediate()
      if (held !== undefined) held.tally.count = read - Math.min(amount, held.amount)
    }
  }),

  'counts the demands that have room when another has none': () => ({ amount: ({ cost }, hasRoom) => hasRoom ? cost : 0 }),
  'counts what comes before the demand without room': (store, base) => ({
    acquire (demands) {
      const full = demands.findIndex((demand) => !store.hasRoom(store.reach(demand).tally.count, demand))
      const acquisitions = base.acquire(demands)
      if (full > 0) base.acquire(demands.slice(0, full))
      return acquisitions
    }
  }),
  'counts the first demand only': (_, base) => ({ acquire: (demands) => [...base.acquire(demands.slice(0, 1)), ...demands.slice(1).map(({ window }) => ({ admitted: true, count: 1, windowRemaining: window, overflow: false }))] }),
  'admits where any demand has room': () => ({ hasRoom: () => true }),
  'opens no window for a rejected request': (store, base) => ({
    acquire (demands) {
      const acquisitions = base.acquire(demands)
      if (acquisitions.some(({ admitted }) => !admitted)) for (const demand of demands) if (ownOf(store, demand)?.tally?.count === 0) store.forget(demand.callerKey, demand.counters)
      return acquisitions
    }
  }),
  'counts all demands for the first caller': (_, base) => ({ acquire: (demands) => base.acquire(demands.map((demand) => ({ ...demand, callerKey: demands[0]?.callerKey ?? '' }))) }),
  'returns one result for several demands': (_, base) => ({ acquire: (demands) => base.acquire(demands).slice(0, 1) }),

  'admits one over the limit': () => ({ hasRoom: (count, { limit, cost }) => count + Math.max(cost, 1) <= limit + 1 }),
  'has one counter for all': (_, base) => ({ acquire: (demands) => base.acquire(demands.map((demand) => ({ ...demand, callerKey: 'all' }))) }),
  'counts rejections': () => ({ amount: ({ cost }) => cost }),
  'truncates the limit to 32 bits': () => ({ hasRoom: (count, { limit, cost }) => count + Math.max(cost, 1) <= (limit | 0) }),
  'admits every cost below the limit': () => ({ hasRoom: (count, { limit }) => count < limit }),
  'counts a cost of 0 as 1': () => ({ amount: ({ cost }, _, all) => all ? Math.max(cost, 1) : 0 }),
  'admits each cost of 0': (_, base) => ({ hasRoom: (count, demand) => demand.cost === 0 || base.hasRoom(count, demand) }),
  'ignores the cost': () => ({ amount: (_, __, all) => all ? 1 : 0 }),
  'adds costs as 32-bit integers': () => ({ amount: ({ cost }, _, all) => all ? cost | 0 : 0 }),
  'rejects at the largest limit': () => ({ hasRoom: (count, { limit, cost }) => count + Math.max(cost, 1) <= limit }),
  'has a window 1 ms too long': (store) => ({ isOpen: ({ start, length, end }, demanded) => length === null || (end === null || demanded === null ? store.clock() - start <= length : demanded <= end) }),
  'has a sliding window': (store, base) => ({ reach: (demand) => { const { tally, overflow } = base.reach(demand); Object.assign(tally, { start: store.clock() }); return { tally, overflow } } }),
  'opens the next window when the previous one ends': (store, base) => ({
    reach (demand) {
      const { tally, overflow } = base.reach(demand)
      if (tally.start === store.clock() && tally.count === 0 && tally.length !== null) Object.assign(tally, { start: tally.start - (tally.start - 1_000_000) % tally.length })
      return { tally, overflow }
    }
  }),
  'opens a window for an earlier end': (_, base) => ({ isOpen: (tally, end) => end === null ? base.isOpen(tally, end) : end === tally.end }),
  'ends a day by the clock': (store, base) => ({ isOpen: (tally, end) => base.isOpen(tally, end) && store.clock() - tally.start < 7_200_000 }),
  'gives each quota the counters of the first': (_, base) => ({ quotaOf: (counters) => base.quotaOf(counters.includes('in-flight') ? counters : 'default') }),

  'does not sweep': () => ({ isSweepDue: () => false }),
  'sweeps 1 ms too early': (store) => ({ kept: ({ counters }, window) => new Map([...counters].filter(([, { lastSeen }]) => store.clock() - lastSeen < window + 59_999)) }),
  'sweeps 1 ms too late': (store) => ({ kept: ({ counters }, window) => new Map([...counters].filter(([, { lastSeen }]) => store.clock() - lastSeen <= window + 60_000)) }),
  'sweeps too often': (store) => ({ isSweepDue: ({ sweptAt }) => sweptAt !== undefined && store.clock() - sweptAt >= 59_999 }),
  'does not count its sweeps': (_, base) => ({ sweep: (quota, window) => { base.sweep(quota, window); quota.sweeps = 0 } }),
  'has no cap': () => ({ maxTrackedCallers: Infinity }),
  'tracks one caller too many': (store) => ({ maxTrackedCallers: store.maxTrackedCallers + 1 }),
  'uses the overflow counter for all callers at the cap': (_, base) => ({ reach: (demand) => { const quota = base.quotaOf(demand.counters); return base.reach(demand.window === null || quota.overflow.tally === undefined ? demand : { ...demand, callerKey: 'nobody' }) } }),
  'rejects all overflow': (store, base) => ({ hasRoom: (count, demand) => (ownOf(store, demand) !== undefined || demand.window === null) && base.hasRoom(count, demand) }),
  'does not update lastSeen for a rejection': (store, base) => ({
    acquire (demands) {
      const own = demands.map((demand) => ownOf(store, demand))
      const seen = own.map((counter) => counter?.lastSeen)
      const acquisitions = base.acquire(demands)
      if (acquisitions.some(({ admitted }) => !admitted)) own.forEach((counter, index) => { if (counter !== undefined) counter.lastSeen = seen[index] ?? counter.lastSeen })
      return acquisitions
    }
  }),

  'gives back nothing': () => ({ release () {} }),
  'gives back as often as it is called': (store) => ({ release: (acquisition, amount) => { const held = store.held.get(acquisition); if (held !== undefined) held.tally.count = Math.max(0, held.tally.count - amount) } }),
  'gives back in the window that is open now': (store, base) => releaseFromNow((_, amount) => amount)(store, base),
  'gives back a place as often as it is called': (store, base) => ({ ...releaseFromNow(({ window }, amount) => window === null ? amount : 0)(store, base) }),
  'gives back everything at once': (_, base) => ({ release: (acquisition) => { base.release(acquisition, Infinity) } }),
  'gives back all places of the caller': (store) => ({ release: (acquisition) => { const held = store.held.get(acquisition); if (held !== undefined) held.tally.count = 0 } }),
  'is seen when it gives back': (store, base) => ({ release (acquisition, amount) { base.release(acquisition, amount); for (const quota of store.quotas.values()) for (const counter of quota.counters.values()) counter.lastSeen = store.clock() } }),

  'peek never finds a counter': () => ({ peek: () => null }),
  'peek counts': (_, base) => ({ peek: (demand) => { base.acquire([{ ...demand, cost: 1 }]); return base.peek(demand) } }),
  'peek opens a window': (_, base) => ({ peek: (demand) => { base.acquire([{ ...demand, cost: 0 }]); return base.peek(demand) } }),
  'peek returns zero instead of null': (_, base) => ({ peek: (demand) => base.peek(demand) ?? { count: 0, windowRemaining: demand.window, overflow: false } }),
  'peek sweeps': (store, base) => ({ peek: (demand) => { if (demand.window !== null) base.sweep(store.quotaOf(demand.counters), demand.window); return base.peek(demand) } }),
  'peek updates the time of the last request': (store, base) => ({ peek: (demand) => { const own = ownOf(store, demand); if (own !== undefined) own.lastSeen = store.clock(); return base.peek(demand) } }),
  'peek ignores the overflow counter': (_, base) => ({ peek: (demand) => { const peeked = base.peek(demand); return peeked?.overflow === true ? null : peeked } }),
  'peek ignores a due sweep': (store, base) => ({ peek: (demand) => { store.isSweepDue = () => false; const peeked = base.peek(demand); store.isSweepDue = base.isSweepDue; return peeked } }),
  'peek returns null for no requests in flight': (_, base) => ({ peek: (demand) => { const peeked = base.peek(demand); return peeked?.count === 0 ? null : peeked } }),

  'list returns windows that are over': (store) => ({ list: (counters) => ({ callers: [...store.quotaOf(counters).counters].map(([callerKey, { tally }]) => ({ callerKey, count: tally?.count ?? 0, windowRemaining: 1 })), cursor: null }) }),
  'list returns the first page only': (_, base) => ({ list: (counters) => ({ callers: base.list(counters).callers.slice(0, 10), cursor: null }) }),
  'list returns the same page without end': (_, base) => ({ list: (counters) => ({ ...base.list(counters), cursor: 'again' }) }),
  'list returns the callers of every quota': (store, base) => ({ list: () => ({ callers: [...store.quotas.keys()].flatMap((counters) => base.list(counters).callers), cursor: null }) }),

  'forget does nothing': () => ({ forget () {} }),
  'forget removes every counter': (store) => ({ forget: (_, counters) => { store.quotas.delete(counters) } }),
  'forget removes the caller in every quota': (store) => ({ forget: (callerKey) => { for (const { counters } of store.quotas.values()) counters.delete(callerKey) } }),
  'forget only sets the count to 0': (store) => ({ forget: (callerKey, counters) => { const { tally } = store.quotaOf(counters).counters.get(callerKey) ?? {}; if (tally !== undefined) tally.count = 0 } }),
  'forget removes the overflow counter': (store, base) => ({ forget: (callerKey, counters) => { base.forget(callerKey, counters); store.quotaOf(counters).overflow = { lastSeen: 0 } } }),
  'forget sweeps': (store, base) => ({ forget: (callerKey, counters) => { base.sweep(store.quotaOf(counters), 60_000); base.forget(callerKey, counters) } }),
  'forget starts the interval between sweeps': (store, base) => ({ forget: (callerKey, counters) => { store.quotaOf(counters).sweptAt ??= store.clock(); base.forget(callerKey, counters) } }),
  'forget keeps the place of the caller': (store) => ({ forget: (callerKey, counters) => { const { counters: all } = store.quotaOf(counters); if (all.has(callerKey)) all.set(callerKey, { lastSeen: store.clock() }) } }),

  'inspect counts the overflow counter': (store, base) => ({ inspect: (counters) => { const state = base.inspect(counters); return { ...state, trackedCallers: state.trackedCallers + (store.quotaOf(counters).overflow.tally === undefined ? 0 : 1) } } }),
  'clearCounters clears the default quota only': (store) => ({ clearCounters: () => { store.quotas.delete('default') } }),
  'clearCounters keeps the overflow counter': (store) => ({ clearCounters: () => { for (const quota of store.quotas.values()) quota.counters.clear() } }),
  'clearCounters keeps the interval between sweeps': (store) => ({ clearCounters: () => { for (const quota of store.quotas.values()) Object.assign(quota, { counters: new Map(), overflow: { lastSeen: 0 }, sweeps: 0 }) } })
}

// A quota of an hour and of a day is checked like that of a minute.
const isOfMinute = ({ name }: { readonly name: string }): boolean => !/, in a quota with a window of one (hour|day)$/.test(name)

async function brokenRules (create: (options: QuotaStoreContractOptions) => QuotaStore): Promise<string[]> {
  const broken = []
  for (const { name, run } of quotaStoreContract(create).filter(isOfMinute)) {
    try {
      await run()
    } catch (error) {
      if (!(error instanceof AssertionError)) throw error
      broken.push(name)
    }
  }
  return broken
}

t.test('a correct store passes every check, and one passes each check of a function that it does not have', async (t) => {
  t.same(await brokenRules((options) => new ReferenceStore(options)), [])
  t.same(await brokenRules((options) => {
    const store = new ReferenceStore(options)
    return { acquire: (demands) => store.acquire(demands) }
  }), [])
})

t.test('each faulty store fails a check, and each check fails for a faulty store', async (t) => {
  const found = new Set<string>()
  for (const [name, fault] of Object.entries(faults)) {
    const broken = await brokenRules(faulty(fault))
    t.not(broken.length, 0, name)
    for (const rule of broken) found.add(rule)
  }
  t.same(quotaStoreContract((options) => new ReferenceStore(options)).filter(isOfMinute).map(({ name }) => name).filter((name) => !found.has(name)), [])
})

t.test('a store that takes each window for a minute, or keeps each counter for 120 s, fails the checks of longer windows', async (t) => {
  const wrong: Record<string, Fault> = {
    'takes each window for a minute': (_, base) => ({ acquire: (demands) => base.acquire(demands.map((demand) => ({ ...demand, window: demand.window && 60_000 }))) }),
    'keeps each counter for 120 s': (_, base) => ({ kept: (quota) => base.kept(quota, 60_000) })
  }
  for (const [name, fault] of Object.entries(wrong)) {
    const results = await Promise.allSettled(quotaStoreContract(faulty(fault)).filter((check) => !isOfMinute(check)).map(({ run }) => run()))
    t.ok(results.some(({ status }) => status === 'rejected'), name)
  }
})
