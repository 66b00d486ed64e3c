// The faults of stores that quotaStoreContract finds, each by the check of the rule that it breaks.
import { AssertionError } from 'node:assert/strict'
import { setImmediate } from 'node:timers/promises'
import t from 'tap'
import { haveRoom } from '../../lib/store/side-by-side.js'
import type { Acquisitions, Demand, QuotaStore } from '../../lib/store/store.js'
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

/** Leaves `lastSeen` as it is if a condition holds for what a request has got. */
function unseen (condition: (acquisitions: Acquisitions) => boolean): Fault {
  return (store, base) => ({
    acquire (demands) {
      const seenBefore = demands.map((demand) => ownOf(store, demand)?.lastSeen)
      const acquisitions = base.acquire(demands)
      for (const [index, demand] of demands.entries()) {
        const own = ownOf(store, demand)
        if (own !== undefined && condition(acquisitions)) {
          own.lastSeen = seenBefore[index] ?? own.lastSeen
        }
      }
      return acquisitions
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

/** The counters that a request reaches have the same name for all units and windows of a quota. */
function withoutUnit (demand: Demand): Demand {
  return { ...demand, counters: demand.counters.replace(/\..*/, '') }
}

/** Faulty stores, each of which breaks the rule that they stand under. */
const faults: Record<string, Record<string, Fault>> = {
  'counts each caller separately, up to the limit of each request, and no rejected request': {
    'has one counter for all': (_, base) => ({
      acquire: (demands) => base.acquire(demands.map((each) => ({ ...each, callerKey: 'all' })))
    }),
    'admits one over the limit': () => ({
      hasRoom: (count, { least, limit }) => count + Math.max(least, 1) <= limit + 1
    }),
    'counts rejections': () => ({ rejectedAmount: ({ least }) => least })
  },
  'a request after the previous window opens one, and no later request extends it': {
    'has a window 1 ms too long': (store, base) => ({
      isOpen: (tally, day) =>
        base.isOpen(tally, day) ||
        (tally.end === null && store.clock() - tally.start === tally.length)
    }),
    'has a sliding window': (store, base) => ({
      reach (demand) {
        Object.assign(base.reach(demand).tally, { start: store.clock() })
        return base.reach(demand)
      }
    })
  },
  'admits a cost that is within the limit together with the count, and adds all of it': {
    'admits every cost below the limit': () => ({ hasRoom: (count, { limit }) => count < limit })
  },
  'has no room with a limit of 0, also for a cost of 0, and opens the window': {
    'takes a limit of 0 for none': (_, base) => ({
      hasRoom: (count, demand) => demand.limit === 0 || base.hasRoom(count, demand)
    })
  },
  'a cost of 0 needs room for 1 and adds nothing, but opens the window': {
    'admits each cost of 0': (_, base) => ({
      hasRoom: (count, demand) => demand.least === 0 || base.hasRoom(count, demand)
    })
  },
  'grants as much as there is room for, from the least to the most of a request': {
    'asks for room for the most': (_, base) => ({
      hasRoom: (count, demand) => base.hasRoom(count, { ...demand, least: demand.most })
    }),
    'grants more than there is room for': () => ({ grant: (_count, { most }) => most }),
    'grants the least only': () => ({ grant: (_count, { least }) => least }),
    'grants one less than there is room for': (_, base) => ({
      grant: (count, demand) => Math.max(demand.least, base.grant(count, demand) - 1)
    })
  },
  'grants at most the limit, and has no room for a least above it, whatever is counted': {
    'grants what a least above the limit asks for': (_, base) => ({
      hasRoom: (count, demand) =>
        base.hasRoom(count, { ...demand, least: Math.min(demand.least, demand.limit) })
    })
  },
  'the largest safe integer as a limit always has room, and costs are added exactly up to it': {
    'stops at the largest limit': () => ({
      hasRoom: (count, { least, limit }) => count + Math.max(least, 1) <= limit
    }),
    'counts beyond the largest integer': () => ({
      add (entry) {
        entry.tally.count += entry.counted
        entry.tally.entries.push(entry)
      }
    })
  },
  'a rejected request rejects none of those that arrive together with it': {
    'rejects what arrives after a rejected request': (_, base) => {
      let isRejecting = false
      return {
        async acquire (demands) {
          const asked = demands.map((demand) =>
            isRejecting ? { ...demand, least: demand.limit + 1, most: demand.limit + 1 } : demand
          )
          const acquisitions = base.acquire(asked)
          isRejecting = acquisitions.some((acquisition) => acquisition?.admitted === false)
          await setImmediate()
          isRejecting = false
          return acquisitions
        }
      }
    }
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
    }),
    'list leaves out callers without a count': (_, base) => ({
      list: (name) => ({
        callers: base.list(name).callers.filter(({ count }) => count > 0),
        cursor: null
      })
    }),
    'does not list what is held': (_, base) => ({
      list: (name) => ({
        callers: base.list(name).callers.map((caller) => ({ ...caller, held: 0 })),
        cursor: null
      })
    })
  },
  'inspect returns how many callers have a counter, whether or not a window of it counts': {
    'inspect returns the callers with a count': (_, base) => ({
      inspect: (name) => ({
        trackedCallers: base.list(name).callers.filter(({ count }) => count > 0).length,
        sweeps: 0
      })
    })
  },
  'forget removes the counter of one caller in one quota; its next request opens a window': {
    'forget takes the caller first': (_, base) => ({
      forget: (counters, callerKey) => {
        base.forget(callerKey, counters)
      }
    }),
    'forget removes the caller in every quota': (store) => ({
      forget: (_, callerKey) => {
        for (const { counters } of store.quotas.values()) counters.delete(callerKey)
      }
    }),
    'forget does nothing': () => ({ forget () {} })
  },
  'a sweep removes a caller one window and 60 s after its last request, before a lookup': {
    'sweeps 1 ms too early': (_, base) => ({
      kept: (quota, window) => base.kept(quota, window - 1)
    }),
    'sweeps 1 ms too late': (_, base) => ({ kept: (quota, window) => base.kept(quota, window + 1) })
  },
  'a request that is rejected, or that counts nothing, sets lastSeen like any other': {
    'sees only what is admitted': unseen((acquisitions) => !haveRoom(acquisitions)),
    'sees only what counts something': unseen(
      (acquisitions) => haveRoom(acquisitions) && acquisitions[0]?.granted === 0
    )
  },
  'a request that one of its quotas rejects sets lastSeen in each of them': {
    'sees what is rejected only where there is no room': unseen(
      (acquisitions) => acquisitions.length > 1 && !haveRoom(acquisitions)
    )
  },
  'sweeps 60 s after the previous sweep, and no earlier': {
    'sweeps too often': (store) => ({
      isSweepDue: ({ sweptAt }) => sweptAt !== undefined && store.clock() - sweptAt >= 59_999
    }),
    'sweeps at the caller cap only': (store, base) => ({
      isSweepDue: (quota) =>
        quota.counters.size >= store.maxTrackedCallers && base.isSweepDue(quota)
    })
  },
  'a sweep makes room for a caller that uses an overflow counter with an open window': {
    'keeps a caller on the overflow counter until its window ends': (store, base) => ({
      create: (quota, callerKey, window) => {
        const { overflow } = quota
        return overflow.tally !== undefined && !isOver(store, overflow)
          ? undefined
          : base.create(quota, callerKey, window)
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
    }),
    'opens no window of the overflow counter': (store, base) => ({
      isOpen: (tally, day) =>
        base.isOpen(tally, day) ||
        [...store.quotas.values()].some(({ overflow }) => overflow.tally === tally)
    })
  },
  'tracks no more callers than the cap, also in a race; others share the overflow counter': {
    'tracks one caller too many': (store) => ({ maxTrackedCallers: store.maxTrackedCallers + 1 })
  },
  'clearCounters removes all counters and places, and resets the sweeps and their interval': {
    'clearCounters clears the default quota only': (store) => ({
      clearCounters: () => {
        store.quotas.delete('default')
      }
    }),
    'clearCounters keeps the overflow counter': (store) => ({
      clearCounters: () => {
        for (const { counters } of store.quotas.values()) counters.clear()
      }
    }),
    'clearCounters keeps the places': (store) => ({
      clearCounters () {
        for (const counters of store.quotas.keys()) {
          if (!counters.endsWith('.concurrent')) store.quotas.delete(counters)
        }
      }
    }),
    'clearCounters keeps the time of the last sweep': (store) => ({
      clearCounters () {
        for (const quota of store.quotas.values()) {
          quota.counters.clear()
          quota.overflow = { lastSeen: 0 }
          quota.sweeps = 0
        }
      }
    })
  },
  'peek, list, forget and a settlement are no requests and run no sweep': {
    'peek is seen': (store, base) => ({
      peek (demand) {
        const own = ownOf(store, demand)
        if (own !== undefined) own.lastSeen = store.clock()
        return base.peek(demand)
      }
    }),
    'list sweeps': (store, base) => ({
      list (counters) {
        base.sweep(store.quotaOf(counters), 60_000)
        return base.list(counters)
      }
    })
  },
  'peek finds the overflow counter until a sweep is due, also if that would make room': {
    'peek takes dead counters for removed': (store, base) => ({
      peek (demand) {
        const { counters, callerKey, window } = demand
        const quota = store.quotaOf(counters)
        if (window === null || quota.counters.has(callerKey)) return base.peek(demand)
        const hasRoom = store.kept(quota, window).size < store.maxTrackedCallers
        return hasRoom ? null : base.peek(demand)
      }
    })
  },
  'peek finds the overflow counter if the sweep that is due removes no counter': {
    'peek takes a sweep that is due for room': (store, base) => ({
      peek (demand) {
        const quota = store.quotaOf(demand.counters)
        const isNew = demand.window !== null && !quota.counters.has(demand.callerKey)
        return isNew && store.isSweepDue(quota) ? null : base.peek(demand)
      }
    })
  },
  'list returns each caller whose own counter in the quota has an open window, and no other': {
    'list returns windows that are over': (store) => ({
      list (counters) {
        const keys = [...store.quotaOf(counters).counters.keys()]
        return {
          callers: keys.map((callerKey) => ({ callerKey, count: 1, held: 0, windowRemaining: 1 })),
          cursor: null
        }
      }
    })
  },
  'forget makes room for one other caller if the caller has a counter': {
    'forget removes the overflow counter': (store, base) => ({
      forget (counters, callerKey) {
        base.forget(counters, callerKey)
        store.quotaOf(counters).overflow = { lastSeen: 0 }
      }
    })
  },
  'each quota has counters, a caller cap, an overflow counter and sweeps of its own': {
    'has the same counters for each unit and window of a name': (_, base) => ({
      acquire: (demands) => base.acquire(demands.map(withoutUnit))
    })
  },
  'holds nothing of a request whose cost is no estimate': {
    'holds exact costs, too': (_, base) => ({
      acquire: (demands) => base.acquire(demands.map((each) => ({ ...each, isEstimate: true })))
    })
  },
  'holds an estimate until it is settled, and then counts what was used': {
    'never holds anything': () => ({ heldBy: () => 0 }),
    'never settles': () => ({ settle () {} }),
    'settles without an end of what is held': () => ({ letGo () {} }),
    'takes nothing back': () => ({ lower () {} }),
    'takes everything back': (_, base) => ({
      lower: (entry) => {
        base.lower(entry, entry.counted)
      }
    }),
    'settles another amount': (_, base) => ({
      settle: (receipt, { count, held }) => base.settle(receipt, { count: count - 1, held })
    }),
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
  'holds no more than it counts, and counts no less than 0, beyond the largest integer': {
    'holds more than it counts': () => ({
      heldBy: ({ entries }) => entries.reduce((sum, { held }) => sum + held, 0)
    }),
    'counts less than 0': () => ({
      lower ({ tally }, less) {
        tally.count -= less
      }
    })
  },
  'a settlement lowers what is counted and what is held by its amounts, each time': {
    'settles only the first time': (_, base) => {
      const settled = new Set<unknown>()
      return {
        settle (receipt, less) {
          if (settled.has(receipt)) return true
          settled.add(receipt)
          return base.settle(receipt, less)
        }
      }
    },
    'lowers twice': (_, base) => ({
      lower (entry, less) {
        base.lower(entry, less)
        base.lower(entry, less)
      }
    }),
    'ends all that is held at the first settlement': (_, base) => ({
      letGo (entry) {
        base.letGo(entry, entry.held)
      }
    }),
    'holds less by what is counted less': (_, base) => ({
      settle: (receipt, { count }) => base.settle(receipt, { count, held: count })
    })
  },
  'a settlement ends what its own request holds, whatever was used, and nothing else': {
    'ends what is held only if less was used': (_, base) => ({
      settle: (receipt, { count, held }) =>
        base.settle(receipt, { count, held: count === 0 ? 0 : held })
    }),
    'holds a part of what was settled': (_, base) => ({
      letGo (entry, less) {
        base.letGo(entry, Math.ceil(less / 2))
      }
    }),
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
    }),
    'ends what a later window holds': (store, base) => ({
      letGo (entry, less) {
        base.letGo(entry, less)
        const tally = tallyNow(store, entry)
        if (tally !== entry.tally) for (const each of tally?.entries ?? []) each.held = 0
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
    }),
    'remembers the latest text only': (_, base) => ({
      isFirst (entry, once) {
        const isLatest = [...entry.texts].at(-1) === once
        entry.texts.delete(once)
        return !isLatest && base.isFirst(entry, once)
      }
    }),
    'has the same texts for all receipts': (_, base) => {
      const texts = new Set<string>()
      return { isFirst: (entry, once) => base.isFirst({ ...entry, texts }, once) }
    }
  },
  'a settlement with a text is remembered until the window is over, and then not applied': {
    'applies it after the window': (_, base) => ({
      isFirst (entry, once) {
        const wasKnown = entry.texts.has(once)
        return base.isFirst(entry, once) || !wasKnown
      }
    }),
    'forgets the texts after half a minute': (store, base) => ({
      isFirst (entry, once) {
        if (store.clock() - entry.acquiredAt > 30_000) entry.texts.clear()
        return base.isFirst(entry, once)
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
  'a settlement does not lengthen the time for which a counter is kept': {
    'is seen when it settles': (store, base) => ({
      settle (receipt, less) {
        const demand = store.entries.get(receipt)?.demand
        const own = demand && ownOf(store, demand)
        if (own !== undefined) own.lastSeen = store.clock()
        return base.settle(receipt, less)
      }
    })
  },
  'a settlement runs no sweep': {
    'sweeps when it settles': (store, base) => ({
      settle (receipt, less) {
        const demand = store.entries.get(receipt)?.demand
        if (demand?.window != null) base.sweep(store.quotaOf(demand.counters), demand.window)
        return base.settle(receipt, less)
      }
    })
  },
  'holds an estimate in the period of ten minutes that admitted it, and in the next one': {
    'holds until the window ends': () => ({ isHeldNow: () => true }),
    'holds for a period longer': (store) => ({
      isHeldNow: (acquiredAt) => periodsSince(store, acquiredAt) <= 2
    }),
    'holds in one period only': (store) => ({
      isHeldNow: (acquiredAt) => periodsSince(store, acquiredAt) === 0
    }),
    'holds for 20 minutes from the admission': (store) => ({
      isHeldNow: (acquiredAt) => store.clock() - acquiredAt < 1_200_000
    }),
    'holds for 10 minutes from the admission': (store) => ({
      isHeldNow: (acquiredAt) => store.clock() - acquiredAt < 600_000
    }),
    'peek does not show what is held': (_, base) => ({
      peek (demand) {
        const peeked = base.peek(demand)
        return peeked && { ...peeked, held: 0 }
      }
    }),
    'holds what a later window admits in the period of the first window': (_, base) => {
      const first = new Map<string, Tally>()
      return {
        add (entry) {
          const { counters, callerKey } = entry.demand
          const name = `${counters} ${callerKey}`
          const window = first.get(name) ?? entry.tally
          first.set(name, window)
          if (window !== entry.tally) Object.assign(entry, { acquiredAt: window.start })
          base.add(entry)
        }
      }
    }
  },
  'a settlement ends what is held in the period that admitted it, and in no other': {
    'ends first what is held longest': (store) => ({
      letGo ({ tally }, less) {
        let left = less
        for (const each of tally.entries) {
          if (!store.isHeldNow(each.acquiredAt)) continue
          const ended = Math.min(left, each.held)
          each.held -= ended
          left -= ended
        }
      }
    }),
    'ends what was admitted last': () => ({
      letGo ({ tally }, less) {
        let left = less
        for (const each of tally.entries.toReversed()) {
          const ended = Math.min(left, each.held)
          each.held -= ended
          left -= ended
        }
      }
    })
  },
  'a new window holds nothing that the last one held in this period or the one before': {
    'holds what the last window held as if it were admitted now': (store, base) => ({
      reach (demand) {
        const last = ownOf(store, demand)?.tally
        const reached = base.reach(demand)
        if (last !== undefined && last !== reached.tally) {
          const acquiredAt = store.clock()
          reached.tally.entries.push(...last.entries.map((entry) => ({ ...entry, acquiredAt })))
        }
        return reached
      }
    })
  },
  'an estimate that is no longer held is settled like any other': {
    'lowers only what is still held': (store, base) => ({
      lower (entry, less) {
        const isPlace = entry.demand.window === null
        if (isPlace || store.isHeldNow(entry.acquiredAt)) base.lower(entry, less)
      }
    })
  },
  'settles each demand of a request': {
    'settles nothing of several demands': (_, base) => {
      const several = new Set<unknown>()
      return {
        acquire (demands) {
          const acquisitions = base.acquire(demands)
          if (demands.length > 1) for (const { receipt } of acquisitions) several.add(receipt)
          return acquisitions
        },
        settle: (receipt, less) => !several.has(receipt) && base.settle(receipt, less)
      }
    }
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
  'frees each of many places once, also if they are settled together': {
    'frees a place for each two settlements only': (_, base) => {
      let settlements = 0
      return {
        lower (entry, less) {
          settlements += 1
          if (entry.demand.window !== null || settlements % 2 === 1) base.lower(entry, less)
        }
      }
    }
  },
  'peek and list return the number of concurrent requests, and forget keeps them': {
    'holds no places': (_, base) => ({
      heldBy: (tally) => (tally.length === null ? 0 : base.heldBy(tally))
    }),
    'forget frees places': (store) => ({
      forget (counters, callerKey) {
        store.quotaOf(counters).counters.delete(callerKey)
      }
    })
  },
  'a window of a time zone lasts until a day begins at its end or later, whatever the time': {
    'opens a window of a time zone for each later end': (_, base) => ({
      reach: (demand) => base.reach({ ...demand, start: demand.end && demand.end - 1 })
    }),
    'opens a window of a time zone 1 ms too early': (_, base) => ({
      isOpen: (tally, day) => base.isOpen(tally, day && day + 1)
    }),
    'opens a window of a time zone 1 ms too late': (_, base) => ({
      isOpen: (tally, day) => base.isOpen(tally, day && day - 1)
    }),
    'ends the windows of a time zone by their length': (_, base) => ({
      isOpen: (tally) => base.isOpen(tally, null)
    }),
    'lets a window of a time zone last until the end that was asked for last': (_, base) => ({
      reach (demand) {
        const reached = base.reach(demand)
        if (demand.end !== null) Object.assign(reached.tally, { end: demand.end })
        return reached
      }
    })
  },
  'a caller whose time zone changes gets no second window for the same hours': {
    'opens a window of a time zone for each other day': (_, base) => ({
      isOpen: (tally, day) =>
        base.isOpen(tally, day) &&
        (day === null || tally.end === null || tally.end - day <= 86_400_000)
    })
  },
  'peek, list, forget and settlements follow the windows of a time zone': {
    'forget does nothing in a time zone': (_, base) => ({
      forget: (name, key) => {
        if (!name.includes('/')) base.forget(name, key)
      }
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
    }),
    'grants less than the least': () => ({
      grantBeside: (_, __, alone) => Math.min(...alone)
    }),
    'grants a range no more than demands of other units': (_, base) => ({
      grantBeside: (demand, demands, alone) =>
        base.grantBeside(demand, demands.map((each) => ({ ...each, unit: demand.unit })), alone)
    }),
    'leaves a cost of one size out': () => ({
      grantBeside (demand, demands, alone) {
        const ranges = alone.filter((_, index) => {
          const each = demands[index]
          return each !== undefined && each.least < each.most && each.unit === demand.unit
        })
        const lowest = Math.min(...ranges, demand.most)
        return Math.max(demand.least, lowest)
      }
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
  'a rejected request opens the windows of its other demands, as far as they were asked': {
    'opens no window for a rejected request': (store, base) => ({
      acquire (demands) {
        const isNew = demands.map((demand) => ownOf(store, demand) === undefined)
        const acquisitions = base.acquire(demands)
        if (acquisitions.every(({ admitted }) => admitted)) return acquisitions
        for (const [index, demand] of demands.entries()) {
          const { counters } = store.quotaOf(demand.counters)
          if (isNew[index] === true) counters.delete(demand.callerKey)
        }
        return acquisitions
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
    }),
    'has one counter for the places beyond the cap': (store, base) => ({
      reach (demand) {
        const isBeyond = demand.window === null && isFull(store, demand.counters)
        const isNew = ownOf(store, demand) === undefined
        return base.reach(isBeyond && isNew ? { ...demand, callerKey: 'untracked' } : demand)
      }
    })
  },
  'admits no more simultaneous requests than have room: on overflow counters': {
    'races on the overflow counter': racing(
      (store, { counters }, own) => own === undefined && isFull(store, counters),
      true
    )
  }
}

/** Stores whose peek is wrong, each of which breaks a rule of peek. */
const peekFaults: Record<string, Fault> = {
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
  'peek finds no window': (_, base) => ({
    peek: (demand) => (demand.window === null ? base.peek(demand) : null)
  })
}

// A quota of an hour and of a day is checked like that of a minute.
const isOfMinute = ({ name }: { readonly name: string }): boolean =>
  !/, in a quota with a window of one (hour|day)$/.test(name)

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

async function brokenRules (create: Create, isChecked = isOfMinute): Promise<string[]> {
  const broken: string[] = []
  for (const check of quotaStoreContract(create).filter(isChecked)) {
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

const ofPeek = 'peek returns what a request finds: '

t.test('for each rule of the contract, there are stores that break it', async (t) => {
  const rules = quotaStoreContract((options) => new ReferenceStore(options))
    .filter(isOfMinute)
    .map(({ name }) => name)
  const others = rules.filter((name) => !name.startsWith(ofPeek))
  t.same(Object.keys(faults).sort(), others.sort(), 'there is a faulty store for each rule')
})

for (const [rule, ofRule] of Object.entries(faults)) {
  t.test(`the contract finds each store that breaks a rule: ${rule}`, async (t) => {
    for (const [name, fault] of Object.entries(ofRule)) {
      const error = await errorOf(faulty(fault), rule)
      t.equal(error?.message.split('\n')[0], rule, name)
    }
  })
}

t.test('each fault of peek is found, and each rule about peek finds one', async (t) => {
  const left = new Set<string>()
  for (const [name, fault] of Object.entries(peekFaults)) {
    const broken = await brokenRules(
      faulty(fault),
      (check) => isOfMinute(check) && check.name.startsWith(ofPeek)
    )
    t.not(broken.length, 0, name)
    for (const rule of broken) left.add(rule)
  }
  const rules = quotaStoreContract((options) => new ReferenceStore(options))
    .filter((check) => isOfMinute(check) && check.name.startsWith(ofPeek))
    .map(({ name }) => name)
  t.same([...left].sort(), rules.sort())
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
