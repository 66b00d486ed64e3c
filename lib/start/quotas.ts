import { callerOfUser, callerReader, type CallerReader } from '../caller/request-caller.js'
import type { QuotaSettings } from '../decision/quota.js'
import { OptionError } from '../errors.js'
import type { QuotaConfig } from '../limit/configuration.js'
import { defaultPerMinute, limitKinds, perMinuteVariable, preferenceOf, variableOf, type LimitName } from '../limit/limit.js'
import { windowLength } from '../store/counter.js'
import { assertStore, type QuotaStore } from '../store/store.js'
import { defaultQuota } from '../subject/mark.js'
import { protectedOperations, type Operation } from '../subject/operation.js'
import type { QuotaDefinition, QuotaOptions } from './options.js'

/** A quota as the options define it, before the environment is read. */
export interface DefinedQuota extends QuotaSettings {
  /** The environment variable that holds the configured limit. */
  readonly variable: keyof QuotaConfig
  /** Whether the host has listed the operations; false if they are the default ones. */
  readonly isListed: boolean
  /** Whether the host uses only its named quotas: it gives the default quota neither operations nor a limit. */
  readonly isUnused: boolean
}

/**
 * Returns the quotas that the options define, the default quota first.
 *
 * @throws {OptionError} If two quotas have the same variable, or if the store lacks a function that a quota needs.
 */
export function defineQuotas ({ operations, perMinute, quotas = {}, authentication, mode }: QuotaOptions, store: QuotaStore): DefinedQuota[] {
  const callerOf = authentication === undefined ? callerOfUser : callerReader(authentication)
  const main: DefinedQuota = {
    name: defaultQuota,
    operations: withUpperCase(operations ?? protectedOperations),
    isListed: operations !== undefined,
    isUnused: operations?.length === 0 && perMinute === undefined && Object.keys(quotas).length > 0,
    limitName: 'perMinute',
    preference: preferenceOf('perMinute'),
    variable: perMinuteVariable,
    configured: perMinute ?? defaultPerMinute,
    isEnforced: mode !== 'shadow',
    unreportedTokens: 0,
    callerOf,
    store
  }
  // Quotas with the same function share its reader, so that each request is asked for its authentication once.
  const readers = new Map([[authentication, callerOf]])
  const defined = [main, ...Object.entries(quotas).map(([name, definition]) => defineNamed(name, definition, main, readers))]
  assertOwnVariables(defined)
  return defined
}

/** Throws an `OptionError` if two quotas have the same variable, such as `chat` with `tokensPerDay` and `chat-tokens` with `perDay`. */
function assertOwnVariables (quotas: readonly DefinedQuota[]): void {
  for (const { name, variable } of quotas) {
    const other = quotas.find((quota) => quota.variable === variable && quota.name !== name)
    if (other !== undefined) throw new OptionError('quotas', `must have names that result in different environment variables, but "${other.name}" also has ${variable}`, name)
  }
}

function defineNamed (name: string, definition: QuotaDefinition, main: DefinedQuota, readers: Map<QuotaOptions['authentication'], CallerReader>): DefinedQuota {
  const limitName = limitOf(definition)
  const { authentication, mode } = definition
  const callerOf = authentication === undefined ? main.callerOf : readers.get(authentication) ?? callerReader(authentication)
  readers.set(authentication, callerOf)
  return {
    name,
    operations: withUpperCase(definition.operations ?? []),
    isListed: true,
    isUnused: false,
    limitName,
    preference: preferenceOf(limitName, name),
    variable: variableOf(limitName, name),
    configured: definition[limitName] ?? defaultPerMinute,
    isEnforced: mode === undefined ? main.isEnforced : mode === 'enforce',
    unreportedTokens: definition.unreportedTokens ?? 0,
    callerOf,
    store: storeOf(name, limitName, main.store)
  }
}

/** Methods are compared in upper case, as Fastify stores them. */
function withUpperCase (operations: readonly Operation[]): Operation[] {
  return operations.map(({ method, path }) => ({ method: method.toUpperCase(), path }))
}

function limitOf (definition: QuotaDefinition): LimitName {
  const names = Object.keys(limitKinds) as LimitName[]
  return names.find((name) => definition[name] !== undefined) ?? 'perMinute'
}

/** Returns the default value of each quota's environment variable. */
export function configurationDefaults (quotas: readonly DefinedQuota[]): QuotaConfig {
  return Object.assign({ [perMinuteVariable]: defaultPerMinute }, ...quotas.map(({ variable, configured }) => ({ [variable]: configured })))
}

/** Returns the quotas with the limits of the environment. */
export function configureQuotas (quotas: readonly DefinedQuota[], configuration: QuotaConfig): DefinedQuota[] {
  return quotas.map((quota) => ({ ...quota, configured: Number(configuration[quota.variable]) }))
}

/** Returns the store of a named quota. Throws an `OptionError` if the given store lacks a function that the quota needs. */
function storeOf (name: string, limitName: LimitName, store: QuotaStore): QuotaStore {
  assertStore(store, 'store', 'quota')
  const { window } = limitKinds[limitName]
  const own: unknown = store.quota(name, window ?? windowLength)
  assertStore(own, `store, in its quota ${name},`, ...(window === null ? ['enter' as const] : []))
  return own
}
