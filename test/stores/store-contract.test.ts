// quotaStoreContract with the stores that need no server, and the memory store compared with an
// independent reference.
import t from 'tap'
import { InsuredQuotaStore } from '../../lib/store/insured/insured-store.js'
import { MemoryQuotaStore } from '../../lib/store/memory/memory-store.js'
import { ShardedQuotaStore } from '../../lib/store/sharded/sharded-store.js'
import type {
  Acquisition,
  CallerPage,
  Demand,
  QuotaCount,
  QuotaStore,
  QuotaStoreState,
  Settled
} from '../../lib/store/store.js'
import { quotaStoreContract, type QuotaStoreContractOptions } from '../../lib/testing.js'
import { compareWithReference } from '../support/compare-stores.js'
import { ReferenceStore } from '../support/reference-store.js'

const fail = (): never => {
  throw new Error('no connection')
}
const lost = {
  acquire: fail,
  settle: fail,
  peek: fail,
  list: fail,
  inspect: fail,
  forget () {},
  clearCounters () {}
}

const subjects: Record<string, (options: QuotaStoreContractOptions) => QuotaStore> = {
  'the insured store': (options) =>
    new InsuredQuotaStore({ primary: new MemoryQuotaStore(options) }),
  'the fallback of an insured store': (options) =>
    new InsuredQuotaStore({
      primary: { ...lost, maxTrackedCallers: options.maxTrackedCallers },
      clock: options.clock,
      fallback: new MemoryQuotaStore(options)
    }),
  'a sharded store': (options) =>
    new ShardedQuotaStore([1, 2, 3].map(() => new MemoryQuotaStore(options))),
  'a sharded store of insured stores that answer later': (options) =>
    new ShardedQuotaStore(
      [1, 2].map(() => new InsuredQuotaStore({ primary: new LaterStore(options) }))
    ),
  'a store that takes no text with a settlement': (options) =>
    withoutOnce(new MemoryQuotaStore(options)),
  'a store without `settle`, which knows neither estimates nor places,': withoutSettle
}

/** A store on a server, whose receipts are texts. */
class LaterStore implements QuotaStore {
  readonly #memory: MemoryQuotaStore

  constructor (options: QuotaStoreContractOptions) {
    this.#memory = new MemoryQuotaStore(options)
  }

  async acquire (demands: readonly Demand[]): Promise<readonly Acquisition[]> {
    return this.#memory.acquire(demands).map((acquisition) => ({
      ...acquisition,
      ...(acquisition.receipt !== undefined && { receipt: JSON.stringify(acquisition.receipt) })
    }))
  }

  async settle (receipt: unknown, less: Settled, once?: string): Promise<boolean> {
    return this.#memory.settle(JSON.parse(String(receipt)), less, once)
  }

  async peek (demand: Demand): Promise<QuotaCount | null> {
    return this.#memory.peek(demand)
  }

  async forget (counters: string, callerKey: string): Promise<void> {
    this.#memory.forget(counters, callerKey)
  }

  async list (counters: string): Promise<CallerPage> {
    return this.#memory.list(counters)
  }

  async inspect (counters: string): Promise<QuotaStoreState> {
    return this.#memory.inspect(counters)
  }

  async clearCounters (): Promise<void> {
    this.#memory.clearCounters()
  }
}

function withoutOnce (memory: MemoryQuotaStore): QuotaStore {
  return {
    acquire: (demands) => memory.acquire(demands),
    settle (receipt, less) {
      memory.settle(receipt, less)
    }
  }
}

function withoutSettle (options: QuotaStoreContractOptions): QuotaStore {
  const memory = new MemoryQuotaStore(options)
  return {
    acquire (demands) {
      for (const { window, isEstimate } of demands) {
        if (window === null || isEstimate) throw new Error('nothing can be held')
      }
      return memory.acquire(demands)
    },
    peek: (demand) => memory.peek(demand)
  }
}

for (const [subject, create] of Object.entries(subjects)) {
  const checks = quotaStoreContract(create).filter(
    // What a longer window changes is the memory store's, as below.
    ({ name }) => !/of one (hour|day)$/.test(name)
  )
  t.test(`${subject} passes each check of quotaStoreContract`, async (t) => {
    for (const { name, run } of checks) await t.resolves(run(), name)
  })
}

// A check compares a store with a memory store. So these show that the memory store itself does
// what the rules say.
for (const { name, run } of quotaStoreContract((options) => new ReferenceStore(options))) {
  t.test(`in the memory store, ${name}`, run)
}

t.test('a check of a store that throws rejects with what the store has thrown', async (t) => {
  const [check] = quotaStoreContract(() => lost)
  await t.rejects(async () => check?.run(), { message: 'no connection' })
})

const walks = Number(process.env.RANDOM_WALKS ?? 5)

t.test(
  `the memory store has the same results as the reference, in ${walks * 500} random steps`,
  async (t) => {
    const seen = await compareWithReference({
      create: (options) => new MemoryQuotaStore(options),
      walks,
      hasSweeps: true
    })
    t.comment(JSON.stringify(seen))
    t.ok(
      Object.values(seen).every((count) => count > 5 * walks),
      'every kind of step was taken often'
    )
  }
)
