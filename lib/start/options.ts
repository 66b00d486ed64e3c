import type { AuthenticationReader } from '../caller/request-caller.js'
import { OptionError } from '../errors.js'
import { assertTimeZone } from '../limit/calendar.js'
import type { DotenvOptions } from '../limit/configuration.js'
import { limitKinds, type LimitName } from '../limit/limit.js'
import { assertPreferenceReader, type PreferenceReader } from '../limit/preferences.js'
import {
  assertFunction,
  assertInteger,
  assertMilliseconds,
  assertOptions,
  checkThat,
  isNatural,
  isObject,
  oneOf,
  registerOptions,
  type Check,
  type Checks
} from '../option-checks.js'
import type { Cost } from '../permit/cost.js'
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
   * plugin is registered.
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
  readonly preferences?: PreferenceReader | false
  /**
   * The maximum time for an asynchronous preference reader, in milliseconds, an integer. Default
   * 1000.
   */
  readonly preferenceTimeout?: number
  /**
   * Additional quotas by name: at most 32 characters from a-z, 0-9 and "-", a letter first, and not
   * `default`. Default: none.
   */
  readonly quotas?: Readonly<Record<string, QuotaDefinition>>
  /** The configured limit if `SERVICE_RATE_LIMIT_PER_MINUTE` is not set, an integer. Default 10. */
  readonly perMinute?: number
  /**
   * `true`, or the options of a file to read the environment variables from, as `dotenv` of
   * `@fastify/env`. Default: none.
   */
  readonly dotenv?: DotenvOptions
  /**
   * Returns whom to count: the authentication of a request, or a promise of it. Default:
   * `request.user`; in `quotas`, as in the plugin.
   */
  readonly authentication?: AuthenticationReader | undefined
  /**
   * Adds the headers `RateLimit-Policy` and `RateLimit` to responses to admitted or rejected
   * requests. Default: no such headers.
   */
  readonly rateLimitHeaders?: 'draft-10'
  /**
   * Returns the body of a refusal and its content type; the status and the other headers do not
   * change. Default: the quota's own body.
   */
  readonly refusalBody?: RefusalBodyWriter
  /**
   * In `shadow` mode, decisions are made, counted and published, but refuse nothing. Default
   * `enforce`; in `quotas`, as in the plugin.
   */
  readonly mode?: 'enforce' | 'shadow' | undefined
}

/** A limit: a number of requests, or of another unit, such as `{ tokens: 20_000 }`. An integer. */
export type Amount = number | Readonly<Record<string, number>>
/** The options of a quota beside its limit. */
interface DefinitionBase extends Pick<
  QuotaOptions,
  'operations' | 'authentication' | 'mode' | 'store'
