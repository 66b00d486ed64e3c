import type { OfRequest } from '../any-request.js'
import type { Authentication } from '../caller/authentication.js'
import type { AuthenticationReader } from '../caller/request-caller.js'
import { OptionError, format } from '../errors.js'
import { assertTimeZone } from '../limit/calendar.js'
import type { DotenvOptions } from '../limit/configuration.js'
import { limitNames, type LimitName } from '../limit/limit.js'
import { assertPreferenceReader, type PreferenceReader } from '../limit/preferences.js'
import {
  assertFunction,
  assertInteger,
  assertMilliseconds,
  assertOptions,
  checkThat,
  entriesOf,
  isNatural,
  isObject,
  isPlain,
  oneOf,
  registerOptions,
  type Checks
} from '../option-checks.js'
import { costRule, rangeOf, type Cost } from '../permit/cost.js'
import type { RefusalBodyWriter } from '../refusal/refusal.js'
import { assertStore, type QuotaStore } from '../store/store.js'
import { defaultQuota } from '../subject/mark.js'
import { assertOperations, type Operation } from '../subject/operation.js'

/**
 * Options of `fastify.register(quotaPlugin, options)`. All are optional. Fastify's own `register`
 * options are also accepted.
 */
export interface QuotaOptions {
  /**
   * The deployment context prefix. Default: the route prefix of the Fastify instance on which the
   * plugin is registered. It cannot be undefined, because it is one of Fastify's options, too.
   */
  readonly prefix?: string
  /**
   * The operations that the quota protects, beside the routes marked with its name. Default
   * `protectedOperations`; in `quotas`, none.
   */
  readonly operations?: readonly Operation[] | undefined
  /**
   * The store of the counters. Default: the host's `fastify.quotaStore`, or a new
   * `MemoryQuotaStore`; in `quotas`, that of the plugin.
   */
  readonly store?: QuotaStore | undefined
  /**
   * The reader of runtime preferences; `false` for none. Default: the host's `fastify.preferences`,
   * if any, when the server is ready.
   */
  readonly preferences?: PreferenceReader | false | undefined
  /**
   * The maximum time for an asynchronous preference reader, in milliseconds, an integer. Default
   * 1000.
   */
  readonly preferenceTimeout?: number | undefined
  /**
   * Additional quotas by name: at most 32 characters from a-z, 0-9 and "-", a letter first, and not
   * `default`. Default: none.
   */
  readonly quotas?: Readonly<Record<string, QuotaDefinition>> | undefined
  /** The configured limit if `SERVICE_RATE_LIMIT_PER_MINUTE` is not set, an integer. Default 10. */
  readonly perMinute?: number | undefined
  /**
   * `true`, or the options of a file to read the environment variables from, as `dotenv` of
   * `@fastify/env`. Default: none.
   */
  readonly dotenv?: DotenvOptions | undefined
  /**
   * Returns whom to count: the authentication of a request, or a promise of it, which must settle.
   * Default: `request.user`; in `quotas`, as in the plugin.
   */
  readonly authentication?: AuthenticationReader | undefined
  /**
   * Adds the headers `RateLimit-Policy` and `RateLimit` to responses to admitted or rejected
   * requests. Default: no such headers.
   */
  readonly rateLimitHeaders?: 'draft-10' | undefined
  /**
   * Returns the body of a refusal and its content type; the status and the other headers do not
   * change. Default: the quota's own body.
   */
  readonly refusalBody?: RefusalBodyWriter | undefined
  /**
   * In `shadow` mode, decisions are made, counted and published, but refuse nothing. Default
   * `enforce`; in `quotas`, as in the plugin.
   */
  readonly mode?: 'enforce' | 'shadow' | undefined
}

/** A limit: a number of requests, or of another unit, such as `{ tokens: 20_000 }`. An integer. */
export type Amount = number | Readonly<Record<string, number>>

/** A time zone, or a function that returns that of a caller. */
export type TimeZone = string | ((authentication: Authentication) => string)

/** The options that every quota has. */
interface CommonOptions extends Pick<
  QuotaOptions,
  'operations' | 'authentication' | 'mode' | 'store'
