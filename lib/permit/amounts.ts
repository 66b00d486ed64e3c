import { formatType } from '../errors.js'
import { isNatural } from '../option-checks.js'
import { isPromise, ignoreRejection } from '../promises.js'
import type { QuotaLog } from './quota-log.js'

/**
 * Amounts of what a request uses: a number of model tokens, an amount for each unit, or null if
 * nothing is known.
 */
export type Amounts = number | Readonly<Record<string, number>> | null | undefined

const rule = 'the amounts must be a number of tokens, or an object such as { tokens: 150 }'

/**
 * Returns the amounts by unit, which are not checked. Throws a `TypeError` if the value is neither
 * a number nor an object of amounts, and whatever its getters throw.
 */
function amountsByUnit (amounts: unknown): [unit: string, amount: unknown][] {
  if (typeof amounts === 'number') return [['tokens', amounts]]
  if (typeof amounts !== 'object' || amounts === null) throw wrongAmounts(amounts)
  if (isPromise(amounts)) {
    ignoreRejection(amounts)
    throw new TypeError(`${rule}; it got a promise`)
  }
  // The entries of an array, a Map or another collection are no amounts.
  if (Symbol.iterator in amounts) throw wrongAmounts(amounts)
  return Object.entries(amounts)
}

/** Returns the amounts of a report by unit, without those that are not possible, which it logs. */
export function amountsOfReport (
  amounts: Amounts,
  log: QuotaLog
): readonly [unit: string, amount: number][] {
  const possible: [unit: string, amount: number][] = []
  if (amounts == null) return possible
  try {
    for (const [unit, amount] of amountsByUnit(amounts)) {
      if (isNatural(amount)) possible.push([unit, amount])
      else log.wrongReport(noAmount(amount))
    }
  } catch (error) {
    log.wrongReport(error)
  }
  return possible
}

/** Returns the error about what a host gave in place of an amount. */
export function noAmount (value: unknown): RangeError {
  ignoreRejection(value)
  const got = formatType(value)
  return new RangeError(`an amount must be a safe integer of at least 0; it got ${got}`)
}

function wrongAmounts (amounts: unknown): TypeError {
  return new TypeError(`${rule}; it got ${formatType(amounts)}`)
}
