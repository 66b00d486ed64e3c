// The public contract, "Testing": quotaStoreContract on every store of the package, and on stores that are wrong.
import { Redis } from 'ioredis'
import t from 'tap'
import { InsuredQuotaStore, MemoryQuotaStore, type Acquisition, type QuotaStore } from '../lib/index.js'
import { RedisQuotaStore } from '../lib/redis.js'
import { quotaStoreContract, type QuotaStoreContractOptions } from '../lib/testing.js'
import { RedisServer } from './support/redis-server.js'

const server = process.env.REDIS_URL === undefined ? await RedisServer.start() : undefined
const client = server?.client() ?? new Redis(String(process.env.REDIS_URL))
t.teardown(async () => {
  client.disconnect()
  await server?.stop()
})

let stores = 0
const redis = (shards: number, rememberRefusals: boolean) => (options: QuotaStoreContractOptions) =>
  new RedisQuotaStore({ client, keyPrefix: `contract-${process.pid}-${++stores}:`, shards, rememberRefusals, ...options })

const subjects: Record<string, (options: QuotaStoreContractOptions) => QuotaStore> = {
  'the memory store': (options) => new MemoryQuotaStore(options),
  'the Redis store, one shard': redis(1, false),
  'the Redis store, four shards': redis(4, false),
  'the Redis store that remembers refusals': redis(1, true),
  'the insured store': (options) => new InsuredQuotaStore({ primary: new MemoryQuotaStore(options) }),
  'the insured store over Redis': (options) => new InsuredQuotaStore({ primary: redis(1, false)(options), timeout: 10_000 })
}

for (const [name, create] of Object.entries(subjects)) {
  t.test(name, async (t) => {
    for (const { name, run } of quotaStoreContract(create)) await t.resolves(run(), name)
  })
}

interface Entry { count: number, windowStart: number, lastSeen: number }

/** A store that is right, but for what a subclass gets wrong. */
class PlainStore implements QuotaStore {
  readonly clock: () => number
  readonly maxTrackedCallers: number
  entries = new Map<string, Entry>()
  shared: Entry | undefined
  sweptAt: number | undefined
  sweeps = 0
  windowLength = 60_000
  retention = 120_000
  interval = 60_000

  constructor ({ clock, maxTrackedCallers }: QuotaStoreContractOptions) {
    this.clock = clock
    this.maxTrackedCallers = maxTrackedCallers
  }

  acquire (callerKey: string, limit: number): Acquisition {
    const now = this.clock()
    this.sweep(now)
    const own = this.entries.get(callerKey) ?? this.create(callerKey, now)
    const entry = own ?? this.overflow(callerKey, now)
    if (now - entry.windowStart >= this.windowLength) Object.assign(entry, { count: 0, windowStart: now })
    const admitted = this.admits(entry, limit)
    this.count(entry, admitted)
    entry.lastSeen = now
    return { admitted, count: entry.count, windowRemaining: this.windowLength - (now - entry.windowStart), overflow: own === undefined }
  }

  admits (entry: Entry, limit: number): boolean {
    return entry.count < limit
  }

  count (entry: Entry, admitted: boolean): void {
    if (admitted) entry.count += 1
  }

  create (callerKey: string, now: number): Entry | undefined {
    if (this.entries.size >= this.maxTrackedCallers) return undefined
    const entry = { count: 0, windowStart: now, lastSeen: now }
    this.entries.set(callerKey, entry)
    return entry
  }

  overflow (_callerKey: string, now: number): Entry {
    this.shared ??= { count: 0, windowStart: now, lastSeen: now }
    return this.shared
  }

  sweep (now: number): void {
    this.sweptAt ??= now
    if (now - this.sweptAt < this.interval) return
    this.sweptAt = now
    this.sweeps += 1
    for (const [callerKey, { lastSeen }] of this.entries) if (now - lastSeen >= this.retention) this.entries.delete(callerKey)
  }

  clearCounters (): void {
    this.entries.clear()
    this.shared = undefined
    this.sweptAt = undefined
    this.sweeps = 0
  }

  inspect () {
    return { trackedCallers: this.entries.size, sweeps: this.sweeps }
  }
}

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
  'counts refusals': class extends PlainStore { override count (entry: Entry) { entry.count += 1 } },
  'has a window 1 ms too short': class extends PlainStore { override windowLength = 59_999 },
  'has a window 1 ms too long': class extends PlainStore { override windowLength = 60_001 },
  'has a sliding window': class extends PlainStore { override count (entry: Entry, admitted: boolean) { super.count(entry, admitted); entry.windowStart = this.clock() } },
  'has no cap': class extends PlainStore { override readonly maxTrackedCallers = Infinity },
  'tracks one caller too many': class extends PlainStore { constructor (options: QuotaStoreContractOptions) { super({ ...options, maxTrackedCallers: options.maxTrackedCallers + 1 }) } },
  'takes the limit for 32 bits': class extends PlainStore { override admits (entry: Entry, limit: number) { return entry.count < (limit | 0) } },
  'begins its window anew with a refusal': class extends PlainStore { override count (entry: Entry, admitted: boolean) { super.count(entry, admitted); if (!admitted) entry.windowStart = this.clock() } },
  'does not count its sweeps': class extends PlainStore { override sweep (now: number) { super.sweep(now); this.sweeps = 0 } },
  'believes that its clock began at 0': class extends PlainStore { override sweptAt = 0 },
  'sweeps as soon as it was cleared': class extends PlainStore { override clearCounters () { super.clearCounters(); this.sweptAt = 0 } },
  'does not say that it overflows': class extends PlainStore { override acquire (callerKey: string, limit: number) { return { ...super.acquire(callerKey, limit), overflow: false } } },
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
  'sweeps too seldom': class extends PlainStore { override interval = 60_001 },
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
  'does not see what it rejects': class extends PlainStore {
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
  'forgets the overflow counter when it is cleared': class extends PlainStore { override clearCounters () { const { shared } = this; super.clearCounters(); this.shared = shared } },
  'keeps counting sweeps when it is cleared': class extends PlainStore { override clearCounters () { const { sweeps } = this; super.clearCounters(); this.sweeps = sweeps } },
  'is not atomic': class extends PlainStore {}
}

