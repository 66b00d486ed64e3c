import { askStores, type StoreAnswer } from '../store/ask-stores.js'
import type { Demand, QuotaStore } from '../store/store.js'
import { decide, refusalAmong } from './decide.js'
import { refuses } from './decision.js'
import type { OpenPermits } from './open-permits.js'
import type { Prepared } from './prepare.js'
import type { Requester } from './requester.js'

/**
 * Asks the stores of the enforced quotas of a request in one step. If all of them admit the
 * request, asks those of its shadow quotas, each on its own. Never rejects.
 *
 * @returns The answer about each quota, in their order; null if its store was not asked.
 */
export function ask (
  prepared: readonly Prepared[],
  requester: Requester,
  open: OpenPermits
): Promise<readonly StoreAnswer[]> {
  for (const { quota } of prepared) {
    if (!quota.isEnforced) return askShadowsLast(prepared, requester, open)
  }
  return askTogether(prepared, requester, open)
}

async function askShadowsLast (
  prepared: readonly Prepared[],
  requester: Requester,
  open: OpenPermits
): Promise<readonly StoreAnswer[]> {
  const enforced = prepared.filter(({ quota }) => quota.isEnforced)
  const answers = await askTogether(enforced, requester, open)
  const isAdmitted = refusalAmong(decide(enforced, answers)) === null
  const askAlone = async (shadow: Prepared): Promise<StoreAnswer> => {
    if (!isAdmitted) return null
    const [answer] = await askTogether([shadow], requester, open)
    return answer ?? null
  }
  return Promise.all(
    prepared.map((each) => {
      return each.quota.isEnforced ? (answers[enforced.indexOf(each)] ?? null) : askAlone(each)
    })
  )
}

/** Asks in one step, and only if none of the quotas refuses the request without its store. */
function askTogether (
  prepared: readonly Prepared[],
  requester: Requester,
  open: OpenPermits
): Promise<readonly StoreAnswer[]> {
  const asked: Prepared[] = []
  const demands: Demand[] = []
  const stores: QuotaStore[] = []
  for (const each of prepared) {
    const { quota, demand, decision } = each
    if (decision !== null && refuses(decision)) return Promise.resolve(prepared.map(() => null))
    if (demand === null) continue
    asked.push(each)
    demands.push(demand)
    stores.push(quota.store)
  }
  const answers = askStores(demands, stores, requester, open.wait)
  return asked.length === prepared.length ? answers : inOrder(prepared, asked, answers)
}

/** Returns null for each quota whose store is not asked. */
async function inOrder (
  prepared: readonly Prepared[],
  asked: readonly Prepared[],
  answering: Promise<readonly StoreAnswer[]>
): Promise<readonly StoreAnswer[]> {
  const answers = await answering
  return prepared.map((each) => answers[asked.indexOf(each)] ?? null)
}
