import type { FastifyRequest } from 'fastify'
import type { Authentication } from './authentication.js'
import type { DotenvOptions } from './configuration.js'
import { OptionError, shown } from './errors.js'
import { assertOperations, type Operation } from './operation.js'
import { assertPreferences, type PreferenceReader } from './preference.js'
import { assertPrefix } from './prefix.js'
import { assertStore, type QuotaStore } from './store.js'

declare module 'fastify' {
  interface FastifyInstance {
    /** Where the quota's counters are kept. */
    quotaStore: QuotaStore
  }
}

/**
 * What `fastify.register(quotaPlugin, options)` takes. Every option is optional.
 *
 * @example
 * ```ts
 * import Fastify from 'fastify'
 * import quotaPlugin, { MemoryQuotaStore, protectedOperations, type QuotaOptions } from 'fastify-llm-quota'
 *
 * const options: QuotaOptions = {
 *   prefix: '/context',
 *   operations: protectedOperations,
 *   store: new MemoryQuotaStore({ maxTrackedCallers: 50_000 }),
 *   perMinute: 20,
 *   mode: 'shadow'
 * }
 * await Fastify().register(quotaPlugin, options)
 * ```
 */
export interface QuotaOptions {
  /** The deployment context prefix. Default: the route prefix of the instance that the plugin is registered on. */
  readonly prefix?: string
  /** The operations that the quota applies to. Default `protectedOperations`. */
  readonly operations?: readonly Operation[]
  /** Where the counters are kept. Default: the host's `fastify.quotaStore`, else a new `MemoryQuotaStore`. */
  readonly store?: QuotaStore
  /** The runtime preferences. Default: the host's `fastify.preferences`, looked up when the server is ready, else none. */
  readonly preferences?: PreferenceReader
  /** The configured property's default, an integer. `SERVICE_RATE_LIMIT_PER_MINUTE` wins over it; 10 when neither is set. */
  readonly perMinute?: number
  /** Where else than the environment that variable may stand, as `@fastify/env` takes it. */
  readonly dotenv?: DotenvOptions
  /** How the host authenticated a request. Default: by what stands in `request.user`. */
  readonly authentication?: (request: FastifyRequest) => Authentication | null | undefined
  /** `shadow` takes and publishes every decision and refuses nothing. Default `enforce`. */
  readonly mode?: 'enforce' | 'shadow'
}

type Check = (value: unknown) => void

type Checks<Options> = { readonly [Name in keyof Required<Options>]: Check }

/** The checks of the options that have to do with the limit and the prefix. */
export const limitChecks = {
  prefix: assertPrefix,
  preferences: (value: unknown): void => { assertPreferences('preferences', value) },
  perMinute: assertPerMinute,
  dotenv: assertDotenv
}

const checks: Checks<QuotaOptions> = {
  ...limitChecks,
  operations: assertOperations,
  store: (value) => { assertStore('store', value) },
  authentication: assertAuthentication,
  mode: assertMode
}

/** Throws an `OptionError` that names the option and the value it got, unless all of them can be used. */
export function assertQuotaOptions (options: object): asserts options is QuotaOptions {
  assertOptions(options, checks)
}

/** Throws an `OptionError` that names the option and the value it got, unless each has a check and passes it. */
export function assertOptions<Options> (options: object, checks: Checks<Options>): asserts options is Options & object {
  for (const [name, value] of Object.entries(options)) {
    const check: Check | undefined = Object.hasOwn(checks, name) ? Reflect.get(checks, name) : undefined
    if (check === undefined) throw new OptionError(name, 'does not exist', shown(value))
    if (value !== undefined) check(value)
  }
}

function assertPerMinute (value: unknown): void {
  if (!Number.isSafeInteger(value)) throw new OptionError('perMinute', 'must be an integer', shown(value))
}

function assertDotenv (value: unknown): void {
  if (typeof value !== 'boolean' && (typeof value !== 'object' || value === null)) {
    throw new OptionError('dotenv', 'must be true, false or an object', shown(value))
  }
}

function assertAuthentication (value: unknown): void {
  if (typeof value !== 'function') throw new OptionError('authentication', 'must be a function', shown(value))
}

function assertMode (value: unknown): void {
  if (value !== 'enforce' && value !== 'shadow') throw new OptionError('mode', "must be 'enforce' or 'shadow'", shown(value))
}
