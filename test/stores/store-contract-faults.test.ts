// The faults of stores that quotaStoreContract detects.
import t from 'tap'
import type { QuotaStore } from '../../lib/index.js'
import { quotaStoreContract, type QuotaStoreContractOptions } from '../../lib/testing.js'
import { PlainStore, type Entry } from '../support/plain-store.js'

async function brokenRules (create: (options: QuotaStoreContractOptions) => QuotaStore): Promise<string[]> {
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

const wrong: Record<string, typeof PlainStore> = {
  'counts rejections': class extends PlainStore { override count (entry: Entry) { entry.count += 1 } },
  'has a window 1 ms too short': class extends PlainStore { override windowLength = 59_999 },
  'has a window 1 ms too long': class extends PlainStore { override windowLength = 60_001 },
  'has a sliding window': class extends PlainStore { override count (entry: Entry, admitted: boolean) { super.count(entry, admitted); entry.windowStart = this.clock() } },
  'has no cap': class extends PlainStore { override readonly maxTrackedCallers = Infinity },
  'tracks one caller too many': class extends PlainStore { constructor (options: QuotaStoreContractOptions) { super({ ...options, maxTrackedCallers: options.maxTrackedCallers + 1 }) } },
  'truncates the limit to 32 bits': class extends PlainStore { override admits (entry: Entry, limit: number) { return entry.count < (limit | 0) } },
  'restarts its window with a rejection': class extends PlainStore { override count (entry: Entry, admitted: boolean) { super.count(entry, admitted); if (!admitted) entry.windowStart = this.clock() } },
  'does not count its sweeps': class extends PlainStore { override sweep (now: number) { super.sweep(now); this.sweeps = 0 } },
  'begins its first interval at time 0': class extends PlainStore { override sweptAt = 0 },
  'sweeps immediately after clearCounters': class extends PlainStore { override clearCounters () { super.clearCounters(); this.sweptAt = 0 } },
  'does not report overflow': class extends PlainStore { override acquire (callerKey: string, limit: number) { return { ...super.acquire(callerKey, limit), overflow: false } } },
  'does not share the overflow counter': class extends PlainStore {
    readonly others = new Map<string, Entry>()
    override overflow (callerKey: string, now: number) {
      const entry = this.others.get(callerKey) ?? { count: 0, windowStart: now, lastSeen: now }
      this.others.set(callerKey, entry)
      return entry
    }
  },
  'rejects all overflow': class extends PlainStore { override admits (entry: Entry, limit: number) { return entry !== this.shared && super.admits(entry, limit) } },
  'does not sweep': class extends PlainStore { override retention = Infinity },
  'sweeps too early': class extends PlainStore { override retention = 119_999 },
  'sweeps too late': class extends PlainStore { override retention = 120_001 },
  'sweeps too often': class extends PlainStore { override interval = 59_999 },
  'sweeps too rarely': class extends PlainStore { override interval = 60_001 },
  'sweeps after the look-up': class extends PlainStore {
    override acquire (callerKey: string, limit: number) {
      const { sweep } = this
      this.sweep = () => {}
      const acquisition = super.acquire(callerKey, limit)
      this.sweep = sweep
      this.sweep(this.clock())
      return acquisition
    }
  },
  'does not update lastSeen for a rejection': class extends PlainStore {
    override acquire (callerKey: string, limit: number) {
      const before = this.entries.get(callerKey)?.lastSeen
      const acquisition = super.acquire(callerKey, limit)
      const entry = this.entries.get(callerKey)
      if (!acquisition.admitted && entry !== undefined && before !== undefined) entry.lastSeen = before
      return acquisition
    }
  },
  'admits one over the limit': class extends PlainStore { override admits (entry: Entry, limit: number) { return entry.count <= limit } },
  'admits one too few': class extends PlainStore { override admits (entry: Entry, limit: number) { return entry.count < limit - 1 } },
  'remembers the first limit': class extends PlainStore { first: number | undefined; override admits (entry: Entry, limit: number) { this.first ??= limit; return entry.count < this.first } },
  'has one counter for all': class extends PlainStore { override acquire (_callerKey: string, limit: number) { return super.acquire('all', limit) } },
  'keeps the overflow counter when it is cleared': class extends PlainStore { override clearCounters () { const { shared } = this; super.clearCounters(); this.shared = shared } },
  'keeps counting sweeps when it is cleared': class extends PlainStore { override clearCounters () { const { sweeps } = this; super.clearCounters(); this.sweeps = sweeps } },
  'peek never finds a counter': class extends PlainStore { override peek () { return null } },
  'peek counts': class extends PlainStore { override peek (callerKey: string) { const entry = this.entries.get(callerKey); if (entry !== undefined) entry.count += 1; return super.peek(callerKey) } },
  'peek updates the time of the last request': class extends PlainStore { override peek (callerKey: string) { const entry = this.entries.get(callerKey); if (entry !== undefined) entry.lastSeen = this.clock(); return super.peek(callerKey) } },
  'peek creates a counter': class extends PlainStore { override peek (callerKey: string) { if (!this.entries.has(callerKey)) this.create(callerKey, this.clock()); return null } },
  'peek sweeps': class extends PlainStore { override peek (callerKey: string) { this.sweep(this.clock()); return super.peek(callerKey) } },
  'peek sweeps, but starts no interval': class extends PlainStore { override peek (callerKey: string) { if (this.sweptAt !== undefined) this.sweep(this.clock()); return super.peek(callerKey) } },
  'peek starts the interval between sweeps': class extends PlainStore { override peek (callerKey: string) { this.sweptAt ??= this.clock(); return super.peek(callerKey) } },
  'peek opens a window': class extends PlainStore {
    override peek (callerKey: string) {
      const entry = this.entries.get(callerKey)
      if (entry !== undefined && this.clock() - entry.windowStart >= 60_000) Object.assign(entry, { count: 0, windowStart: this.clock() })
      return entry?.count === 0 ? null : super.peek(callerKey)
    }
  },
  'peek finds a window that is over': class extends PlainStore { override peek (callerKey: string) { const own = this.entries.get(callerKey); return own === undefined ? super.peek(callerKey) : { count: own.count, windowRemaining: Math.max(1, 60_000 - (this.clock() - own.windowStart)), overflow: false } } },
  'peek returns zero instead of null': class extends PlainStore { override peek (callerKey: string) { return super.peek(callerKey) ?? { count: 0, windowRemaining: 60_000, overflow: false } } },
  'peek returns null 1 ms too early': class extends PlainStore { override peek (callerKey: string) { const peeked = super.peek(callerKey); return peeked === null || peeked.windowRemaining <= 1 ? null : peeked } },
  'peek returns the whole window as the remaining time': class extends PlainStore { override peek (callerKey: string) { const peeked = super.peek(callerKey); return peeked && { ...peeked, windowRemaining: 60_000 } } },
  'peek ignores the overflow counter': class extends PlainStore { override peek (callerKey: string) { const peeked = super.peek(callerKey); return peeked?.overflow === true ? null : peeked } },
  'peek always returns the overflow counter if there is one': class extends PlainStore { override peek (callerKey: string) { const entry = this.shared; return entry === undefined || this.clock() - entry.windowStart >= 60_000 ? super.peek(callerKey) : { count: entry.count, windowRemaining: 60_000 - (this.clock() - entry.windowStart), overflow: true } } },
  'peek does not report overflow': class extends PlainStore { override peek (callerKey: string) { const peeked = super.peek(callerKey); return peeked && { ...peeked, overflow: false } } },
  'peek ignores a due sweep': class extends PlainStore { override peek (callerKey: string) { const { interval } = this; this.interval = Infinity; const peeked = super.peek(callerKey); this.interval = interval; return peeked } },
  'peek returns the overflow counter after its window': class extends PlainStore { override peek (callerKey: string) { const { shared } = this; return super.peek(callerKey) ?? (shared === undefined || this.entries.has(callerKey) || this.entries.size < this.maxTrackedCallers ? null : { count: shared.count, windowRemaining: 1, overflow: true }) } },
  'forget does nothing': class extends PlainStore { override forget () {} },
  'forget removes every counter': class extends PlainStore { override forget () { this.entries.clear() } },
  'forget only sets the count to 0': class extends PlainStore { override forget (callerKey: string) { const entry = this.entries.get(callerKey); if (entry !== undefined) entry.count = 0 } },
  'forget only ends the window': class extends PlainStore { override forget (callerKey: string) { const entry = this.entries.get(callerKey); if (entry !== undefined) entry.windowStart = -Infinity } },
  'forget removes the overflow counter too': class extends PlainStore { override forget (callerKey: string) { super.forget(callerKey); this.shared = undefined } },
  'forget removes the overflow counter of a caller without its own': class extends PlainStore { override forget (callerKey: string) { if (!this.entries.delete(callerKey)) this.shared = undefined } },
  'forget always frees a place': class extends PlainStore { spare = 0; override forget (callerKey: string) { super.forget(callerKey); this.spare += 1 } override mayTrack () { return this.entries.size < this.maxTrackedCallers + this.spare } },
  'forget keeps the place taken': class extends PlainStore { taken = 0; override forget (callerKey: string) { if (this.entries.delete(callerKey)) this.taken += 1 } override mayTrack () { return this.entries.size + this.taken < this.maxTrackedCallers } },
  'forget miscounts the callers': class extends PlainStore { forgotten = 0; override forget (callerKey: string) { super.forget(callerKey); this.forgotten += 1 } override inspect () { return { trackedCallers: this.entries.size + this.forgotten, sweeps: this.sweeps } } },
  'forget counts down for any caller': class extends PlainStore { forgotten = 0; override forget (callerKey: string) { if (!this.entries.delete(callerKey)) this.forgotten += 1 } override inspect () { return { trackedCallers: this.entries.size - this.forgotten, sweeps: this.sweeps } } },
  'forget sweeps': class extends PlainStore { override forget (callerKey: string) { this.sweep(this.clock()); super.forget(callerKey) } },
  'forget sweeps, but starts no interval': class extends PlainStore { override forget (callerKey: string) { if (this.sweptAt !== undefined) this.sweep(this.clock()); super.forget(callerKey) } },
  'forget starts the interval between sweeps': class extends PlainStore { override forget (callerKey: string) { this.sweptAt ??= this.clock(); super.forget(callerKey) } },
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
  },
  'is not atomic': class extends PlainStore {}
}

