import { logFailure } from '../log.js'
import { then, type Eventual } from '../promises.js'
import { acquireSideBySide } from '../store/side-by-side.js'
import { assertAcquisitions } from '../store/checks.js'
import type { Acquisition, Acquisitions, Demand, QuotaStore } from '../store/store.js'
import { decide } from './decide.js'
import type { QuotaOfRequest } from './quota-of-request.js'
import type { Requester } from './requester.js'

/**
 * Asks the stores of the enforced quotas of a request, in one step for each store. If all of them
 * admit the request, asks those of its shadow quotas, each on its own. Notes what they answered.
 * Neither throws nor rejects.
 */
export function ask (quotas: readonly QuotaOfRequest[], requester: Requester): Eventual<void> {
  for (const { quota } of quotas) {
    if (!quota.isEnforced) return askShadowsLast(quotas, requester)
  }
  return askTogether(quotas, requester)
}

function askShadowsLast (
  quotas: readonly QuotaOfRequest[],
  requester: Requester
): Eventual<void> {
  const enforced = quotas.filter(({ quota }) => quota.isEnforced)
  return then(askTogether(enforced, requester), () => {
    decide(enforced)
    const isRefused = enforced.some((each) => each.refuses)
    return isRefused ? undefined : askShadows(quotas, requester)
  })
}

function askShadows (quotas: readonly QuotaOfRequest[], requester: Requester): Eventual<void> {
  const asking: Promise<void>[] = []
  for (const each of quotas) {
    if (each.quota.isEnforced) continue
    const asked = askTogether([each], requester)
    if (asked instanceof Promise) asking.push(asked)
  }
  if (asking.length > 0) return Promise.all(asking).then(() => {})
}

/** Asks nothing if one of the quotas refuses the request without its store. */
function askTogether (
  quotas: readonly QuotaOfRequest[],
  requester: Requester
): Eventual<void> {
  const asked: QuotaOfRequest[] = []
  const demands: Demand[] = []
  let hasSeveralStores = false
  for (const each of quotas) {
    if (each.refuses) return
    if (each.demand === null) continue
    hasSeveralStores ||= asked[0] !== undefined && asked[0].quota.store !== each.quota.store
    asked.push(each)
    demands.push(each.demand)
  }
  const [first] = asked
  if (first === undefined) return
  const { storeDurations } = requester.server.channels
  const startedAt = storeDurations.hasSubscribers ? performance.now() : null
  const asking = hasSeveralStores
    ? askSeveral(asked, requester)
    : askStore(first.quota.store, asked, demands, requester)
  if (startedAt === null) return asking
  return then(asking, () => {
    storeDurations.publish((performance.now() - startedAt) / 1000)
  })
}

/** Asks one store about all of these quotas in one step. Notes what it returned. */
function askStore (
  store: QuotaStore,
  asked: readonly QuotaOfRequest[],
  demands: readonly Demand[],
  requester: Requester
): Eventual<void> {
  try {
    const acquisitions: unknown = store.acquire(demands)
    // A promise of them, or what is found unusable once it has been awaited.
    if (!Array.isArray(acquisitions)) return noteLater(acquisitions, asked, demands, requester)
    assertAcquisitions(acquisitions, demands)
    note(acquisitions, asked)
  } catch (error) {
    noteFailure(error, asked, requester)
  }
}

async function noteLater (
  acquiring: unknown,
  asked: readonly QuotaOfRequest[],
  demands: readonly Demand[],
  requester: Requester
): Promise<void> {
  try {
    const acquisitions = await acquiring
    assertAcquisitions(acquisitions, demands)
    note(acquisitions, asked)
  } catch (error) {
    noteFailure(error, asked, requester)
  }
}

/** Notes what stores have returned, one acquisition for each of the quotas. */
function note (acquisitions: Acquisitions, asked: readonly QuotaOfRequest[]): void {
  let index = 0
  for (const each of asked) {
    each.acquisition = acquisitions[index] ?? null
    index += 1
  }
}

function noteFailure (
  error: unknown,
  asked: readonly QuotaOfRequest[],
  { log }: Requester
): void {
  const counters = asked.map(({ quota }) => quota.counters)
  logFailure(log, error, 'the quota store failed; the request is not counted', { counters })
  for (const each of asked) each.hasStoreFailed = true
}

/** Asks all stores at the same time. What one counts while another rejects is settled with 0. */
async function askSeveral (
  asked: readonly QuotaOfRequest[],
  requester: Requester
): Promise<void> {
  // The start-up does not check the default quota if it seems unused.
  if (asked.some(({ quota }) => quota.store.settle === undefined)) {
    const error = new TypeError('of several stores of a request, each needs the function settle')
    return noteFailure(error, asked, requester)
  }
  const stores = new Map<Demand, QuotaStore>()
  for (const { demand, quota } of asked) {
    if (demand !== null) stores.set(demand, quota.store)
  }
  const acquisitions = await acquireSideBySide(
    stores,
    async (store, part) => {
      const askedHere = asked.filter(({ quota }) => quota.store === store)
      await askStore(store, askedHere, part, requester)
      // All null if the store has failed, so that what the others count is settled with 0.
      return askedHere.map(({ acquisition }) => acquisition)
    },
    (store, acquisition) => {
      requester.server.closing.waitFor(takeBack(store, acquisition, requester))
    }
  )
  note(acquisitions, asked)
}

/** Settles with 0 what was counted for a request that does not use it. Never rejects. */
export async function takeBack (
  store: QuotaStore,
  acquisition: Acquisition,
  { log }: Requester
): Promise<void> {
  try {
    await store.settle?.(acquisition, 0)
  } catch (error) {
    logFailure(log, error, 'what is not used could not be taken back from the quota store')
  }
}
