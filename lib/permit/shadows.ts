import timers from 'node:timers'
import { logFailure } from '../log.js'
import { isPromise, then, type Eventual } from '../promises.js'
import { withTimeout } from '../time-limit.js'
import { ask } from './ask.js'
import { publishDecisions } from './decide.js'
import { Permit, type Shadow } from './permit.js'
import { prepare } from './prepare.js'
import { decisionsOf, type QuotaOfRequest } from './quota-of-request.js'
import type { Requester } from './requester.js'

/** How long a request waits for its shadow quotas, in milliseconds. */
const shadowTimeout = 100

/**
 * Takes the permits of the shadow quotas of an admitted request, each on its own and at the same
 * time, and waits for them for a while. What is decided later is published, and settled like the
 * others. Neither throws nor rejects.
 */
export function takeShadows (
  quotas: readonly QuotaOfRequest[],
  requester: Requester
): Eventual<readonly Shadow[]> {
  const shadows: Shadow[] = []
  const waiting: PromiseLike<void>[] = []
  for (const each of quotas) {
    const permit = takeShadow(each, requester)
    const shadow: Shadow = { quota: each.quota, permit }
    shadows.push(shadow)
    if (!isPromise(permit)) continue
    const deciding = permit.then((taken) => {
      shadow.permit = taken
    })
    waiting.push(deciding)
  }
  if (waiting.length === 0) return shadows
  const waited = withTimeout(shadowTimeout, Promise.all(waiting), { timers })
  return waited.then(
    () => shadows,
    () => shadows
  )
}

/** Takes the permit of a shadow quota, which refuses nothing. Neither throws nor rejects. */
function takeShadow (each: QuotaOfRequest, requester: Requester): Eventual<Permit> {
  function decided (): Permit {
    const decisions = decisionsOf([each])
    publishDecisions(decisions, requester)
    return new Permit(requester, [each], { refusal: null, decisions })
  }
  function failed (error: unknown): Permit {
    const message = 'a shadow quota could not decide on a request'
    logFailure(requester.log, error, message, { quota: each.quota.name })
    return new Permit(requester, [], { refusal: null, decisions: [] })
  }
  try {
    const preparing = prepare([each], requester)
    const permit = then(preparing, () => then(ask([each], requester), decided))
    if (permit instanceof Permit) return permit
    const deciding = permit.then((taken) => taken, failed)
    requester.server.closing.waitFor(deciding)
    return deciding
  } catch (error) {
    return failed(error)
  }
}