t.test('a correct store passes every check', async (t) => {
  t.same(await brokenRules((options) => new PlainStore(options)), [])
})

// The faults that each check detects.
const noticed: Record<string, string[]> = {
  'admits as many requests as the limit says, and rejects the next': [
    'counts rejections', 'has a window 1 ms too short', 'has a window 1 ms too long', 'admits one over the limit',
    'admits one too few'
  ],
  'counts each caller separately': [
    'admits one over the limit', 'admits one too few', 'has one counter for all'
  ],
  'does not count rejected requests': [
    'counts rejections', 'has a window 1 ms too short', 'has a window 1 ms too long', 'admits one over the limit',
    'admits one too few', 'remembers the first limit'
  ],
  'applies the limit that each request gives': [
    'counts rejections', 'truncates the limit to 32 bits', 'admits one over the limit', 'admits one too few',
    'remembers the first limit'
  ],
  'admits exactly as many concurrent requests as the limit says': [
    'admits one over the limit', 'admits one too few', 'is not atomic'
  ],
  'keeps the window open for 60 s': [
    'counts rejections', 'has a window 1 ms too short', 'has a window 1 ms too long', 'has a sliding window',
    'restarts its window with a rejection', 'admits one over the limit', 'admits one too few'
  ],
  'opens a new window after 60 s': [
    'has a window 1 ms too short', 'has a window 1 ms too long', 'admits one over the limit', 'admits one too few'
  ],
  'opens a new window 60 s after the previous one began, even if requests were rejected in between': [
    'has a window 1 ms too short', 'has a window 1 ms too long', 'has a sliding window', 'restarts its window with a rejection',
    'admits one too few'
  ],
  'uses a fixed window, not a sliding one': [
    'has a window 1 ms too short', 'has a window 1 ms too long', 'has a sliding window'
  ],
  'a sweep removes a caller that was last seen 120 s ago': [
    'does not sweep', 'sweeps too late', 'has one counter for all'
  ],
  'a sweep removes no caller that was seen less than 120 s ago': [
    'sweeps too early', 'has one counter for all'
  ],
  'a rejected request also updates the time of the last request': [
    'sweeps too early', 'does not update lastSeen for a rejection', 'has one counter for all'
  ],
  'sweeps 60 s after the previous sweep, and no earlier': [
    'does not count its sweeps', 'begins its first interval at time 0', 'sweeps too often', 'sweeps too rarely'
  ],
  'peek returns null for a caller without a counter, and creates none': [
    'has a window 1 ms too short', 'has a window 1 ms too long', 'admits one too few', 'peek creates a counter',
    'peek returns zero instead of null'
  ],
  'peek returns the count and the time left of the caller\'s own counter': [
    'has a window 1 ms too short', 'has a window 1 ms too long', 'has a sliding window', 'has one counter for all',
    'peek never finds a counter', 'peek counts', 'peek creates a counter', 'peek returns the whole window as the remaining time'
  ],
  'peek returns the count of a caller at its limit, without the rejected requests': [
    'counts rejections', 'has a window 1 ms too short', 'has a window 1 ms too long', 'admits one over the limit',
    'admits one too few', 'has one counter for all', 'peek never finds a counter', 'peek counts', 'peek creates a counter'
  ],
  'peek counts nothing': [
    'has a window 1 ms too short', 'has a window 1 ms too long', 'admits one too few', 'has one counter for all',
    'peek never finds a counter', 'peek counts', 'peek creates a counter'
  ],
  'peek returns null once the window is over, and opens none': [
    'has a window 1 ms too short', 'has a window 1 ms too long', 'admits one too few', 'has one counter for all',
    'peek never finds a counter', 'peek counts', 'peek creates a counter', 'peek opens a window',
    'peek finds a window that is over', 'peek returns zero instead of null', 'peek returns null 1 ms too early',
    'peek returns the whole window as the remaining time'
  ],
  'peek leaves the time of the last request as it is': [
    'does not sweep', 'sweeps too late', 'has one counter for all', 'peek updates the time of the last request', 'peek sweeps',
    'peek sweeps, but starts no interval'
  ],
  'peek runs no sweep': [
    'begins its first interval at time 0', 'has one counter for all', 'peek sweeps', 'peek sweeps, but starts no interval'
  ],
  'peek does not start the interval between sweeps': [
    'begins its first interval at time 0', 'peek sweeps', 'peek starts the interval between sweeps'
  ],
  'forget removes the caller\'s counter, so that its next request opens a new window': [
    'has a window 1 ms too short', 'has a window 1 ms too long', 'begins its first interval at time 0', 'has one counter for all',
    'peek creates a counter', 'peek returns zero instead of null', 'forget does nothing', 'forget only sets the count to 0',
    'forget only ends the window', 'forget miscounts the callers'
  ],
  'forget removes no other caller\'s counter': [
    'admits one over the limit', 'admits one too few', 'has one counter for all', 'forget does nothing',
    'forget removes every counter'
  ],
  'forget does nothing if the caller has no counter': [
    'has one counter for all', 'forget does nothing', 'forget removes every counter', 'forget only sets the count to 0',
    'forget only ends the window', 'forget miscounts the callers', 'forget counts down for any caller'
  ],
  'forget does nothing if a sweep has removed the counter': [
    'has one counter for all', 'forget removes every counter', 'forget miscounts the callers',
    'forget counts down for any caller'
  ],
  'forget leaves nothing behind that makes a sweep remove a later counter': [
    'does not sweep', 'sweeps too late', 'has one counter for all', 'forget miscounts the callers',
    'forget remembers when the caller was last seen'
  ],
  'forget runs no sweep': [
    'begins its first interval at time 0', 'has one counter for all', 'forget removes every counter',
    'forget miscounts the callers', 'forget counts down for any caller', 'forget sweeps', 'forget sweeps, but starts no interval'
  ],
  'forget does not start the interval between sweeps': [
    'begins its first interval at time 0', 'forget sweeps', 'forget starts the interval between sweeps'
  ],
  'tracks no more callers than the caller cap': [
    'has no cap', 'tracks one caller too many', 'does not report overflow', 'has one counter for all'
  ],
  'shares the overflow counter among all callers without a counter of their own': [
    'has no cap', 'does not report overflow', 'does not share the overflow counter', 'rejects all overflow',
    'admits one too few', 'has one counter for all'
  ],
  'gives the overflow counter the same window and limit as other counters': [
    'has a window 1 ms too short', 'has a window 1 ms too long', 'has a sliding window', 'has no cap',
    'restarts its window with a rejection', 'does not report overflow', 'rejects all overflow',
    'admits one over the limit', 'admits one too few', 'remembers the first limit', 'has one counter for all'
  ],
  'callers that have a counter keep using it': [
    'counts rejections', 'has a window 1 ms too short', 'has a window 1 ms too long', 'admits one over the limit',
    'admits one too few', 'remembers the first limit'
  ],
  'sweeps before it looks up the caller': [
    'does not sweep', 'sweeps too late', 'sweeps after the look-up'
  ],
  'clearCounters removes all counters, the overflow counter and the count of sweeps': [
    'has a window 1 ms too long', 'sweeps immediately after clearCounters', 'does not share the overflow counter',
    'keeps the overflow counter when it is cleared', 'keeps counting sweeps when it is cleared'
  ],
  'peek returns the overflow counter for a caller that would be counted on it': [
    'has no cap', 'truncates the limit to 32 bits', 'does not report overflow', 'does not share the overflow counter',
    'rejects all overflow', 'has one counter for all', 'peek never finds a counter', 'peek creates a counter',
    'peek ignores the overflow counter', 'peek does not report overflow'
  ],
  'peek returns a caller\'s own counter even if the caller cap is reached': [
    'has a window 1 ms too short', 'has a window 1 ms too long', 'does not report overflow', 'has one counter for all',
    'peek never finds a counter', 'peek counts', 'peek creates a counter',
    'peek always returns the overflow counter if there is one'
  ],
  'peek returns null once the overflow counter\'s window is over': [
    'has a window 1 ms too short', 'has a window 1 ms too long', 'does not share the overflow counter',
    'peek never finds a counter', 'peek creates a counter', 'peek returns zero instead of null',
    'peek returns null 1 ms too early', 'peek returns the whole window as the remaining time', 'peek ignores the overflow counter',
    'peek returns the overflow counter after its window'
  ],
  'peek returns null if a due sweep would make room for the caller': [
    'has a window 1 ms too short', 'has a window 1 ms too long', 'has a sliding window', 'has no cap',
    'truncates the limit to 32 bits', 'does not report overflow', 'does not share the overflow counter',
    'rejects all overflow', 'does not sweep', 'sweeps too late', 'sweeps too rarely', 'sweeps after the look-up',
    'has one counter for all', 'peek never finds a counter', 'peek creates a counter', 'peek returns zero instead of null',
    'peek returns null 1 ms too early', 'peek returns the whole window as the remaining time', 'peek ignores the overflow counter',
    'peek always returns the overflow counter if there is one', 'peek does not report overflow',
    'peek ignores a due sweep', 'peek returns the overflow counter after its window'
  ],
  'forget frees the caller\'s place for one other caller': [
    'has a window 1 ms too short', 'has a window 1 ms too long', 'has no cap', 'does not report overflow',
    'has one counter for all', 'forget does nothing', 'forget removes every counter', 'forget only sets the count to 0',
    'forget only ends the window', 'forget always frees a place', 'forget keeps the place taken', 'forget miscounts the callers'
  ],
  'forget frees no place if the caller has no counter': [
    'has no cap', 'does not report overflow', 'has one counter for all', 'forget removes every counter',
    'forget always frees a place', 'forget miscounts the callers', 'forget counts down for any caller'
  ],
  'forget does not change the overflow counter': [
    'does not share the overflow counter', 'rejects all overflow', 'peek never finds a counter', 'peek creates a counter',
    'peek returns the whole window as the remaining time', 'peek ignores the overflow counter',
    'peek does not report overflow', 'forget removes every counter',
    'forget removes the overflow counter too', 'forget removes the overflow counter of a caller without its own',
    'forget always frees a place'
  ]
}

