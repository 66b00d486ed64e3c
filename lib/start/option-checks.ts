import { OptionError } from '../errors.js'
import { assertPreferences } from '../limit/preference-reader.js'
import { assertStore } from '../store/store.js'
import { assertOperations } from '../subject/operation.js'
import { assertPrefix } from '../subject/prefix.js'
import { assertQuotaName } from '../subject/quota-name.js'
import type { NamedQuotaOptions, QuotaOptions } from './options.js'

/** Throws an `OptionError` if the value is not valid for the option. */
type Check = (value: unknown, option: string) => void

/** A check for each option. */
export type Checks<Options> = { readonly [Name in keyof Required<Options>]: Check }

// Fastify passes its own `register` options to the plugin as well. Its `prefix` is also the option of the quota.
const registerOptions: readonly string[] = ['logLevel', 'logSerializers']

// The longest delay that Node's timers support.
const longestTimeout = 2 ** 31 - 1

/** Checks for the options that the quota and the earlier quota have in common. */
export const sharedChecks = {
  prefix: assertPrefix,
  preferences: assertPreferencesOrNone,
  perMinute: assertPerMinute,
  dotenv: assertDotenv
}

const namedQuotaChecks: Checks<NamedQuotaOptions> = {
  operations: assertOperations,
  perMinute: assertPerMinute
}

const checks: Checks<QuotaOptions> = {
  ...sharedChecks,
  operations: assertOperations,
  store: (value, option) => { assertStore(value, option) },
  preferenceTimeout: assertPreferenceTimeout,
  quotas: assertQuotas,
  authentication: assertFunction,
  rateLimitHeaders: assertRateLimitHeaders,
  refusalBody: assertFunction,
  mode: assertMode
}

/** Throws an `OptionError` if an option is unknown or has an invalid value. */
export function assertQuotaOptions (options: object): asserts options is QuotaOptions {
  assertOptions(options, checks)
}

/**
 * Throws an `OptionError` if an option has no check or fails it.
 *
 * @param parent The text before the name of an option in an error message.
 */
export function assertOptions<Options> (options: object, checks: Checks<Options>, parent = ''): asserts options is Options & object {
  for (const [name, value] of Object.entries(options)) {
    const check: Check | undefined = Object.hasOwn(checks, name) ? Reflect.get(checks, name) : undefined
    if (registerOptions.includes(name) && parent === '') continue
    if (check === undefined) throw new OptionError(parent + name, 'does not exist', value)
    if (value !== undefined) check(value, parent + name)
  }
}

/** Throws an `OptionError` unless the value is a function. */
export function assertFunction (value: unknown, option: string): void {
  if (typeof value !== 'function') throw new OptionError(option, 'must be a function', value)
}

function assertPreferencesOrNone (value: unknown, option: string): void {
  if (value !== false) assertPreferences(option, value)
}

function assertQuotas (quotas: unknown, option: string): void {
  if (!isRecord(quotas)) throw new OptionError(option, 'must be an object with the options of each quota under its name', quotas)
  for (const [name, quota] of Object.entries(quotas)) {
    assertQuotaName(name, option)
    if (!isRecord(quota)) throw new OptionError(`${option}.${name}`, 'must be an object of options', quota)
    assertOptions<NamedQuotaOptions>(quota, namedQuotaChecks, `${option}.${name}.`)
  }
}

function isRecord (value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function assertPerMinute (value: unknown, option: string): void {
  if (!Number.isSafeInteger(value)) throw new OptionError(option, 'must be an integer', value)
}

function assertDotenv (value: unknown, option: string): void {
  if (typeof value !== 'boolean' && (typeof value !== 'object' || value === null)) {
    throw new OptionError(option, 'must be true, false or an object', value)
  }
}

function assertPreferenceTimeout (value: unknown, option: string): void {
  if (typeof value !== 'number' || !Number.isInteger(value) || value < 1 || value > longestTimeout) {
    throw new OptionError(option, `must be an integer from 1 to ${longestTimeout}, in milliseconds`, value)
  }
}

function assertRateLimitHeaders (value: unknown, option: string): void {
  if (value !== 'draft-10') throw new OptionError(option, "must be 'draft-10'", value)
}

function assertMode (value: unknown, option: string): void {
  if (value !== 'enforce' && value !== 'shadow') throw new OptionError(option, "must be 'enforce' or 'shadow'", value)
}
