import type { FastifyRequest } from 'fastify'
import type { OfRequest } from '../any-request.js'
import { shown } from '../errors.js'
import { logFailure } from '../log.js'
import { isNatural } from '../option-checks.js'
import { ignoreRejection } from '../promises.js'

/**
 * A cost: a safe integer of at least 0, or a function of the request that returns it. One above the
 * limit counts as the limit.
 */
export type Cost = number | OfRequest<number>

/**
 * Returns an amount that the host states; null if its function throws or returns no amount, which
 * is logged with the message.
 */
export function amountFor (
  amount: Cost,
  request: FastifyRequest,
  message: string,
  properties: object
): number | null {
  // The options were checked at start-up.
  if (typeof amount === 'number') return amount
  try {
    const value = amount(request)
    if (isNatural(value)) return value
    ignoreRejection(value)
    throw new RangeError(`an amount must be a safe integer of at least 0; it got ${shown(value)}`)
  } catch (error) {
    logFailure(request.log, error, message, properties)
    return null
  }
}