t.test('each faulty store fails exactly the checks of the rules that it violates', async (t) => {
  const found: Record<string, string[]> = Object.fromEntries(Object.keys(noticed).map((rule) => [rule, []]))
  for (const [fault, Store] of Object.entries(wrong)) {
    const create = (options: QuotaStoreContractOptions) => fault === 'is not atomic' ? racing(new Store(options)) : new Store(options)
    for (const rule of await brokenRules(create)) found[rule]?.push(fault)
  }
  t.same(found, noticed)
  t.same(Object.keys(noticed), quotaStoreContract((options) => new PlainStore(options)).map(({ name }) => name))
  t.same(new Set(Object.values(found).flat()), new Set(Object.keys(wrong)))
})

// Reads the count, lets other requests run, and then writes it.
function racing (store: PlainStore): QuotaStore {
  return {
    async acquire (callerKey, limit) {
      const before = store.entries.get(callerKey)?.count ?? 0
      await new Promise(setImmediate)
      const entry = store.entries.get(callerKey)
      if (entry !== undefined) entry.count = before
      return store.acquire(callerKey, limit)
    },
    clearCounters: () => { store.clearCounters() },
    peek: (callerKey) => store.peek(callerKey),
    forget: (callerKey) => { store.forget(callerKey) },
    inspect: () => store.inspect()
  }
}
