import { OptionError } from '../errors.js'
import { isNatural } from '../option-checks.js'
import { takeBack } from '../store/ask-stores.js'
import { amountsByUnit, type Amounts } from './amounts.js'
import type { QuotaDecision } from './decision.js'
import { ask } from './ask.js'
import { decide, refusalAmong } from './decide.js'
import type { OpenPermits } from './open-permits.js'
import type { Permit } from './permit.js'
import { prepareDemand, type Prepared } from './prepare.js'
import { publishDecisions } from './publish.js'
import { knownStateOf } from './request-state.js'
import type { Usage } from './usage.js'

/**
 * Takes more of one or more units in all quotas of a permit that count them, in one step: all have
 * room for it, or none takes anything. Its limits are those of the admission.
 *
 * @returns Null if all of them had room; otherwise the decision that refuses.
 * @throws {OptionError} If an amount or its unit is not possible, if the request was not admitted,
 *   or if the permit has ended.
 */
export async function extendPermit (
  permit: Permit,
  amounts: Amounts,
  open: OpenPermits
): Promise<QuotaDecision | null> {
  const asked = amountsOfPermit(permit, amounts)
  const { requester } = permit
  const extended: Usage[] = []
  const prepared: Prepared[] = []
  for (const usage of permit.usages) {
    const { quota, caller, demand } = usage.prepared
    const amount = asked.get(quota.unit)
    if (amount === undefined) continue
    const cost = { least: amount, most: amount }
    extended.push(usage)
    prepared.push(prepareDemand(usage.prepared, caller, demand.limit, cost, requester.log))
  }
  // A server that closes meanwhile waits for it.
  open.startDecision()
  const answers = await ask(prepared, requester, open)
  open.endDecision()
  const evaluations = decide(prepared, answers)
  const refusal = refusalAmong(evaluations)
  if (refusal !== null) {
    publishDecisions([refusal.decision], requester, open.log)
    return refusal.decision
  }
  if (hasEnded(permit)) {
    for (const { prepared, acquisition } of evaluations) {
      if (acquisition !== null) open.wait(takeBack(prepared.quota.store, acquisition, requester))
    }
    throw endedError(permit)
  }
  for (const [index, usage] of extended.entries()) {
    const acquisition = evaluations[index]?.acquisition
    // A shadow quota can have no room, and then refuses nothing.
    if (acquisition?.admitted === true) open.wait(usage.extend(acquisition))
  }
  return null
}

/** Returns the amounts by unit, or throws an `OptionError`. */
function amountsOfPermit (permit: Permit, amounts: Amounts): Map<string, number> {
  if (permit.refusal !== null) {
    throw new OptionError('request', 'must have been admitted', permit.refusal.decision.outcome)
  }
  if (hasEnded(permit)) throw endedError(permit)
  const units = permit.evaluations.map(({ prepared }) => prepared.quota.unit)
  const checked = new Map<string, number>()
  for (const [unit, amount] of entriesOf(amounts)) {
    if (!isNatural(amount)) {
      throw new OptionError(`amounts.${unit}`, 'must be a safe integer of at least 0', amount)
    }
    const isExtensible = unit !== 'requests' && unit !== 'concurrent-requests'
    if (!isExtensible || !units.includes(unit)) {
      throw new OptionError('amounts', 'must be in a unit that a quota of the request counts', unit)
    }
    checked.set(unit, amount)
  }
  return checked
}

/** A permit that has nothing to settle is not ended with the response. */
function hasEnded (permit: Permit): boolean {
  if (permit.hasEnded) return true
  const { request } = permit.requester
  return request !== null && knownStateOf(request)?.hasResponseEnded(request) === true
}

function entriesOf (amounts: Amounts): [unit: string, amount: unknown][] {
  try {
    return amountsByUnit(amounts)
  } catch {
    const rule = 'must be a number of tokens, or an object such as { tokens: 256 }'
    throw new OptionError('amounts', rule, amounts)
  }
}

function endedError (permit: Permit): OptionError {
  return new OptionError(
    'request',
    'must have a permit that has not ended',
    permit.requester.request
  )
}
