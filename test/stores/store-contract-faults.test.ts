// The faults of stores that quotaStoreContract finds: each faulty store fails a check, and each
// check fails for a faulty store.
import { AssertionError } from 'node:assert/strict'
import { setImmediate } from 'node:timers/promises'
import t from 'tap'
import type { Acquisition, Demand, QuotaStore } from '../../lib/store/store.js'
import { quotaStoreContract, type QuotaStoreContractOptions } from '../../lib/testing.js'
import { ReferenceStore, type Counter } from '../support/reference-store.js'

type Inner = Omit<ReferenceStore, keyof QuotaStore | 'clock' | 'quotas' | 'held'>
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

/** Gives back in the counter that the caller has now, in the window that is open now. */
const releaseFromNow =
  (limit: (demand: Demand, amount: number) => number): Fault =>
    (store, base) => {
      const demandOf = new WeakMap<Acquisition, Demand>()
      return {
        acquire (demands) {
          const acquisitions = base.acquire(demands)
          acquisitions.forEach((acquisition, index) => {
            if (demands[index] !== undefined) demandOf.set(acquisition, demands[index])
          })
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
  'races on an existing counter': racing(
    (store, { window, cost }, own) => window !== null && cost === 1 && own && !isOver(store, own)
  ),
  'races at the start of a window': racing((store, _, own) => own && isOver(store, own)),
  'races on the overflow counter': racing(
    (store, { counters }, own) => own === undefined && isFull(store, counters),
    true
  ),
  'races with costs': racing((_, { cost }) => cost > 1),
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
  'admits one over the limit': () => ({
    hasRoom: (count, { cost, limit }) => count + Math.max(cost, 1) <= limit + 1
  }),
  'counts rejections': () => ({ amount: ({ cost }) => cost }),
  'admits every cost below the limit': () => ({ hasRoom: (count, { limit }) => count < limit }),
  'admits each cost of 0': (_, base) => ({
    hasRoom: (count, demand) => demand.cost === 0 || base.hasRoom(count, demand)
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
  'gives back as often as it is called': (store) => ({
    release (acquisition, amount) {
      const tally = store.held.get(acquisition)?.tally
      if (tally !== undefined) tally.count = Math.max(0, tally.count - amount)
    }
  }),
  'gives back in the window that is open now': releaseFromNow((_, amount) => amount),
  'gives back a place as often as it is called': releaseFromNow(({ window }, amount) =>
    window === null ? amount : 0
  ),
  'gives back nothing of several demands': (_, base) => {
    const several = new WeakSet<Acquisition>()
    return {
      acquire (demands) {
        const acquisitions = base.acquire(demands)
        if (demands.length > 1) for (const acquisition of acquisitions) several.add(acquisition)
        return acquisitions
      },
      release: (acquisition, amount) => {
        if (!several.has(acquisition)) base.release(acquisition, amount)
      }
    }
  },
  'gives back everything at once': (_, base) => ({
    release: (acquisition) => {
      base.release(acquisition, Infinity)
    }
  }),
  'peek counts': (_, base) => ({
    peek (demand) {
      base.acquire([{ ...demand, cost: 1 }])
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
        callers: keys.map((callerKey) => ({ callerKey, count: 1, windowRemaining: 1 })),
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
  'is seen when it gives back': (store, base) => ({
    release (acquisition, amount) {
      base.release(acquisition, amount)
      for (const { counters } of store.quotas.values()) {
        for (const counter of counters.values()) counter.lastSeen = store.clock()
      }
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

async function brokenRules (
  create: (options: QuotaStoreContractOptions) => QuotaStore,
  isChecked = isOfMinute
): Promise<string[]> {
  const broken: string[] = []
  for (const { name, run } of quotaStoreContract(create).filter(isChecked)) {
    await run().catch((error) => {
      if (!(error instanceof AssertionError)) throw error
      broken.push(name)
    })
  }
  return broken
}

t.test(
  'a correct store passes every check, and one passes each check of a function that it does not have',
  async (t) => {
    t.same(await brokenRules((options) => new ReferenceStore(options)), [])
    const left: ReferenceStore[] = []
    t.same(
      await brokenRules((options) => {
        const store = new ReferenceStore(options)
        left.push(store)
        return {
          acquire: (demands) => store.acquire(demands),
          release (...given) {
            store.release(...given)
          }
        }
      }),
      []
    )
    const inFlight = left.flatMap((store) =>
      ['streams', 'jobs'].flatMap((name) => store.list(`${name}.in-flight`).callers)
    )
    t.same(
      inFlight.filter(({ count }) => count > 0),
      [],
      'after a check, the store holds no places'
    )
  }
)

t.test('each faulty store fails a check, and each check fails for a faulty store', async (t) => {
  const found = new Set<string>()
  for (const [name, fault] of Object.entries(faults)) {
    const broken = await brokenRules(faulty(fault))
    t.not(broken.length, 0, name)
    for (const rule of broken) found.add(rule)
  }
  t.same(
    quotaStoreContract((options) => new ReferenceStore(options)).filter(
      (check) => isOfMinute(check) && !found.has(check.name)
    ),
    []
  )
})

t.test(
  'a store that takes each window for a minute, or keeps each counter for 120 s, fails the checks of longer windows',
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