t.test('a store that is right keeps every rule', async (t) => {
  t.same(await brokenRules((options) => new PlainStore(options)), [])
})

// Which of those faults each rule notices.
const noticed: Record<string, string[]> = {
  'admits up to the limit and rejects from there on': [
    'counts refusals', 'has a window 1 ms too short', 'has a window 1 ms too long', 'admits one over the limit', 'admits one too few'
  ],
  'counts each caller by itself': [
    'admits one over the limit', 'admits one too few', 'has one counter for all'
  ],
  'does not count what it rejects': [
    'counts refusals', 'has a window 1 ms too short', 'has a window 1 ms too long', 'admits one over the limit', 'admits one too few',
    'remembers the first limit'
  ],
  'applies the limit of each request': [
    'counts refusals', 'takes the limit for 32 bits', 'admits one over the limit', 'admits one too few', 'remembers the first limit'
  ],
  'takes exactly so many of the requests that come at once': [
    'admits one over the limit', 'admits one too few', 'is not atomic'
  ],
  'keeps the window open for 60 s less 1 ms': [
    'counts refusals', 'has a window 1 ms too short', 'has a window 1 ms too long', 'has a sliding window',
    'begins its window anew with a refusal', 'admits one over the limit', 'admits one too few'
  ],
  'opens a new window after 60 s': [
    'has a window 1 ms too short', 'has a window 1 ms too long', 'admits one over the limit', 'admits one too few'
  ],
  'opens a new window after 60 s of being asked in vain': [
    'has a window 1 ms too short', 'has a window 1 ms too long', 'has a sliding window', 'begins its window anew with a refusal',
    'admits one too few'
  ],
  'counts from the start of the window, not back from now': [
    'has a window 1 ms too short', 'has a window 1 ms too long', 'has a sliding window'
  ],
  'sweeps a caller that was last seen 120 s ago': [
    'does not sweep', 'sweeps too late', 'has one counter for all'
  ],
  'sweeps no caller that was seen less than 120 s ago': [
    'sweeps too early', 'has one counter for all'
  ],
  'sees a caller that it rejects': [
    'sweeps too early', 'does not see what it rejects', 'has one counter for all'
  ],
  'sweeps not until 60 s after the previous sweep': [
    'does not count its sweeps', 'believes that its clock began at 0', 'sweeps too often', 'sweeps too seldom'
  ],
  'tracks no more callers than it may': [
    'has no cap', 'tracks one caller too many', 'does not say that it overflows', 'has one counter for all'
  ],
  'shares the overflow counter among the callers without one of their own': [
    'has no cap', 'does not say that it overflows', 'does not share the overflow counter', 'rejects all overflow', 'admits one too few',
    'has one counter for all'
  ],
  'gives the overflow counter the window and the limit of any other': [
    'has a window 1 ms too short', 'has a window 1 ms too long', 'has a sliding window', 'has no cap',
    'begins its window anew with a refusal', 'does not say that it overflows', 'rejects all overflow', 'admits one over the limit',
    'admits one too few', 'remembers the first limit', 'has one counter for all'
  ],
  'leaves a caller the counter that it has': [
    'counts refusals', 'has a window 1 ms too short', 'has a window 1 ms too long', 'admits one over the limit', 'admits one too few',
    'remembers the first limit'
  ],
  'sweeps before it looks a caller up': [
    'does not sweep', 'sweeps too late', 'sweeps after the look-up'
  ],
  'forgets everything when it is cleared': [
    'has a window 1 ms too long', 'sweeps as soon as it was cleared', 'does not share the overflow counter',
    'forgets the overflow counter when it is cleared', 'keeps counting sweeps when it is cleared'
  ]
}

t.test('each fault of a store is noticed, by the rules that it breaks and by no other', async (t) => {
  const found: Record<string, string[]> = Object.fromEntries(Object.keys(noticed).map((rule) => [rule, []]))
  for (const [fault, Store] of Object.entries(wrong)) {
    const create = (options: QuotaStoreContractOptions) => fault === 'is not atomic' ? racing(new Store(options)) : new Store(options)
    for (const rule of await brokenRules(create)) found[rule]?.push(fault)
  }
  t.same(found, noticed)
  t.same(Object.keys(noticed), quotaStoreContract((options) => new PlainStore(options)).map(({ name }) => name))
  t.same(new Set(Object.values(found).flat()), new Set(Object.keys(wrong)))
})

// Reads the count, lets others have their turn, and writes it.
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
    inspect: () => store.inspect()
  }
}
