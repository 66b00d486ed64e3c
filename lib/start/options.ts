import type { FastifyRequest } from 'fastify'
import type { AuthenticationReader } from '../caller/request-caller.js'
import { OptionError } from '../errors.js'
import { assertDotenv, type DotenvOptions } from '../limit/configuration.js'
import { limitKinds, type LimitName } from '../limit/limit.js'
import { assertPreferenceReader, type PreferenceReader } from '../limit/preferences.js'
import { assertFunction, assertInteger, assertMilliseconds, assertOptions, oneOf, registerOptions, type Checks } from '../option-checks.js'
import type { RefusalBodyWriter } from '../refusal/host-body.js'
import { assertStore, type QuotaStore } from '../store/store.js'
import { defaultQuota } from '../subject/mark.js'
import { assertOperations, type Operation } from '../subject/operation.js'
import { assertPrefix } from '../subject/paths.js'

/** Options of `fastify.register(quotaPlugin, options)`. All are optional. Fastify's own `register` options are also accepted. */
export interface QuotaOptions {
  /** The deployment context prefix. Default: the route prefix of the Fastify instance on which the plugin is registered. */
  readonly prefix?: string
  /** The operations that the default quota protects. Default `protectedOperations`. */
  readonly operations?: readonly Operation[]
  /** The store that holds the counters. Default: the host's `fastify.quotaStore`, or a new `MemoryQuotaStore` if there is none. */
  readonly store?: QuotaStore
  /**
   * The reader of runtime preferences. Set it to `false` to use none. Default: the value of the host's `fastify.preferences` when
   * the server becomes ready, or none if the host has no such decorator.
   */
  readonly preferences?: PreferenceReader | false
  /** How long an asynchronous preference reader may take, in milliseconds, an integer. Default 1000. */
  readonly preferenceTimeout?: number
  /**
   * Additional quotas by name, each with a limit and counters of its own. A name has at most 32 characters from a-z, 0-9 and "-",
   * starts with a letter, and is not `default`. Default: none.
   */
  readonly quotas?: Readonly<Record<string, QuotaDefinition>>
  /** The configured limit if `SERVICE_RATE_LIMIT_PER_MINUTE` is not set, an integer. Default 10. */
  readonly perMinute?: number
  /** `true`, or the options of a file to read the environment variables from, as in the `dotenv` option of `@fastify/env`. Default: none. */
  readonly dotenv?: DotenvOptions
  /** Returns the authentication of a request, or a promise for it. Default: uses the value of `request.user`. */
  readonly authentication?: AuthenticationReader
  /**
   * Adds the headers `RateLimit-Policy` and `RateLimit` to the responses to requests that were admitted or rejected. Default: no
   * such headers.
   */
  readonly rateLimitHeaders?: 'draft-10'
  /** Returns the body of a refusal and its content type; the status and the other headers do not change. Default: the quota's own body. */
  readonly refusalBody?: RefusalBodyWriter
  /** In `shadow` mode, decisions are made, counted and published, but every request passes. Default `enforce`. */
  readonly mode?: 'enforce' | 'shadow'
}

/**
 * One of the `quotas`. It has one limit: requests or model tokens in a window, or requests in flight. Default `perMinute: 10`. A limit is an
 * integer and applies if neither a preference nor the environment variable sets another one.
 */