> {
  /**
   * What a request counts when it is admitted, such as the items of a batch, or an estimate.
   * Default: 1 request, 0 of another unit.
   */
  readonly cost?: Cost | undefined
  /**
   * What a request counts in the end if nothing was reported. Default: what it counted when it was
   * admitted.
   */
  readonly unreported?: Cost | undefined
  /**
   * The windows are the days or months of this IANA time zone. Default: UTC for months; days open
   * with the first request of a caller.
   */
  readonly timeZone?: string | undefined
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
export type QuotaDefinition = DefinitionBase &
  (
    | (InWindow<number> & Unset<'unreported'>)
    | InWindow<Readonly<Record<string, number>>>
    | (Limit<'inFlight', number> & Unset<'cost' | 'unreported' | 'timeZone'>)
  )

/** A definition without the rules that combine its fields. */
export type CheckedDefinition = DefinitionBase & {
  readonly [Name in LimitName]?: Amount | undefined
}

const assertQuotaName = checkThat(
  `must have names of at most 32 characters from a-z, 0-9 and "-" that start with a letter and are not "${defaultQuota}"`,
  (name) => name !== defaultQuota && /^[a-z][a-z0-9-]{0,31}$/.test(String(name))
)
const reservedUnits = ['requests', 'requests-in-flight', 'concurrent-requests']
const assertUnit = checkThat(
  `must have a unit of at most 32 characters from a-z and "-" that starts with a letter and is none of ${reservedUnits.join(', ')}`,
  (unit) => !reservedUnits.includes(String(unit)) && /^[a-z][a-z-]{0,31}$/.test(String(unit))
)
const assertCost = checkThat(
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
const assertPreferences: Check = (value, option) => {
  if (value !== false) assertPreferenceReader(value, option)
}
const assertTimeout: Check = (value, option) => {
  for (const check of [assertInteger, assertMilliseconds]) check(value, option)
}

/** Checks for the options that the quota and the earlier quota have in common. */
export const sharedChecks = {
  ...registerOptions,
  prefix: assertPrefix,
  preferences: assertPreferences,
  perMinute: assertInteger,
  dotenv: assertDotenv
}
// Checks for the options that the plugin and each quota have in common.
const ofEachQuota = {
  operations: assertOperations,
  store: assertStore,
  authentication: assertFunction,
  mode: oneOf('enforce', 'shadow')
}
const ofResponses = { rateLimitHeaders: oneOf('draft-10'), refusalBody: assertFunction }
const quotaChecks: Checks<QuotaOptions> = {
  ...sharedChecks,
  ...ofEachQuota,
  preferenceTimeout: assertTimeout,
  quotas: assertQuotas,
  ...ofResponses
}
const limits = {
  perMinute: assertAmount,
  perHour: assertAmount,
  perDay: assertAmount,
  perMonth: assertAmount,
  inFlight: assertInteger
}
const definitionChecks: Checks<CheckedDefinition> = {
  ...ofEachQuota,
  ...limits,
  cost: assertCost,
  unreported: assertCost,
  timeZone: assertTimeZone
}

// The options of a definition, and limits in a unit as other packages spell them, such as
// tokensPerMinute.
const ofDefinition =
  /^(?:cost|unreported|timeZone|inFlight|per(?:Hour|Day|Month)|.+Per(?:Minute|Hour|Day|Month))$/
const inQuotas =
  'must be defined in quotas, such as quotas: { chat: { perMinute: { tokens: 20000 } }, streams: { inFlight: 2 } }'

/** Throws an `OptionError` if an option is unknown or has an invalid value. */
export function assertQuotaOptions (options: unknown): asserts options is QuotaOptions {
  for (const [name, value] of Object.entries(Object(options))) {
    const isMisplaced =
      ofDefinition.test(name) || (name === 'perMinute' && typeof value === 'object')
    if (isMisplaced) throw new OptionError(name, inQuotas, value)
  }
  assertOptions<QuotaOptions>(options, quotaChecks)
}

function assertQuotas (quotas: unknown, option: string): void {
  checkThat('must be an object with the definition of each quota under its name', isObject)(
    quotas,
    option
  )
  for (const [name, definition] of Object.entries<unknown>(Object(quotas))) {
    assertQuotaName(name, option)
    assertOptions<CheckedDefinition>(definition, definitionChecks, `${option}.${name}.`)
    assertOneLimit(definition, `${option}.${name}`)
  }
}

/** Returns the options of a definition that hold a limit. */
export function limitsIn (definition: CheckedDefinition): LimitName[] {
  return (Object.keys(limitKinds) as LimitName[]).filter((name) => definition[name] !== undefined)
}

function assertOneLimit (definition: CheckedDefinition, option: string): void {
  const [limit = 'perMinute', ...others] = limitsIn(definition)
  if (others.length > 0) {
    throw new OptionError(option, 'must have one limit', [limit, ...others].join(' and '))
  }
  const rules = [
    [
      'cost',
      limit !== 'inFlight',
      'must not be set with inFlight, since a request in flight always takes one place'
    ],
    [
      'unreported',
      isObject(definition[limit]),
      'must be set only with a limit in a unit, such as { tokens: 20000 }'
    ],
    [
      'timeZone',
      limit === 'perDay' || limit === 'perMonth',
      'must be set only with perDay or perMonth'
    ]
  ] as const
  for (const [name, isUsable, rule] of rules) {
    if (definition[name] !== undefined && !isUsable) {
      throw new OptionError(`${option}.${name}`, rule, definition[name])
    }
  }
}

function assertAmount (value: unknown, option: string): void {
  if (!isObject(value)) return assertInteger(value, option)
  const units = Object.keys(value)
  const rule = 'must be an integer, or an object with one unit, such as { tokens: 20000 }'
  if (units.length !== 1) {
    throw new OptionError(option, rule, value, () => units.join(' and ') || 'no unit')
  }
  for (const unit of units) {
    assertUnit(unit, option)
    assertInteger(Reflect.get(value, unit), `${option}.${unit}`)
  }
}
