import {
  MemoryQuotaStore,
  type Acquisition,
  type Demand,
  type QuotaCount,
  type QuotaStore,
  type Settled
} from '../../lib/index.js'

/** A store on a server that decides when a test says so. */
export function createWaitingStore (): RemoteStore {
  const store = new RemoteStore()
  store.waits = 'acquire'
  return store
}

/**
 * A store on a server: it responds after a turn of the event loop, or when a test says so, and
 * fails as a test sets it.
 */
export class RemoteStore implements QuotaStore {
  /** The function that fails from now on. */
  fails: 'acquire' | 'settle' | undefined
  /** The function that responds only when `answer` is called. */
  waits: 'acquire' | 'settle' | undefined
  /** How often `acquire` and `settle` were called. */
  calls = 0
  readonly memory: MemoryQuotaStore
  #pending: (() => void)[] = []

  constructor (memory = new MemoryQuotaStore()) {
    this.memory = memory
  }

  /** How many calls wait for `answer`. */
  get pending (): number {
    return this.#pending.length
  }

  readonly answer = (): void => {
    for (const respond of this.#pending.splice(0)) respond()
  }

  async acquire (demands: readonly Demand[]): Promise<readonly Acquisition[]> {
    await this.#respond('acquire')
    return this.memory.acquire(demands)
  }

  async settle (receipt: unknown, less: Settled, once?: string): Promise<boolean> {
    await this.#respond('settle')
    return this.memory.settle(receipt, less, once)
  }

  async peek (demand: Demand): Promise<QuotaCount | null> {
    return this.memory.peek(demand)
  }

  async forget (counters: string, callerKey: string): Promise<void> {
    await new Promise(setImmediate)
    this.memory.forget(counters, callerKey)
  }

  async #respond (name: 'acquire' | 'settle'): Promise<void> {
    this.calls += 1
    await new Promise<void>((resolve) => {
      if (this.waits === name) this.#pending.push(resolve)
      else setImmediate(resolve)
    })
    if (this.fails === name) throw new Error('gone')
  }
}
