import { OptionError } from '../errors.js'
import type { DotenvOptions } from '../limit/configuration.js'
import { assertPreferenceReader } from '../limit/preferences.js'
import {
  assertFunction,
  assertInteger,
  assertMilliseconds,
  assertOptions,
  checkThat,
  entriesOf,
  isObject,
  oneOf,
  registerOptions,
  type Checks
} from '../option-checks.js'
import { assertQuotas, checksOfEachQuota, definitionChecks } from './definition-checks.js'
import type { QuotaOptions } from './options.js'

const assertPrefix = checkThat(
  'must start with "/"',
  (value) => typeof value === 'string' && value.startsWith('/')
)

type DotenvFile = Exclude<DotenvOptions, boolean | undefined>

const dotenvChecks: Checks<DotenvFile> = {
  path: checkThat('must be the path of a file', (value) => typeof value === 'string'),
  encoding: checkThat(
    'must be an encoding of Node.js',
    (value) => typeof value === 'string' && Buffer.isEncoding(value)
  )
}

function assertDotenv (value: unknown, option: string): void {
  if (typeof value === 'boolean') return
  if (!isObject(value)) throw new OptionError(option, 'must be true, false or an object', value)
  assertOptions<DotenvFile>(value, dotenvChecks, `${option}.`)
}

function assertPreferences (value: unknown, option: string): void {
  if (value !== false) assertPreferenceReader(value, option)
}

function assertTimeout (value: unknown, option: string): void {
  assertInteger(value, option)
  assertMilliseconds(value, option)
}

/** Checks for the options that the quota and the earlier quota have in common. */
export const checksOfBothPlugins = {
  ...registerOptions,
  prefix: assertPrefix,
  preferences: assertPreferences,
  perMinute: assertInteger,
  dotenv: assertDotenv
}

const quotaChecks: Checks<QuotaOptions> = {
  ...checksOfBothPlugins,
  ...checksOfEachQuota,
  preferenceTimeout: assertTimeout,
  quotas: assertQuotas,
  rateLimitHeaders: oneOf('draft-10'),
  refusalBody: assertFunction
}

/** A limit in a unit, as the options of other packages spell it, such as `tokensPerMinute`. */
const limitInUnit = /^.+Per[A-Z].+$/

const inQuotas =
  'must be defined in quotas, such as ' +
  'quotas: { chat: { perMinute: { tokens: 20000 } }, streams: { concurrent: 2 } }'

/** Whether an option is none of the plugin itself, but can be one of a definition. */
function belongsInQuotas (name: string, value: unknown): boolean {
  if (name === 'perMinute') return isObject(value) || typeof value === 'function'
  if (Object.hasOwn(quotaChecks, name)) return false
  return Object.hasOwn(definitionChecks, name) || limitInUnit.test(name)
}

/** Throws an `OptionError` if an option is unknown or has an invalid value. */
export function assertQuotaOptions (options: unknown): asserts options is QuotaOptions {
  if (isObject(options)) {
    for (const [name, value] of entriesOf(options)) {
      if (belongsInQuotas(name, value)) throw new OptionError(name, inQuotas, value)
    }
  }
  assertOptions<QuotaOptions>(options, quotaChecks)
}
