// Faults of stores that quotaStoreContract finds, each by the check of the rule that it breaks.
import { AssertionError } from 'node:assert/strict'
import { setImmediate } from 'node:timers/promises'
import t from 'tap'
import type { Demand, QuotaStore } from '../../lib/store/store.js'
import {
  quotaStoreContract,
  type QuotaStoreContractCheck,
  type QuotaStoreContractOptions
} from '../../lib/testing.js'
import { ReferenceStore, type Counter, type Entry, type Tally } from '../support/reference-store.js'

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
function tallyNow (store: ReferenceStore, { demand }: Entry): Tally | undefined {
  const counter = ownOf(store, demand) ?? store.quotaOf(demand.counters).overflow
  return counter.tally
}

/** How many periods of ten minutes have begun since a time. */
function periodsSince (store: ReferenceStore, time: number): number {
  return Math.floor(store.clock() / 600_000) - Math.floor(time / 600_000)
}

const separately =
  'counts each caller separately, up to the limit of each request, and no rejected request'
const inOneWindow = 'a request after the previous window opens one, and no later request extends it'
const sweeps =
  'a sweep removes a caller one window and 60 s after its last request, before a lookup'
// A quota of an hour and of a day is checked like that of a minute.
const ofAnHour = ', in a quota with a window of one hour'

/**
 * Faulty stores, each of which breaks the rule that they stand under: those that the contract says
 * are found, and one for what is easily got wrong on a server.
 */
