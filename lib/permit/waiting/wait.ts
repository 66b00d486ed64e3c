import { Caller } from '../../caller/request-caller.js'
import { then, type Eventual } from '../../promises.js'
import { required } from '../../required.js'
import { ask } from '../ask.js'
import type { QuotaOfRequest } from '../quota-of-request.js'
import type { Requester } from '../requester.js'
import { canWait, refusing, rejectBy } from './room.js'
import { waitForRoom, type Waited } from './waiting-request.js'

/**
 * Asks the stores of the quotas of a request. If it is rejected and may wait, it waits in the line
 * of the quota that refuses it, until all its quotas admit it or the wait ends (docs/rules.md,
 * "Waiting").
 *
 * @param arrivedAt When the request arrived, in monotonic milliseconds.
 * @param hasResponded Whether the host has responded in the meantime.
 */
export function askOrWait (
  quotas: readonly QuotaOfRequest[],
  requester: Requester,
  arrivedAt: number,
  hasResponded: () => boolean
): Eventual<Waited> {
  const asking = decideByLine(quotas) ? undefined : ask(quotas, requester)
  return then(asking, () => {
    const elapsed = performance.now() - arrivedAt
    if (!canWait(quotas, elapsed)) return { quotas, isAbandoned: false }
    return then(turnOf(quotas, requester), (turn) =>
      waitForRoom(quotas, requester, turn, arrivedAt, hasResponded)
    )
  })
}

/**
 * Decides on a request without its stores if others wait for one of its counters: it has no room
 * before they have.
 *
 * @returns Whether it is decided on.
 */
function decideByLine (quotas: readonly QuotaOfRequest[]): boolean {
  if (quotas.some((each) => each.isRefused)) return false
  for (const each of quotas) {
    if (each.demand === null) continue
    const line = each.quota.lines?.lineOf(each.demand.callerKey)
    if (line === undefined) continue
    rejectBy(each, line.count)
    return true
  }
  return false
}

/**
 * Returns the key of the caller who takes turns: of the plugin's authentication, because a quota
 * can count another caller, such as the whole service. Without one, the caller of the counter.
 */
function turnOf (quotas: readonly QuotaOfRequest[], requester: Requester): Eventual<string> {
  for (const { quota, caller } of quotas) {
    if (!quota.hasOwnCaller && caller !== null) return caller.callerKey
  }
  const { callerKey } = required(refusing(quotas).caller, 'the caller of a request that waits')
  return then(requester.pluginCaller(), (caller) =>
    caller instanceof Caller ? caller.callerKey : callerKey
  )
}