> {
  /**
   * The windows are the days or months of this IANA time zone, or of the one that a function of the
   * caller's authentication returns, for example that of each organization. Default: UTC for
   * months; days open with the first request of a caller.
   */
  readonly timeZone?: TimeZone | undefined
}

/** What requests of a quota count that does not limit requests in flight. */
interface Costs<Value> {
  /**
   * What a request counts when it is admitted, such as the items of a batch, or an estimate.
   * Default: 1 request, 0 of another unit. In another unit than requests it can be a range, of
   * which the request is granted as much as there is room for.
   */
  readonly cost?: Value | OfRequest<Value> | undefined
}

/** What requests of a quota count in another unit than requests. */
interface Reports {
  /**
   * What a request counts in the end if nothing was reported. Default: what it counted when it was
   * admitted.
   */
  readonly unreported?: number | OfRequest<number> | undefined
}

type Unset<Name extends string> = { readonly [Each in Name]?: undefined }
/** Exactly one limit, under its option. */
type Limit<Name extends LimitName, Value> = { readonly [Each in Name]: Value } & Unset<
  Exclude<LimitName, Name>
>
type InWindow<Value> =
  | ((Partial<Limit<'perMinute', Value | undefined>> | Limit<'perHour', Value>) & Unset<'timeZone'>)
  | Limit<'perDay', Value>
  | Limit<'perMonth', Value>

/**
 * One of the `quotas`. It has one limit: requests or another unit per minute, hour, day or month,
 * or how many requests of a caller can be in flight. Default `perMinute: 10`. The limit applies if
 * neither a preference nor the environment variable sets another one.
 */
export type QuotaDefinition = CommonOptions &
  (
    | (InWindow<number> & Costs<number> & Unset<'unreported'>)
    | (InWindow<Readonly<Record<string, number>>> & Costs<Cost> & Reports)
    | (Limit<'inFlight', number> & Unset<'cost' | 'unreported' | 'timeZone'>)
  )

/** A definition without the rules that combine its fields. */
export type CheckedDefinition = CommonOptions &
  Costs<Cost> &
  Reports & {
    readonly [Name in LimitName]?: Amount | undefined
  }

const assertQuotaName = checkThat(
  'must have names of at most 32 characters from a-z, 0-9 and "-" that start with a letter and ' +
  `are not "${defaultQuota}"`,
  (name) =>
    typeof name === 'string' && name !== defaultQuota && /^[a-z][a-z0-9-]{0,31}$/.test(name)
)

const reservedUnits = ['requests', 'requests-in-flight', 'concurrent-requests']
const assertUnit = checkThat(
  'must have a unit of at most 32 characters from a-z and "-" that starts with a letter and is ' +
  `none of ${reservedUnits.join(', ')}`,
  (unit) =>
    typeof unit === 'string' && !reservedUnits.includes(unit) && /^[a-z][a-z-]{0,31}$/.test(unit)
)

const assertUnreported = checkThat(
  'must be an integer of at least 0 or a function',
  (value) => typeof value === 'function' || isNatural(value)
)

const assertPrefix = checkThat(
  'must start with "/"',
  (value) => typeof value === 'string' && value.startsWith('/')
)

const assertDotenv = checkThat(
  'must be true, false or an object',
  (value) => typeof value === 'boolean' || isObject(value)
)

/** Shows the ends of a range, which hold no secret. */
function formatCost (value: unknown): string {
  if (!isObject(value) || !('least' in value) || !('most' in value)) return format(value)
  return `{ least: ${format(value.least)}, most: ${format(value.most)} }`
}

const assertCostValue = checkThat(
  `${costRule}, or a function`,
  (value) => rangeOf(value) !== null,
  formatCost
)

function assertCost (value: unknown, option: string): void {
  if (typeof value !== 'function') assertCostValue(value, option)
}

