import { randomUUID } from 'node:crypto'
import { format, formatType, parameterError, type OptionError } from '../../errors.js'
import { isNatural, isObject } from '../../option-checks.js'

/** The form of the text. A text of another one is not read. */
const version = 1

/** What a permit that is handed over counts in one quota. */
export interface HandedOverHolding {
  /** The name of the quota. */
  readonly quota: string
  readonly unit: string
  readonly counters: string
  readonly callerKey: string
  /** With which any process can settle what the admission counted. */
  readonly receipt: string
  readonly granted: number
  /** Whether the quota had a limit, and not `Infinity`. */
  readonly isLimited: boolean
  /** What was reported before the permit was handed over; null if nothing was. */
  readonly reported: number | null
  /** `start` and `end` of the demand. */
  readonly start: number | null
  readonly end: number | null
  /**
   * When the window that counted the admission ends, in milliseconds since the epoch; null for
   * requests, whose settlements are not published.
   */
  readonly windowEnd: number | null
}

/** A permit that is handed over. */
export interface HandedOver {
  readonly reference: string | null
  readonly holdings: readonly HandedOverHolding[]
}

/** Returns the text of a permit. No other permit has the same, even with the same holdings. */
export function writeHandedOver ({ reference, holdings }: HandedOver): string {
  return JSON.stringify({ version, id: randomUUID(), reference, holdings })
}

/**
 * Returns what the text of a permit says.
 *
 * @throws {OptionError} If the value is not a text that `handOver` of this version returned.
 */
export function readHandedOver (text: unknown): HandedOver {
  const value = parse(text)
  if (!isObject(value)) throw unknownText(text)
  const read: { readonly [Name in keyof HandedOver | 'version']?: unknown } = value
  const { reference, holdings } = read
  if (read.version !== version) {
    const rule = `must be of version ${version}, that of this version of the package`
    throw parameterError('text', 'quotaResume', rule, read.version, formatVersion)
  }
  const isReference = reference === null || typeof reference === 'string'
  if (!isReference || !Array.isArray(holdings) || !holdings.every(isHolding)) {
    throw unknownText(text)
  }
  return { reference, holdings }
}

function parse (text: unknown): unknown {
  if (typeof text !== 'string') throw unknownText(text)
  try {
    return JSON.parse(text)
  } catch {
    throw unknownText(text)
  }
}

function isHolding (value: unknown): value is HandedOverHolding {
  if (!isObject(value)) return false
  const holding: { readonly [Name in keyof HandedOverHolding]?: unknown } = value
  const texts = [
    holding.quota,
    holding.unit,
    holding.counters,
    holding.callerKey,
    holding.receipt
  ]
  return (
    texts.every((each) => typeof each === 'string') &&
    isNatural(holding.granted) &&
    typeof holding.isLimited === 'boolean' &&
    isNaturalOrNull(holding.reported) &&
    isNaturalOrNull(holding.start) &&
    isNaturalOrNull(holding.end) &&
    isNaturalOrNull(holding.windowEnd)
  )
}

function isNaturalOrNull (value: unknown): boolean {
  return value === null || isNatural(value)
}

function unknownText (value: unknown): OptionError {
  const rule = 'must be a text that handOver returned'
  return parameterError('text', 'quotaResume', rule, value, formatType)
}

function formatVersion (value: unknown): string {
  return typeof value === 'number' ? format(value) : formatType(value)
}