const faults: Record<string, Record<string, Fault>> = {
  [`peek returns what a request finds: ${separately}`]: {
    'peek finds no window': (_, base) => ({
      peek: (demand) => (demand.window === null ? base.peek(demand) : null)
    })
  },
  [separately]: {
    'admits one over the limit': () => ({
      hasRoom: (count, { least, limit }) => count + Math.max(least, 1) <= limit + 1
    })
  },
  [inOneWindow]: {
    'has a window 1 ms too long': (store, base) => ({
      isOpen: (tally, day) =>
        base.isOpen(tally, day) ||
        (tally.end === null && store.clock() - tally.start === tally.length)
    })
  },
  'grants as much as there is room for, from the least to the most of a request': {
    'grants more than there is room for': () => ({ grant: (_count, { most }) => most })
  },
  'the largest safe integer as a limit always has room, and costs are added exactly up to it': {
    'stops at the largest limit': () => ({
      hasRoom: (count, { least, limit }) => count + Math.max(least, 1) <= limit
    })
  },
  'peek changes nothing': {
    'peek counts': (_, base) => ({
      peek (demand) {
        base.acquire([demand])
        return base.peek(demand)
      }
    })
  },
  'list returns every caller, on as many pages as it needs': {
    'list returns the first page only': (_, base) => ({
      list: (name) => ({ callers: base.list(name).callers.slice(0, 10), cursor: null })
    })
  },
  'forget removes the counter of one caller in one quota; its next request opens a window': {
    'forget removes the caller in every quota': (store) => ({
      forget: (_, callerKey) => {
        for (const { counters } of store.quotas.values()) counters.delete(callerKey)
      }
    })
  },
  [sweeps]: {
    'sweeps 1 ms too early': (_, base) => ({
      kept: (quota, window) => base.kept(quota, window - 1)
    }),
    'sweeps 1 ms too late': (_, base) => ({ kept: (quota, window) => base.kept(quota, window + 1) })
  },
  'a request that is rejected, or that counts nothing, sets lastSeen like any other': {
    'sees only what is admitted': (store, base) => ({
      acquire (demands) {
        const seenBefore = demands.map((demand) => ownOf(store, demand)?.lastSeen)
        const acquisitions = base.acquire(demands)
        if (acquisitions.every(({ admitted }) => admitted)) return acquisitions
        for (const [index, demand] of demands.entries()) {
          const own = ownOf(store, demand)
          if (own !== undefined) own.lastSeen = seenBefore[index] ?? own.lastSeen
        }
        return acquisitions
      }
    })
  },
  'the overflow counter has the window and limit of others; who has a counter keeps using it': {
    'uses the overflow counter for all callers at the cap': (store, base) => ({
      reach (demand) {
        const quota = store.quotaOf(demand.counters)
        const { counters } = quota
        const isAtCap = demand.window !== null && quota.overflow.tally !== undefined
        if (isAtCap && counters.size >= store.maxTrackedCallers) {
          return base.reach({ ...demand, callerKey: 'untracked' })
        }
        return base.reach(demand)
      }
    })
  },
  'tracks no more callers than the cap, also in a race; others share the overflow counter': {
    'tracks one caller too many': (store) => ({ maxTrackedCallers: store.maxTrackedCallers + 1 })
  },
  'clearCounters removes all counters and places, and resets the sweeps and their interval': {
    'clearCounters keeps the places': (store) => ({
      clearCounters () {
        for (const counters of store.quotas.keys()) {
          if (!counters.endsWith('.concurrent')) store.quotas.delete(counters)
        }
      }
    })
  },
  'holds an estimate until it is settled, and then counts what was used': {
    'takes nothing back': () => ({ lower () {} }),
    'recognises the object of an acquisition': (_, base) => {
      const own = new WeakSet<object>()
      return {
        acquire (demands) {
          return base.acquire(demands).map((acquisition) => {
            const receipt = { is: acquisition.receipt }
            own.add(receipt)
            return { ...acquisition, ...(acquisition.receipt !== undefined && { receipt }) }
          })
        },
        settle (receipt, less) {
          if (typeof receipt !== 'object' || receipt === null || !own.has(receipt)) return false
          return base.settle(Reflect.get(receipt, 'is'), less)
        }
      }
    }
  },
  'a settlement lowers what is counted and what is held by its amounts, each time': {
    'lowers twice': (_, base) => ({
      lower (entry, less) {
        base.lower(entry, less)
        base.lower(entry, less)
      }
    })
  },
  'a settlement ends what its own request holds, whatever was used, and nothing else': {
    'ends what all requests of the caller hold': (_, base) => ({
      letGo (entry) {
        for (const each of entry.tally.entries) base.letGo(each, each.held)
      }
    })
  },
  'a settlement changes the window that counted, and no other': {
    'lowers the window that is open now': (store, base) => ({
      lower (entry, less) {
        base.lower({ ...entry, tally: tallyNow(store, entry) ?? entry.tally }, less)
      }
    })
  },
  'a settlement with a text is applied the first time only': {
    'applies it each time': () => ({ isFirst: () => true }),
    'says that it was applied': (_, base) => ({
      settle (receipt, less, once) {
        base.settle(receipt, less, once)
        return true
      }
    })
  },
  'a settlement with a text is remembered until the window is over, and then not applied': {
    'applies it after the window': (_, base) => ({
      isFirst (entry, once) {
        const wasKnown = entry.texts.has(once)
        return base.isFirst(entry, once) || !wasKnown
      }
    })
  },
  'of simultaneous settlements with the same text, one is applied': {
    'looks for the text before another turn': (store, base) => ({
      async settle (receipt, less, once) {
        const entry = store.entries.get(receipt)
        const isKnown = once !== undefined && entry?.texts.has(once) === true
        await setImmediate()
        entry?.texts.delete(once ?? '')
        return isKnown ? false : base.settle(receipt, less, once)
      }
    })
  },
  'settles on the counter that has counted': {
    'settles on the counter that the caller has now': (store, base) => ({
      lower (entry, less) {
        const tally = ownOf(store, entry.demand)?.tally ?? entry.tally
        base.lower({ ...entry, tally }, less)
      }
    })
  },
  'holds an estimate in the period of ten minutes that admitted it, and in the next one': {
    'holds for a period longer': (store) => ({
      isHeldNow: (acquiredAt) => periodsSince(store, acquiredAt) <= 2
    }),
    'holds in one period only': (store) => ({
      isHeldNow: (acquiredAt) => periodsSince(store, acquiredAt) === 0
    })
  },
  'settles each of many requests with its own amount, also if they are settled together': {
    'loses one of simultaneous settlements': (_, base) => {
      let isSettling = false
      return {
        async settle (receipt, less) {
          if (isSettling && less.count === 7) return true
          isSettling = true
          await setImmediate()
          isSettling = false
          return base.settle(receipt, less)
        }
      }
    }
  },
  'settling takes nothing back from a removed counter, whether or not there is another one': {
    'frees a place in place of one that was cleared': (store, base) => ({
      lower (entry, less) {
        const tally = entry.demand.window === null ? tallyNow(store, entry) : entry.tally
        base.lower({ ...entry, tally: tally ?? entry.tally }, less)
      }
    })
  },
  'takes a place if there are fewer concurrent requests than the limit, and frees it once': {
    'frees a place twice': (_, base) => ({
      lower (entry, less) {
        base.lower(entry, less)
        entry.isFree = false
      }
    }),
    'races for a place': racing((_, { window }) => window === null)
  },
  'peek and list return the number of places, which forget and a settlement by 0 keep': {
    'forget frees places': (store) => ({
      forget (counters, callerKey) {
        store.quotaOf(counters).counters.delete(callerKey)
      }
    })
  },
  'a window of a time zone lasts until a day begins at its end or later, whatever the time': {
    'opens a window of a time zone 1 ms too early': (_, base) => ({
      isOpen: (tally, day) => base.isOpen(tally, day && day + 1)
    }),
    'ends the windows of a time zone by their length': (_, base) => ({
      isOpen: (tally) => base.isOpen(tally, null)
    })
  },
  'a caller whose time zone changes gets no second window for the same hours': {
    'opens a window of a time zone for each other day': (_, base) => ({
      isOpen: (tally, day) =>
        base.isOpen(tally, day) &&
        (day === null || tally.end === null || tally.end - day <= 86_400_000)
    })
  },
  'counts each demand of a request, also for different callers, if all of them have room': {
    'returns one result for several demands': (_, base) => ({
      acquire: (demands) => base.acquire(demands).slice(0, 1)
    })
  },
  'grants a range no more than the other demands of its unit, and no less than its least': {
    'grants each demand as if it were alone': () => ({
      grantBeside: (demand, demands, alone) => alone[demands.indexOf(demand)] ?? 0
    })
  },
  'grants each demand of a request what its own quota has room for': {
    'grants each demand of a request the same': (_, base) => ({
      acquire (demands) {
        const most = Math.min(...demands.map((demand) => demand.most))
        return base.acquire(
          demands.map((demand) => ({ ...demand, most: Math.max(demand.least, most) }))
        )
      }
    })
  },
  'counts and holds no demand of a request if one of them has no room, whichever it is': {
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
    'counts the demands with room of what it rejects': () => ({
      rejectedAmount: ({ least }, hasRoom) => (hasRoom ? least : 0)
    })
  },
  'says of each demand of a rejected request whether it has room': {
    'no demand of a rejected request has room': (_, base) => ({
      acquire (demands) {
        const acquisitions = base.acquire(demands)
        if (acquisitions.every(({ admitted }) => admitted)) return acquisitions
        return acquisitions.map((acquisition) => ({ ...acquisition, admitted: false }))
      }
    })
  },
  'admits no more simultaneous requests than have room: on new counters': {
    'races for a new counter': racing((_, { window }, own) => window !== null && own === undefined)
  },
  'admits no more simultaneous requests than have room: on existing counters': {
    'races on an existing counter': racing(
      (store, { window, least }, own) =>
        window !== null && least === 1 && own && !isOver(store, own)
    ),
    'races with costs': racing((_, { least }) => least > 1),
    'is atomic for single demands only': racing(
      (_, __, own, demands) => demands.length > 1 && own !== undefined
    )
  },
  'admits no more simultaneous requests than have room: at the start of a window': {
    'races at the start of a window': racing((store, _, own) => own && isOver(store, own))
  },
  'places have no caller cap, and no overflow counter': {
    'counts places on the overflow counter at the cap': (_, base) => ({
      create: (quota, callerKey, window) => base.create(quota, callerKey, window ?? 1)
    })
  },
  'admits no more simultaneous requests than have room: on overflow counters': {
    'races on the overflow counter': racing(
      (store, { counters }, own) => own === undefined && isFull(store, counters),
      true
    )
  },
  [inOneWindow + ofAnHour]: {
    'takes each window for a minute': (_, base) => ({
      acquire: (demands) =>
        base.acquire(demands.map((demand) => ({ ...demand, window: demand.window && 60_000 })))
    })
  },
  [sweeps + ofAnHour]: {
    'keeps each counter for 120 s': (_, base) => ({ kept: (quota) => base.kept(quota, 60_000) })
  }
}

