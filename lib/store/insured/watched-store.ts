import { isObject } from '../../option-checks.js'
import { isPromise, type Eventual } from '../../promises.js'
import type { QuotaTimers } from '../../time-limit.js'
import { acquireFrom } from '../result-checks.js'
import { haveRoom, settled } from '../side-by-side.js'
import { assertStore } from '../store-functions.js'
import type {
  Acquisition,
  Acquisitions,
  CallerPage,
  Demand,
  QuotaCount,
  QuotaStore,
  QuotaStoreState
} from '../store.js'
import { Silence } from './silence.js'

export type StoreName = 'primary' | 'fallback'

/** The receipt of an insured store, if it is not a text of the primary. */
interface NamedReceipt {
  readonly store: StoreName
  readonly receipt: unknown
}

/** One of the two stores of an insured store, whose calls are given up while it is silent. */
export class WatchedStore {
  readonly name: StoreName
  readonly store: QuotaStore
  readonly #decisions: Silence
  // Apart from the decisions, because standings must not hide that decisions are not answered.
  readonly #reads: Silence

  constructor (name: StoreName, store: QuotaStore, timeout: number, timers: QuotaTimers) {
    this.name = name
    this.store = store
    this.#decisions = new Silence(timeout, timers)
    this.#reads = new Silence(timeout, timers)
  }

  /**
   * Returns what the store decides, with receipts of the insured store. Rejects if the store fails,
   * if its result is invalid, or if it is silent. What a late result has counted is given back.
   */
  async acquire (demands: readonly Demand[]): Promise<Acquisitions> {
    const acquiring = acquireFrom(this.store, demands)
    const acquisitions = isPromise(acquiring)
      ? await this.#decisions.watch(acquiring, {
        isSign: (result) => !isRemembered(result),
        late: (result) => {
          this.#giveBack(demands, result)
        }
      })
      : acquiring
    return acquisitions.map((acquisition) => acquisition && this.#withReceipt(acquisition))
  }

  async peek (demand: Demand): Promise<QuotaCount | null> {
    assertStore(this.store, this.name, 'peek')
    return this.#read(this.store.peek(demand))
  }

  async list (counters: string, cursor?: string): Promise<CallerPage> {
    assertStore(this.store, this.name, 'list')
    return this.#read(this.store.list(counters, cursor))
  }

  async inspect (counters: string): Promise<QuotaStoreState> {
    assertStore(this.store, this.name, 'inspect')
    return this.#read(this.store.inspect(counters))
  }

  /** Rejects if the store is silent. */
  async #read<Result> (result: Eventual<Result>): Promise<Result> {
    return isPromise(result) ? this.#reads.watch(result) : result
  }

  #withReceipt (acquisition: Acquisition): Acquisition {
    const { receipt } = acquisition
    if (receipt === undefined) return acquisition
    if (this.name === 'primary' && typeof receipt === 'string') return acquisition
    const named: NamedReceipt = { store: this.name, receipt }
    return { ...acquisition, receipt: named }
  }

  /** Nobody waits for it: see the docstring of `InsuredQuotaStore`. */
  #giveBack (demands: readonly Demand[], acquisitions: Acquisitions): void {
    if (!haveRoom(acquisitions)) return
    for (const [index, demand] of demands.entries()) {
      const acquisition = acquisitions[index]
      if (acquisition !== undefined) this.#settleUnused(demand, acquisition)
    }
  }

  async #settleUnused (demand: Demand, { receipt, granted }: Acquisition): Promise<void> {
    try {
      await this.store.settle?.(receipt, settled(demand, granted))
    } catch {}
  }
}

/** Whether a rejection came from the memory of a store, so that its server was not asked. */
export function isRemembered (acquisitions: Acquisitions): boolean {
  return acquisitions.some((acquisition) => acquisition?.isRemembered === true)
}

/**
 * Returns which of the two stores a receipt is of, and that store's own receipt.
 *
 * @throws {TypeError} If it is not a receipt of an insured store.
 */
export function readReceipt (receipt: unknown): NamedReceipt {
  if (typeof receipt === 'string') return { store: 'primary', receipt }
  if (isNamedReceipt(receipt)) return receipt
  throw new TypeError('an InsuredQuotaStore settles receipts of its own acquisitions')
}

function isNamedReceipt (value: unknown): value is NamedReceipt {
  if (!isObject(value)) return false
  const { store, receipt }: { readonly [Field in keyof NamedReceipt]?: unknown } = value
  return (store === 'primary' || store === 'fallback') && receipt !== undefined
}
