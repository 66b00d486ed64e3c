import type { AnyRequest } from '../any-request.js'
import { OptionError } from '../errors.js'
import { amountsOfReport, type Amounts } from './amounts.js'
import type { QuotaDecision } from './decision.js'
import { extendPermit } from './extend.js'
import type { QuotaLog } from './quota-log.js'
import { knownStateOf } from './request-state.js'

/**
 * Reports what an admitted request has used, even after its response has ended; several reports add
 * up (docs/rules.md, "Costs"). Does nothing if the request was not admitted.
 *
 * @param amounts A number of model tokens, an amount for each unit, or null if nothing is known. An
 *   amount is a safe integer of at least 0; any other is logged as an error and not counted.
 * @returns A promise that is fulfilled when the store has counted it. It never rejects: if the
 *   store fails, the error is logged.
 */
export type QuotaCharger = {
  /** Reports amounts. */
  method(request: AnyRequest, amounts: Amounts): Promise<void>
}['method']

/**
 * Takes more for an admitted request in all of its quotas that count the units, in one step: all
 * have room for it, or none takes anything (docs/rules.md, "Costs"). For example for the next 256
 * tokens of a stream. To take what is left, ask for the `remaining` of `quotaStanding`.
 *
 * @param amounts A number of model tokens, or an amount for each unit. There is never room for one
 *   above a limit.
 * @returns Null if all had room. Otherwise the decision that refuses: `rejected`, or `unavailable`
 *   if a store fails. Its `retryAfter` takes what the request itself holds for room that can become
 *   free.
 * @throws {OptionError} `FST_ERR_LLM_QUOTA_OPTION`, if an amount is not a safe integer of at least
 *   0, if no quota of the request counts the unit, if the request was not admitted, or if its
 *   permit has ended.
 */
export type QuotaExtender = {
  /** Takes more. */
  method(request: AnyRequest, amounts: NonNullable<Amounts>): Promise<QuotaDecision | null>
}['method']

/**
 * Returns how much of a unit an admitted request was granted, extensions included: the least of its
 * enforced quotas that count the unit. Pass it on as the `max_tokens` of a model, for example.
 *
 * @returns A safe integer of at least 0; null if none of its enforced quotas counts the unit, or if
 *   each that does is disabled.
 */
export type QuotaGrantReader = {
  /** Reads what was granted. */
  method(request: AnyRequest, unit: string): number | null
}['method']

/** Creates the function for the decorator `fastify.quotaCharge`. */
export function createQuotaCharger (log: QuotaLog): QuotaCharger {
  return async function quotaCharge (request, amounts) {
    const state = knownStateOf(request)
    // A permit that is there is not awaited: the response could close first, and a warning would
    // say that nothing was reported.
    const permit = state?.permit ?? (await state?.pending)
    if (permit !== undefined) return permit.charge(amounts)
    // The request is subject to no quota, so only mistakes in the report are logged.
    amountsOfReport(amounts, log)
    if (typeof amounts === 'number') log.uncountedTokens()
  }
}

/** The function for the decorator `fastify.quotaExtend`. */
export const quotaExtend: QuotaExtender = async (request, amounts) => {
  const permit = await knownStateOf(request)?.pending
  if (permit === undefined) {
    throw new OptionError('request', 'must have been admitted by a quota', request)
  }
  return extendPermit(permit, amounts)
}

/** The function for the decorator `fastify.quotaGranted`. */
export const quotaGranted: QuotaGrantReader = (request, unit) =>
  knownStateOf(request)?.permit?.granted(unit) ?? null
