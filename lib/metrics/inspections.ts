import { isNatural } from '../option-checks.js'
import type { QuotaInfo } from '../permit/quota.js'
import { InsuredQuotaStore } from '../store/insured/insured-store.js'
import type { QuotaStore, QuotaStoreState } from '../store/store.js'
import { withTimeout } from '../time-limit.js'
import { placeUnit } from './quota-labels.js'

/**
 * How long `inspect` may take, in milliseconds. The collection of all metrics waits for it.
 */
const longestInspection = 500

/** A number of a quota's store. */
export type StoreNumber = 'trackedCallers' | 'sweeps' | 'maxTrackedCallers'

/** What is known about the counters of a quota; undefined if it is unknown. */
export type Inspection = Pick<QuotaInfo, 'name' | 'unit'> &
  Readonly<Record<StoreNumber, number | undefined>>

/** Inspects the stores of quotas. Metrics that are collected together share one inspection. */
export class Inspections {
  readonly #quotasNow: () => readonly QuotaInfo[]
  #running: Promise<readonly Inspection[]> | undefined

  constructor (quotasNow: () => readonly QuotaInfo[]) {
    this.#quotasNow = quotasNow
  }

  get (): Promise<readonly Inspection[]> {
    this.#running ??= this.#inspectAll()
    return this.#running
  }

  async #inspectAll (): Promise<readonly Inspection[]> {
    try {
      const quotas = this.#quotasNow().filter(({ unit }) => unit !== placeUnit)
      return await Promise.all(quotas.map(inspect))
    } finally {
      this.#running = undefined
    }
  }
}

async function inspect ({ name, unit, store, counters }: QuotaInfo): Promise<Inspection> {
  const counting = store instanceof InsuredQuotaStore ? store.primary : store
  const state = await stateOf(counting, counters)
  return {
    name,
    unit,
    maxTrackedCallers: maxTrackedCallersOf(counting),
    trackedCallers: state?.trackedCallers,
    sweeps: state?.sweeps
  }
}

/**
 * Returns the state of counters; undefined if it is unknown, also while the primary of an insured
 * store is down.
 */
async function stateOf (store: QuotaStore, counters: string): Promise<QuotaStoreState | undefined> {
  try {
    const inspected = (async () => store.inspect?.(counters))()
    const state = await withTimeout(longestInspection, inspected)
    return isNatural(state?.trackedCallers) ? state : undefined
  } catch {
    return undefined
  }
}

/** Returns the caller cap of a store, if it has one of this name. */
function maxTrackedCallersOf (store: QuotaStore): number | undefined {
  const cap: unknown = Reflect.get(store, 'maxTrackedCallers')
  return typeof cap === 'number' ? cap : undefined
}
