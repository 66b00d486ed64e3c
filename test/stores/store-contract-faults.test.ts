// The faults of stores that quotaStoreContract detects.
import { setImmediate } from 'node:timers/promises'
import t from 'tap'
import type { Acquisition, QuotaStore } from '../../lib/index.js'
import { quotaStoreContract, type QuotaStoreContractOptions } from '../../lib/testing.js'
import { PlainStore, type Entry } from '../support/plain-store.js'

type Create = (options: QuotaStoreContractOptions) => QuotaStore

async function brokenRules (create: Create): Promise<string[]> {
  const broken = []
  for (const { name, run } of quotaStoreContract(create)) {
    try {
      await run()
    } catch {
      broken.push(name)
    }
  }
  return broken
}

// Stores that read in one step and write in a later one, while other requests run. Each does so in one situation, and is atomic otherwise.

/** Returns a store that writes a counter as it was one turn of the event loop ago, and then adds to it. */
function racing (counterOf: (store: PlainStore, callerKey: string, cost: number) => Entry | undefined): Create {
  return (options) => changed(new PlainStore(options), (store, acquire) => async (callerKey, limit, cost = 1) => {
    const entry = counterOf(store, callerKey, cost)
    const read = { ...entry }
    await setImmediate()
    if (entry !== undefined) Object.assign(entry, read)
    return acquire(callerKey, limit, cost)
  })
}

/** Reads whether there is a counter, and inserts one in a later step. */
const racingForNewCallers: Create = (options) => changed(new PlainStore(options), (store, acquire) => async (callerKey, limit, cost) => {
  const isNew = !store.entries.has(callerKey)
  await setImmediate()
  if (isNew) store.forget(callerKey)
  return acquire(callerKey, limit, cost)
})

/** Reads whether there is room for one more caller, and inserts the counter in a later step. */
const racingAtTheCap: Create = (options) => changed(new PlainStore(options), (store, acquire) => async (callerKey, limit, cost) => {
  store.sweep(options.clock())
  const hadRoom = store.entries.size < options.maxTrackedCallers
  await setImmediate()
  store.mayTrack = () => hadRoom
  return acquire(callerKey, limit, cost)
})

function changed (store: PlainStore, acquireOf: (store: PlainStore, acquire: PlainStore['acquire']) => QuotaStore['acquire']): QuotaStore {
  return Object.assign(store, { acquire: acquireOf(store, store.acquire.bind(store)) })
}

class RacingEnter extends PlainStore {
  override async enter (callerKey: string, limit: number) {
    const read = this.placesOf(callerKey)
    await setImmediate()
    this.places.set(callerKey, read)
    return super.enter(callerKey, limit)
  }
}

class RacingLeave extends PlainStore {
  override async leave (callerKey: string) {
    const read = this.placesOf(callerKey)
    await setImmediate()
    this.places.set(callerKey, read - 1)
  }
}

const isOver = (store: PlainStore, { windowStart }: Entry) => store.clock() - windowStart >= store.windowLength
const burst = 'admits exactly as many concurrent requests as the limit allows'

const races: Record<string, [rule: string, create: Create]> = {
  'races for a new counter': [`${burst}: on a new counter`, racingForNewCallers],
  'races on an existing counter': [`${burst}: on an existing counter`, racing((store, callerKey, cost) => cost === 1 ? store.entries.get(callerKey) : undefined)],
  'races at the start of a window': [`${burst}: at the start of a window`, racing((store, callerKey) => {
    const entry = store.entries.get(callerKey)
    return entry !== undefined && isOver(store, entry) ? entry : undefined
  })],
  'races on the overflow counter': [`${burst}: on the overflow counter`, racing((store, callerKey) => store.entries.has(callerKey) ? undefined : store.shared)],
  'races for the last place below the caller cap': ['tracks no more callers than the caller cap, and the others share the overflow counter, even if all of them arrive at once', racingAtTheCap],
  'races with costs': ['adds the cost of each concurrent request', racing((store, callerKey, cost) => cost > 1 ? store.entries.get(callerKey) : undefined)],
  'races for a place in flight': ['enter admits exactly as many concurrent requests as the limit allows, and each leave gives back one place', (options) => new RacingEnter(options)],
  'races when it gives back a place': ['enter admits exactly as many concurrent requests as the limit allows, and each leave gives back one place', (options) => new RacingLeave(options)]
}

