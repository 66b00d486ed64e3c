import { format } from '../../errors.js'
import { isObject } from '../../option-checks.js'

/** The receipt of what a window counted. */
export interface WindowReceipt {
  readonly counters: string
  /** The caller whose counter it is; null of the overflow counter. */
  readonly callerKey: string | null
  /** The id of the window. */
  readonly window: number
  /** The period that admitted it, as `periodOf` returns it. */
  readonly period: number
}

/** The receipt of the place of a concurrent request. */
export interface PlaceReceipt {
  readonly counters: string
  readonly callerKey: string
  /** The id of the place. */
  readonly place: number
}

export type MemoryReceipt = WindowReceipt | PlaceReceipt

let latestId = 0

/**
 * Returns the id of a new window or place. Unique in this process, so that the receipt of one store
 * settles nothing in another.
 */
export function nextId (): number {
  latestId += 1
  return latestId
}

/** Throws a `TypeError` unless the value has the form of a receipt. */
export function assertMemoryReceipt (value: unknown): asserts value is MemoryReceipt {
  if (!isObject(value) || !(isWindowReceipt(value) || isPlaceReceipt(value))) {
    throw new TypeError(
      `a MemoryQuotaStore settles receipts of its own acquisitions; it got ${format(value)}`
    )
  }
}

type Checkable<Receipt> = { readonly [Field in keyof Receipt]?: unknown }

function isWindowReceipt (value: Checkable<WindowReceipt>): value is WindowReceipt {
  const { counters, callerKey, window, period } = value
  return (
    typeof counters === 'string' &&
    (typeof callerKey === 'string' || callerKey === null) &&
    typeof window === 'number' &&
    typeof period === 'number'
  )
}

function isPlaceReceipt (value: Checkable<PlaceReceipt>): value is PlaceReceipt {
  const { counters, callerKey, place } = value
  return (
    typeof counters === 'string' && typeof callerKey === 'string' && typeof place === 'number'
  )
}