type Create = (options: QuotaStoreContractOptions) => QuotaStore

/** Runs a check. Returns null if the store passes it. */
async function run (check: QuotaStoreContractCheck | undefined): Promise<AssertionError | null> {
  try {
    await check?.run()
    return null
  } catch (error) {
    if (!(error instanceof AssertionError)) throw error
    return error
  }
}

function errorOf (create: Create, rule: string): Promise<AssertionError | null> {
  return run(quotaStoreContract(create).find(({ name }) => name === rule))
}

async function brokenRules (create: Create): Promise<string[]> {
  const broken: string[] = []
  for (const check of quotaStoreContract(create)) {
    if ((await run(check)) !== null) broken.push(check.name)
  }
  return broken
}

t.test(
  'a correct store passes every check, also one that lacks the functions of some checks',
  async (t) => {
    const left: ReferenceStore[] = []
    t.same(
      await brokenRules((options) => {
        const store = new ReferenceStore(options)
        left.push(store)
        return {
          acquire: (demands) => store.acquire(demands),
          settle: (receipt, less) => {
            store.settle(receipt, less)
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

for (const [rule, ofRule] of Object.entries(faults)) {
  t.test(`the contract finds each store that breaks a rule: ${rule}`, async (t) => {
    for (const [name, fault] of Object.entries(ofRule)) {
      const error = await errorOf(faulty(fault), rule)
      t.equal(error?.message.split('\n')[0], rule, name)
    }
  })
}