// The faults, under the rule that each breaks.
const faults: Record<string, Record<string, typeof PlainStore>> = {
  'admits as many requests as the limit allows, and rejects the next': {
    'admits one over the limit': class extends PlainStore { override admits (entry: Entry, limit: number) { return entry.count <= limit } }
  },
  'counts each caller separately': {
    'has one counter for all': class extends PlainStore { override acquire (_callerKey: string, limit: number, cost?: number) { return super.acquire('all', limit, cost) } }
  },
  'applies the limit of each request, and does not count rejected requests': {
    'counts rejections': class extends PlainStore { override count (entry: Entry) { super.count(entry, true, 1) } },
    'remembers the first limit': class extends PlainStore { first: number | undefined; override admits (entry: Entry, limit: number) { this.first ??= limit; return entry.count < this.first } },
    'truncates the limit to 32 bits': class extends PlainStore { override admits (entry: Entry, limit: number) { return entry.count < (limit | 0) } }
  },
  'opens a window with the first request, and no later request, admitted or rejected, extends it': {
    'has a window 1 ms too short': class extends PlainStore { override windowLength = 59_999 },
    'has a window 1 ms too long': class extends PlainStore { override windowLength = 60_001 },
    'restarts its window with a rejection': class extends PlainStore { override count (entry: Entry, admitted: boolean, cost: number) { super.count(entry, admitted, cost); if (!admitted) entry.windowStart = this.clock() } }
  },
  'opens the next window with the first request after the previous window, and not at the end of that window': {
    'opens the next window when the previous one ends': class extends PlainStore {
      override acquire (callerKey: string, limit: number, cost?: number) {
        const entry = this.entries.get(callerKey)
        if (entry !== undefined) for (let now = this.clock(); now - entry.windowStart >= this.windowLength; entry.count = 0) entry.windowStart += this.windowLength
        return super.acquire(callerKey, limit, cost)
      }
    }
  },
  'admits a request whose cost exceeds the limit if the count is below the limit, and adds the whole cost': {
    'ignores the cost': class extends PlainStore { override count (entry: Entry, admitted: boolean) { super.count(entry, admitted, 1) } },
    'adds costs up to the limit only': class extends PlainStore { limit = 0; override admits (entry: Entry, limit: number) { this.limit = limit; return super.admits(entry, limit) } override count (entry: Entry, admitted: boolean, cost: number) { super.count(entry, admitted, Math.min(cost, this.limit - entry.count)) } },
    'rejects a cost that exceeds the limit': class extends PlainStore { cost = 0; override acquire (callerKey: string, limit: number, cost = 1) { this.cost = cost; return super.acquire(callerKey, limit, cost) } override admits (entry: Entry, limit: number) { return entry.count + this.cost <= limit } }
  },
  'a cost of 0 adds nothing, but opens the window': {
    'counts a cost of 0 as 1': class extends PlainStore { override count (entry: Entry, admitted: boolean, cost: number) { super.count(entry, admitted, cost || 1) } },
    'opens no window with a cost of 0': class extends PlainStore { override acquire (callerKey: string, limit: number, cost = 1) { if (cost > 0) return super.acquire(callerKey, limit, cost); const { count = 0, windowRemaining = this.windowLength, overflow = false } = this.peek(callerKey) ?? {}; return { admitted: count < limit, count, windowRemaining, overflow } } },
    'admits each request with a cost of 0': class extends PlainStore { override acquire (callerKey: string, limit: number, cost = 1) { return super.acquire(callerKey, cost === 0 ? Infinity : limit, cost) } }
  },
  'adds the cost of each request whose limit is the largest safe integer, even after a rejected request': {
    'remembers a rejection for any limit': class extends PlainStore { rejected: Acquisition | undefined; override acquire (callerKey: string, limit: number, cost?: number) { const acquisition = this.rejected ?? super.acquire(callerKey, limit, cost); if (!acquisition.admitted) this.rejected = acquisition; return acquisition } }
  },
  'adds costs exactly, up to the largest safe integer': {
    'adds costs as 32-bit integers': class extends PlainStore { override count (entry: Entry, admitted: boolean, cost: number) { super.count(entry, admitted, cost | 0) } },
    'adds costs beyond the largest safe integer': class extends PlainStore { override count (entry: Entry, admitted: boolean, cost: number) { if (admitted) entry.count += cost } }
  },
  'a sweep removes a caller one window and 60 s after its last request, before the caller of the request is looked up': {
    'does not sweep': class extends PlainStore { override retention = Infinity },
    'sweeps too late': class extends PlainStore { override retention = 120_001 },
    'sweeps after the look-up': class extends PlainStore {
      override acquire (callerKey: string, limit: number, cost?: number) {
        const { sweep } = this
        this.sweep = () => {}
        const acquisition = super.acquire(callerKey, limit, cost)
        this.sweep = sweep
        this.sweep(this.clock())
        return acquisition
      }
    }
  },
  'a sweep removes no caller earlier, whether its last request was admitted, was rejected or had a cost of 0': {
    'sweeps too early': class extends PlainStore { override retention = 119_999 },
    'does not update lastSeen for a rejection': class extends PlainStore { override touch (entry: Entry, now: number, admitted: boolean, cost: number) { if (admitted) super.touch(entry, now, admitted, cost) } },
    'does not update lastSeen for a cost of 0': class extends PlainStore { override touch (entry: Entry, now: number, admitted: boolean, cost: number) { if (cost > 0) super.touch(entry, now, admitted, cost) } }
  },
  'sweeps 60 s after the previous sweep, and no earlier': {
    'does not count its sweeps': class extends PlainStore { override sweep (now: number) { super.sweep(now); this.sweeps = 0 } },
    'sweeps too rarely': class extends PlainStore { override interval = 60_001 },
    'sweeps too often': class extends PlainStore { override interval = 59_999 }
  },
  'inspect returns the number of tracked callers, without those that a sweep removed': {
    'inspect counts removed callers': class extends PlainStore { removed = 0; override sweep (now: number) { this.removed += this.entries.size - this.swept(now).size; super.sweep(now) } override inspect () { return { trackedCallers: this.entries.size + this.removed, sweeps: this.sweeps } } },
    'inspect counts the callers of the overflow counter': class extends PlainStore { readonly others = new Set<string>(); override overflow (callerKey: string, now: number) { this.others.add(callerKey); return super.overflow(callerKey, now) } override inspect () { return { trackedCallers: this.entries.size + this.others.size, sweeps: this.sweeps } } }
  },
  'tracks no more callers than the caller cap, and the others share the overflow counter': {
    'has no cap': class extends PlainStore { override readonly maxTrackedCallers = Infinity },
    'tracks one caller too many': class extends PlainStore { constructor (options: QuotaStoreContractOptions) { super({ ...options, maxTrackedCallers: options.maxTrackedCallers + 1 }) } },
    'does not share the overflow counter': class extends PlainStore {
      readonly others = new Map<string, Entry>()
      override overflow (callerKey: string, now: number) {
        const entry = this.others.get(callerKey) ?? { count: 0, windowStart: now, lastSeen: now }
        this.others.set(callerKey, entry)
        return entry
      }
    },
    'rejects all overflow': class extends PlainStore { override admits (entry: Entry, limit: number) { return entry !== this.shared && super.admits(entry, limit) } }
  },
  'the overflow counter has the same window and limit as other counters': {
    'has an overflow counter with a sliding window': class extends PlainStore { override overflow (callerKey: string, now: number) { const entry = super.overflow(callerKey, now); if (now - entry.windowStart < this.windowLength) entry.windowStart = now; return entry } },
    'ignores the cost on the overflow counter': class extends PlainStore { override count (entry: Entry, admitted: boolean, cost: number) { super.count(entry, admitted, entry === this.shared ? 1 : cost) } }
  },
  'callers that have a counter keep using it after the caller cap is reached': {
    'uses the overflow counter for all callers at the cap': class extends PlainStore { override acquire (callerKey: string, limit: number, cost?: number) { return super.acquire(this.shared === undefined ? callerKey : 'any', limit, cost) } }
  },
  'clearCounters removes all counters and the overflow counter, and resets the number of sweeps and the interval between them': {
    'keeps the overflow counter when it is cleared': class extends PlainStore { override clearCounters () { const { shared } = this; super.clearCounters(); this.shared = shared } },
    'keeps counting sweeps when it is cleared': class extends PlainStore { override clearCounters () { const { sweeps } = this; super.clearCounters(); this.sweeps = sweeps } },
    'keeps the interval between sweeps when it is cleared': class extends PlainStore { override clearCounters () { const { sweptAt } = this; super.clearCounters(); this.sweptAt = sweptAt } },
    'sweeps immediately after clearCounters': class extends PlainStore { override clearCounters () { super.clearCounters(); this.sweptAt = 0 } }
  },
  'peek returns the count and the remaining time of the caller\'s own counter, and counts nothing': {
    'peek never finds a counter': class extends PlainStore { override peek () { return null } },
    'peek counts': class extends PlainStore { override peek (callerKey: string) { const entry = this.entries.get(callerKey); if (entry !== undefined) entry.count += 1; return super.peek(callerKey) } },
    'peek returns the whole window as the remaining time': class extends PlainStore { override peek (callerKey: string) { const peeked = super.peek(callerKey); return peeked && { ...peeked, windowRemaining: 60_000 } } },
    'peek returns null for a count of 0': class extends PlainStore { override peek (callerKey: string) { const peeked = super.peek(callerKey); return peeked?.count === 0 ? null : peeked } }
  },
  'peek returns null for a caller without a counter and after its window, and opens no window': {
    'peek opens a window': class extends PlainStore {
      override peek (callerKey: string) {
        const entry = this.entries.get(callerKey)
        if (entry !== undefined && this.clock() - entry.windowStart >= 60_000) Object.assign(entry, { count: 0, windowStart: this.clock() })
        return entry?.count === 0 ? null : super.peek(callerKey)
      }
    },
    'peek finds a window that is over': class extends PlainStore { override peek (callerKey: string) { const own = this.entries.get(callerKey); return own === undefined ? super.peek(callerKey) : { count: own.count, windowRemaining: Math.max(1, 60_000 - (this.clock() - own.windowStart)), overflow: false } } },
    'peek returns zero instead of null': class extends PlainStore { override peek (callerKey: string) { return super.peek(callerKey) ?? { count: 0, windowRemaining: 60_000, overflow: false } } },
    'peek returns null 1 ms too early': class extends PlainStore { override peek (callerKey: string) { const peeked = super.peek(callerKey); return peeked === null || peeked.windowRemaining <= 1 ? null : peeked } }
  },
  'peek creates no counter, runs no sweep and does not start the interval between sweeps': {
    'peek creates a counter': class extends PlainStore { override peek (callerKey: string) { if (!this.entries.has(callerKey)) this.create(callerKey, this.clock()); return null } },
    'peek sweeps': class extends PlainStore { override peek (callerKey: string) { this.sweep(this.clock()); return super.peek(callerKey) } },
    'peek sweeps, but starts no interval': class extends PlainStore { override peek (callerKey: string) { if (this.sweptAt !== undefined) this.sweep(this.clock()); return super.peek(callerKey) } },
    'peek starts the interval between sweeps': class extends PlainStore { override peek (callerKey: string) { this.sweptAt ??= this.clock(); return super.peek(callerKey) } }
  },
  'peek does not update the time of the last request': {
    'peek updates the time of the last request': class extends PlainStore { override peek (callerKey: string) { const entry = this.entries.get(callerKey); if (entry !== undefined) entry.lastSeen = this.clock(); return super.peek(callerKey) } }
  },
  'peek returns the overflow counter for each caller that would be counted on it, until its window ends': {
    'peek ignores the overflow counter': class extends PlainStore { override peek (callerKey: string) { const peeked = super.peek(callerKey); return peeked?.overflow === true ? null : peeked } },
    'peek always returns the overflow counter if there is one': class extends PlainStore { override peek (callerKey: string) { const entry = this.shared; return entry === undefined || this.clock() - entry.windowStart >= 60_000 ? super.peek(callerKey) : { count: entry.count, windowRemaining: 60_000 - (this.clock() - entry.windowStart), overflow: true } } },
    'peek returns the overflow counter after its window': class extends PlainStore { override peek (callerKey: string) { const { shared } = this; return super.peek(callerKey) ?? (shared === undefined || this.entries.has(callerKey) || this.entries.size < this.maxTrackedCallers ? null : { count: shared.count, windowRemaining: 1, overflow: true }) } }
  },
  'peek returns null if a due sweep would make room for the caller': {
    'peek ignores a due sweep': class extends PlainStore { override peek (callerKey: string) { const { interval } = this; this.interval = Infinity; const peeked = super.peek(callerKey); this.interval = interval; return peeked } }
  },
  'forget removes the caller\'s counter and no other, so that its next request opens a new window': {
    'forget does nothing': class extends PlainStore { override forget () {} },
    'forget removes every counter': class extends PlainStore { override forget () { this.entries.clear() } },
    'forget only sets the count to 0': class extends PlainStore { override forget (callerKey: string) { const entry = this.entries.get(callerKey); if (entry !== undefined) entry.count = 0 } },
    'forget sets the remaining time, but not the count': class extends PlainStore { override forget (callerKey: string) { const entry = this.entries.get(callerKey); if (entry !== undefined) entry.windowStart = this.clock() } }
  },
  'forget removes at most one tracked caller': {
    'forget only ends the window': class extends PlainStore { override forget (callerKey: string) { const entry = this.entries.get(callerKey); if (entry !== undefined) entry.windowStart = -Infinity } },
    'forget miscounts the callers': class extends PlainStore { forgotten = 0; override forget (callerKey: string) { super.forget(callerKey); this.forgotten += 1 } override inspect () { return { trackedCallers: this.entries.size + this.forgotten, sweeps: this.sweeps } } }
  },
  'forget leaves nothing behind that makes a sweep remove a later counter': {
    'forget remembers when the caller was last seen': class extends PlainStore {
      readonly forgotten = new Map<string, Entry>()
      override forget (callerKey: string) {
        const entry = this.entries.get(callerKey)
        if (entry !== undefined) this.forgotten.set(callerKey, entry)
        super.forget(callerKey)
      }

      override swept (now: number) {
        return new Map([...super.swept(now)].filter(([callerKey]) => now - (this.forgotten.get(callerKey)?.lastSeen ?? now) < 120_000))
      }
    }
  },
  'forget runs no sweep and does not start the interval between sweeps': {
    'forget sweeps': class extends PlainStore { override forget (callerKey: string) { this.sweep(this.clock()); super.forget(callerKey) } },
    'forget starts the interval between sweeps': class extends PlainStore { override forget (callerKey: string) { this.sweptAt ??= this.clock(); super.forget(callerKey) } }
  },
  'forget makes room for one other caller if the caller has a counter, and for none if not': {
    'forget always frees a place': class extends PlainStore { spare = 0; override forget (callerKey: string) { super.forget(callerKey); this.spare += 1 } override mayTrack () { return this.entries.size < this.maxTrackedCallers + this.spare } },
    'forget keeps the place taken': class extends PlainStore { taken = 0; override forget (callerKey: string) { if (this.entries.delete(callerKey)) this.taken += 1 } override mayTrack () { return this.entries.size + this.taken < this.maxTrackedCallers } }
  },
  'forget does not change the overflow counter': {
    'forget removes the overflow counter too': class extends PlainStore { override forget (callerKey: string) { super.forget(callerKey); this.shared = undefined } },
    'forget removes the overflow counter of a caller without its own': class extends PlainStore { override forget (callerKey: string) { if (!this.entries.delete(callerKey)) this.shared = undefined } }
  },
  'enter takes a place if the caller has fewer requests in flight than the limit, and a limit of 0 takes none': {
    'enter takes one place too many': class extends PlainStore { override enter (callerKey: string, limit: number) { return super.enter(callerKey, limit + 1) } },
    'enter counts all callers together': class extends PlainStore { override enter (_callerKey: string, limit: number) { return super.enter('all', limit) } },
    'enter takes a place with a limit of 0': class extends PlainStore { override enter (callerKey: string, limit: number) { return super.enter(callerKey, limit === 0 ? Infinity : limit) } },
    'enter counts rejected requests': class extends PlainStore { override enter (callerKey: string, limit: number) { const entry = super.enter(callerKey, limit); if (limit > 0 && this.placesOf(callerKey) === limit) this.places.set(callerKey, limit + 1); return entry } }
  },
  'leave gives back one place of the caller, and none of other callers': {
    'leave gives back nothing': class extends PlainStore { override leave () {} },
    'leave gives back every place of its caller': class extends PlainStore { override leave (callerKey: string) { this.places.delete(callerKey) } },
    'leave gives back a place of every caller': class extends PlainStore { override leave () { for (const callerKey of this.places.keys()) super.leave(callerKey) } }
  },
  'enter does not change the counter of the caller': {
    'enter counts a request': class extends PlainStore { override enter (callerKey: string, limit: number) { if (limit > 0) this.acquire(callerKey, Infinity); return super.enter(callerKey, limit) } },
    'enter takes the count of requests as places': class extends PlainStore { override placesOf (callerKey: string) { return super.placesOf(callerKey) + (this.entries.get(callerKey)?.count ?? 0) } }
  },
  'quota returns the same store for the same name, and another one for another name': {
    'quota returns a new store each time': class extends PlainStore { override quota (name: string, window: number) { this.quotas.clear(); return super.quota(name, window) } },
    'quota returns the store itself': class extends PlainStore { override quota () { return this } }
  },
  'each quota has counters, a caller cap and an overflow counter of its own': {
    'quotas share their counters': class extends PlainStore { override quota (name: string, window: number) { const quota = super.quota(name, window); quota.entries = this.entries; return quota } },
    'quotas share the caller cap': class extends PlainStore { override quota (name: string, window: number) { const quota = super.quota(name, window); quota.mayTrack = () => this.entries.size + quota.entries.size < this.maxTrackedCallers; return quota } },
    'quotas share the overflow counter': class extends PlainStore { override quota (name: string, window: number) { const quota = super.quota(name, window); quota.overflow = (callerKey, now) => this.overflow(callerKey, now); return quota } }
  },
  'each quota has sweeps of its own': {
    'quotas share their sweeps': class extends PlainStore { override quota (name: string, window: number) { const quota = super.quota(name, window); quota.inspect = () => this.inspect(); return quota } }
  },
  'forget removes the counter of one quota only': {
    'forget removes the counters of each quota': class extends PlainStore { override quota (name: string, window: number) { const quota = super.quota(name, window); quota.forget = (callerKey) => { for (const { entries } of [this, ...this.quotas.values()]) entries.delete(callerKey) }; return quota } }
  },
  'clearCounters removes the counters of each quota': {
    'clearCounters removes the counters of the default quota only': class extends PlainStore { override clearCounters () { const quotas = [...this.quotas]; this.quotas.clear(); super.clearCounters(); for (const [name, quota] of quotas) this.quotas.set(name, quota) } }
  },
  'each quota counts the requests in flight of a caller separately': {
    'quotas share their places': class extends PlainStore { override quota (name: string, window: number) { const quota = super.quota(name, window); quota.enter = (callerKey, limit) => this.enter(callerKey, limit); return quota } }
  },
  'admits as many requests as the limit allows, and rejects the next, in a quota with a window of one day': {
    'quota ignores the window': class extends PlainStore { override quota (name: string) { return super.quota(name, 60_000) } }
  },
  'a sweep removes no caller earlier, whether its last request was admitted, was rejected or had a cost of 0, in a quota with a window of one hour': {
    'keeps all counters for 120 s': class extends PlainStore { override quota (name: string, window: number) { const quota = super.quota(name, window); quota.retention = 120_000; return quota } }
  },
  'a sweep removes a caller one window and 60 s after its last request, before the caller of the request is looked up, in a quota with a window of one day': {
    'keeps counters of a day for two days': class extends PlainStore { override quota (name: string, window: number) { const quota = super.quota(name, window); quota.retention = 2 * window; return quota } }
  },
  'sweeps 60 s after the previous sweep, and no earlier, in a quota with a window of one day': {
    'sweeps once a window': class extends PlainStore { override quota (name: string, window: number) { const quota = super.quota(name, window); quota.interval = window; return quota } }
  }
}

