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
  'tracks one caller too many': class extends PlainStore { override create (callerKey: string, now: number) { return this.entries.size > this.maxTrackedCallers ? undefined : super.create(callerKey, now) } override readonly maxTrackedCallers = 5 },
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

for (const [what, Store] of Object.entries(wrong)) {
  t.test(`a store that ${what} is noticed`, async (t) => {
    const create = what === 'is not atomic'
      ? (options: QuotaStoreContractOptions) => racing(new Store(options))
      : (options: QuotaStoreContractOptions) => new Store(options)
    const broken = await brokenRules(create)
    t.comment(broken.join('; '))
    t.ok(broken.length > 0)
  })
}

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
