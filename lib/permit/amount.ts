import type { FastifyRequest } from 'fastify'
import type { OfRequest } from '../any-request.js'
import { shown } from '../errors.js'
import { logFailure } from '../log.js'
import { ignoreRejection } from '../promises.js'

/** An amount, or a function of the request that returns it. */
export type AmountOf = number | OfRequest<number>

/** Returns an amount that the host states; null if its function throws or returns no amount, which is logged with the message. */
export function amountFor (amount: AmountOf, request: FastifyRequest, quota: string, message: string): number | null {
  if (typeof amount === 'number') return amount
  try {
    const value = amount(request)
    if (isAmount(value)) return value
    ignoreRejection(value)
    throw invalidAmount(value)
  } catch (error) {
    logFailure(request.log, error, message, { quota })
    return null
  }
}

export function isAmount (value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0
}

export function invalidAmount (value: unknown): RangeError {
  return new RangeError(`an amount must be a safe integer of at least 0; it got ${shown(value)}`)
}