t.test('a correct store passes every check', async (t) => {
  t.same(await brokenRules((options) => new PlainStore(options)), [])
})

t.test('a store passes every check of functions that it does not have', async (t) => {
  t.same(await brokenRules((options) => {
    const store = new PlainStore(options)
    return { acquire: (callerKey, limit, cost) => store.acquire(callerKey, limit, cost) }
  }), [])
})

t.test('each check fails for the faults of its rule', async (t) => {
  for (const [rule, stores] of Object.entries(faults)) {
    for (const [fault, Store] of Object.entries(stores)) await t.rejects(check(rule, (options) => new Store(options)), { name: 'AssertionError' }, `${fault}: ${rule}`)
  }
})

t.test('the checks of concurrent requests fail for a store that reads and writes in two steps', async (t) => {
  for (const [fault, [rule, create]] of Object.entries(races)) await t.rejects(check(rule, create), { name: 'AssertionError' }, `${fault}: ${rule}`)
})

t.test('there is a fault for each check', async (t) => {
  const found = new Set([...Object.keys(faults), ...Object.values(races).map(([rule]) => rule)])
  const rules = quotaStoreContract((options) => new PlainStore(options)).map(({ name }) => name)
  t.same(rules.filter((rule) => !found.has(rule) && !/, in a quota with a window of one (hour|day)$/.test(rule)), [])
})

async function check (rule: string, create: Create): Promise<void> {
  await quotaStoreContract(create).find(({ name }) => name === rule)?.run()
}