function assertCallersTimeZone (value: unknown, option: string): void {
  if (typeof value !== 'function') assertTimeZone(value, option)
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

/** Checks for the options that the plugin and each quota have in common. */
const checksOfEachQuota = {
  operations: assertOperations,
  store: assertStore,
  authentication: assertFunction,
  mode: oneOf('enforce', 'shadow')
}

const quotaChecks: Checks<QuotaOptions> = {
  ...checksOfBothPlugins,
  ...checksOfEachQuota,
  preferenceTimeout: assertTimeout,
  quotas: assertQuotas,
  rateLimitHeaders: oneOf('draft-10'),
  refusalBody: assertFunction
}

const definitionChecks: Checks<CheckedDefinition> = {
  ...checksOfEachQuota,
  perMinute: assertAmount,
  perHour: assertAmount,
  perDay: assertAmount,
  perMonth: assertAmount,
  inFlight: assertInteger,
  cost: assertCost,
  unreported: assertUnreported,
  timeZone: assertCallersTimeZone
}

// The options of a definition, and limits in a unit as other packages spell them, such as
// tokensPerMinute.
const optionOfDefinition =
  /^(?:cost|unreported|timeZone|inFlight|per(?:Hour|Day|Month)|.+Per(?:Minute|Hour|Day|Month))$/
const inQuotas =
  'must be defined in quotas, such as ' +
  'quotas: { chat: { perMinute: { tokens: 20000 } }, streams: { inFlight: 2 } }'

/** Throws an `OptionError` if an option is unknown or has an invalid value. */
export function assertQuotaOptions (options: unknown): asserts options is QuotaOptions {
  if (isObject(options)) {
    for (const [name, value] of entriesOf(options)) {
      const isMisplaced =
        optionOfDefinition.test(name) || (name === 'perMinute' && typeof value === 'object')
      if (isMisplaced) throw new OptionError(name, inQuotas, value)
    }
  }
  assertOptions<QuotaOptions>(options, quotaChecks)
}

function assertQuotas (quotas: unknown, option: string): void {
  if (!isPlain(quotas)) {
    const rule = 'must be a plain object with the definition of each quota under its name'
    throw new OptionError(option, rule, quotas)
  }
  for (const [name, definition] of entriesOf(quotas)) {
    assertQuotaName(name, option)
    assertOptions<CheckedDefinition>(definition, definitionChecks, `${option}.${name}.`)
    assertCombination(definition, `${option}.${name}`)
  }
}

/**
 * Returns the option of a definition that holds its limit. Throws an `OptionError` if there are
 * several.
 */
function assertOneLimit (definition: CheckedDefinition, option: string): LimitName {
  const names = limitNames.filter((name) => definition[name] !== undefined)
  if (names.length > 1) throw new OptionError(option, 'must have one limit', names.join(' and '))
  return names[0] ?? 'perMinute'
}

/** Throws an `OptionError` if the options of a quota do not belong together. */
function assertCombination (definition: CheckedDefinition, option: string): void {
  const { cost, unreported, timeZone } = definition
  const limitName = assertOneLimit(definition, option)
  const isInUnit = isObject(definition[limitName])
  if (cost !== undefined && limitName === 'inFlight') {
    const rule = 'must not be set with inFlight, since a request in flight always takes one place'
    throw new OptionError(`${option}.cost`, rule, cost)
  }
  if (isObject(cost) && !isInUnit) {
    const rule = 'must be a range only with a limit in a unit, such as { tokens: 20000 }'
    throw new OptionError(`${option}.cost`, rule, cost, formatCost)
  }
  if (unreported !== undefined && !isInUnit) {
    const rule = 'must be set only with a limit in a unit, such as { tokens: 20000 }'
    throw new OptionError(`${option}.unreported`, rule, unreported)
  }
  if (timeZone !== undefined && limitName !== 'perDay' && limitName !== 'perMonth') {
    const rule = 'must be set only with perDay or perMonth'
    throw new OptionError(`${option}.timeZone`, rule, timeZone)
  }
}

function assertAmount (value: unknown, option: string): void {
  if (!isObject(value)) return assertInteger(value, option)
  const [entry, ...others] = entriesOf(value)
  if (entry === undefined || others.length > 0) {
    const rule = 'must be an integer, or an object with one unit, such as { tokens: 20000 }'
    const units = Object.keys(value).join(' and ')
    throw new OptionError(option, rule, value, () => units || 'no unit')
  }
  const [unit, limit] = entry
  assertUnit(unit, option)
  assertInteger(limit, `${option}.${unit}`)
}
