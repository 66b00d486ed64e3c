import { format } from '../errors.js'
import { isNatural, isObject } from '../option-checks.js'

/**
 * What a request counts when it is admitted: a safe integer of at least 0; or a range, of which it
 * is granted as much as there is room for. A number is the range from itself to itself. If the
 * least is above the limit, there is never room.
 */
export type Cost = number | CostRange

/** A range of a cost. Only in a unit other than requests. */
export interface CostRange {
  /** The least that the request can use, a safe integer of at least 0. */
  readonly least: number
  /** The most that the request can use, a safe integer of at least `least`. */
  readonly most: number
}

/** What a cost must be, for error messages. */
export const costRule =
  'must be a safe integer of at least 0, or { least, most } of two of them, least not above most'

/** Shows the ends of a range in an error message; they hold no secret. */
export function formatCost (value: unknown): string {
  if (!isObject(value) || !('least' in value) || !('most' in value)) return format(value)
  return `{ least: ${format(value.least)}, most: ${format(value.most)} }`
}

/**
 * Returns the range of a cost; null if the value is not a cost. A copy, so that what was checked is
 * also what counts, whatever the host does with its object.
 */
export function rangeOf (value: unknown): CostRange | null {
  if (!isObject(value)) return isNatural(value) ? { least: value, most: value } : null
  const { least, most }: { readonly least?: unknown; readonly most?: unknown } = value
  return isNatural(least) && isNatural(most) && least <= most ? { least, most } : null
}
