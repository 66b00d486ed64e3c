import { OptionError } from '../errors.js'
import { isNatural } from '../option-checks.js'
import { ignoreRejection } from '../promises.js'
import { amountsByUnit, type Amounts } from './amounts.js'
import { ask, takeBack } from './ask.js'
import { decide, publishDecisions, refusalAmong } from './decide.js'
import type { QuotaDecision } from './decision.js'
import type { Permit } from './permit.js'
import { prepareDemand } from './prepare.js'
import { QuotaOfRequest } from './quota-of-request.js'
import { knownStateOf } from './request-state.js'

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
  amounts: Amounts
): Promise<QuotaDecision | null> {
  const asked = checkedAmounts(permit, amounts)
  const extensions = extensionsOf(permit, asked)
  const extending = takeExtensions(permit, extensions)
  // A server that closes meanwhile waits for it.
  permit.requester.server.closing.waitFor(extending)
  return await extending
}

/** Asks for the extensions, and adds them to the permit, unless it has ended meanwhile. */
async function takeExtensions (
  permit: Permit,
  extensions: readonly QuotaOfRequest[]
): Promise<QuotaDecision | null> {
  const { requester } = permit
  const { closing } = requester.server
  await ask(extensions, requester)
  decide(extensions)
  const refusal = refusalAmong(extensions)
  if (refusal !== null) {
    publishDecisions([refusal], requester)
    return refusal
  }
  const hasEndedMeanwhile = hasEnded(permit)
  for (const { quota, acquisition, usage } of extensions) {
    // A shadow quota can have no room, and then refuses nothing.
    if (acquisition === null || !acquisition.admitted || usage === null) continue
    if (hasEndedMeanwhile) closing.waitFor(takeBack(quota.store, acquisition, requester))
    else closing.waitFor(usage.extend(acquisition))
  }
  if (hasEndedMeanwhile) throw endedError(permit)
  return null
}

/** Returns what each quota of the permit that counts one of the units is asked for. */
function extensionsOf (
  permit: Permit,
  amounts: ReadonlyMap<string, number>
): readonly QuotaOfRequest[] {
  const extensions: QuotaOfRequest[] = []
  for (const { quota, operation, limit, usage } of permit.quotas) {
    const amount = amounts.get(quota.unit)
    // Disabled quotas have room for everything.
    if (amount === undefined || usage === null) continue
    const extension = new QuotaOfRequest(quota, operation)
    extension.limit = limit
    extension.usage = usage
    prepareDemand(extension, usage.caller, { least: amount, most: amount }, permit.requester)
    extensions.push(extension)
  }
  return extensions
}

/** Returns the amounts by unit, or throws an `OptionError`. */
function checkedAmounts (permit: Permit, amounts: Amounts): ReadonlyMap<string, number> {
  if (permit.refusal !== null) {
    throw new OptionError('request', 'must have been admitted', permit.refusal.outcome)
  }
  if (hasEnded(permit)) throw endedError(permit)
  const units = permit.quotas.map(({ quota }) => quota.unit)
  const checked = new Map<string, number>()
  for (const [unit, amount] of uncheckedAmounts(amounts)) {
    if (!isNatural(amount)) {
      ignoreRejection(amount)
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

/**
 * Whether a permit has ended, or its response has closed: a permit that has nothing to settle does
 * not note that.
 */
function hasEnded (permit: Permit): boolean {
  if (permit.hasEnded) return true
  const { request } = permit.requester
  return request !== null && knownStateOf(request)?.hasResponseEnded(request) === true
}

function uncheckedAmounts (amounts: Amounts): [unit: string, amount: unknown][] {
  try {
    return amountsByUnit(amounts)
  } catch {
    const rule = 'must be a number of tokens, or an object such as { tokens: 256 }'
    throw new OptionError('amounts', rule, amounts)
  }
}

function endedError (permit: Permit): OptionError {
  const rule = 'must have a permit that has not ended; it ends when the response closes'
  return new OptionError('request', rule, permit.requester.request)
}