export interface QuotaDefinition extends Readonly<Partial<Record<LimitName, number>>> {
  /** Requests per minute, an integer. */
  readonly perMinute?: number
  /** Requests per hour, an integer. */
  readonly perHour?: number
  /** Requests per day, an integer. */
  readonly perDay?: number
  /** Model tokens per minute, an integer. */
  readonly tokensPerMinute?: number
  /** Model tokens per hour, an integer. */
  readonly tokensPerHour?: number
  /** Model tokens per day, an integer. */
  readonly tokensPerDay?: number
  /** Requests at once, an integer. */
  readonly inFlight?: number
  /** The operations that the quota protects, beside the routes that are marked with its name. Default: none. */
  readonly operations?: readonly Operation[]
  /** Returns whom the quota counts, for example the caller's organisation. Default: that of the plugin. */
  readonly authentication?: AuthenticationReader
  /** In `shadow` mode, the quota refuses nothing. Default: that of the plugin. */
  readonly mode?: 'enforce' | 'shadow'
  /** Model tokens to charge if the response has closed and none were reported, or a function that returns them. Token quotas only. Default 0. */
  readonly unreportedTokens?: number | ((request: FastifyRequest) => number)
}

const quotaName = /^[a-z][a-z0-9-]{0,31}$/
const limitNames = Object.keys(limitKinds)
const modes = oneOf('enforce', 'shadow')

/** Checks for the options that the quota and the earlier quota have in common. */
export const sharedChecks = {
  prefix: assertPrefix,
  preferences: assertPreferencesOrNone,
  perMinute: assertInteger,
  dotenv: assertDotenv
}

const checks: Checks<QuotaOptions> = {
  ...sharedChecks,
  operations: assertOperations,
  store: assertStoreOption,
  preferenceTimeout: assertTimeout,
  quotas: assertQuotas,
  authentication: assertFunction,
  rateLimitHeaders: oneOf('draft-10'),
  refusalBody: assertFunction,
  mode: modes
}

const definitionChecks: Checks<QuotaDefinition> = {
  operations: assertOperations,
  authentication: assertFunction,
  mode: modes,
  unreportedTokens: assertUnreportedTokens,
  perMinute: assertInteger,
  perHour: assertInteger,
  perDay: assertInteger,
  tokensPerMinute: assertInteger,
  tokensPerHour: assertInteger,
  tokensPerDay: assertInteger,
  inFlight: assertInteger
}

/** Throws an `OptionError` if an option is unknown or has an invalid value. */
export function assertQuotaOptions (options: unknown): asserts options is QuotaOptions {
  assertOptions<QuotaOptions>(options, { ...registerOptions, ...checks })
}

function assertQuotas (quotas: unknown, option: string): void {
  if (typeof quotas !== 'object' || quotas === null || Array.isArray(quotas)) throw new OptionError(option, 'must be an object with the definition of each quota under its name', quotas)
  for (const [name, definition] of Object.entries(quotas)) {
    if (name === defaultQuota || !quotaName.test(name)) {
      throw new OptionError(option, `must have names of at most 32 characters from a-z, 0-9 and "-" that start with a letter and are not "${defaultQuota}"`, name)
    }
    assertOptions<QuotaDefinition>(definition, definitionChecks, `${option}.${name}.`)
    assertOneLimit(definition, `${option}.${name}`)
  }
}

function assertOneLimit (definition: QuotaDefinition, option: string): void {
  const limits = Object.entries(definition).filter(([name, value]) => limitNames.includes(name) && value !== undefined).map(([name]) => name)
  if (limits.length > 1) throw new OptionError(option, 'must have one limit', limits.join(' and '))
  if (definition.unreportedTokens !== undefined && !limits[0]?.startsWith('tokens')) {
    throw new OptionError(`${option}.unreportedTokens`, 'must be set only with a limit of tokens', definition.unreportedTokens)
  }
}

function assertPreferencesOrNone (value: unknown, option: string): void {
  if (value !== false) assertPreferenceReader(value, option)
}

function assertStoreOption (value: unknown, option: string): void {
  assertStore(value, option)
}

function assertTimeout (value: unknown, option: string): void {
  assertInteger(value, option)
  assertMilliseconds(value, option)
}

function assertUnreportedTokens (value: unknown, option: string): void {
  if (typeof value !== 'function' && !(Number.isSafeInteger(value) && Number(value) >= 0)) {
    throw new OptionError(option, 'must be an integer of at least 0 or a function', value)
  }
}
