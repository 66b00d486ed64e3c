import { callerOfUser, callerReader, type CallerReader } from '../caller/request-caller.js'
import { Calendar } from '../limit/calendar.js'
import type { QuotaConfig } from '../limit/configuration.js'
import { defaultPerMinute, limitKinds, longestDay, perMinuteVariable, preferenceOf, variableOf, type LimitName } from '../limit/limit.js'
import type { QuotaSettings } from '../permit/quota.js'
import { assertStore, type QuotaStore } from '../store/store.js'
import { defaultQuota } from '../subject/mark.js'
import { protectedOperations, type Operation } from '../subject/operation.js'
import type { Amount, CheckedDefinition, QuotaOptions } from './options.js'

/** A quota as the options define it, before the environment is read. */
export interface DefinedQuota extends QuotaSettings {
  /** The environment variable that holds the configured limit. */
  readonly variable: keyof QuotaConfig
  /** Whether the host has listed the operations; false if they are the default ones. */
  readonly isListed: boolean
  /** Whether the host uses only its named quotas: it gives the default quota neither operations nor a limit. */
  readonly isUnused: boolean
  /** Whether whoever disconnects before anything is reported pays nothing. */
  readonly isFreeUnreported: boolean
}

/**
 * Returns the quotas that the options define, the default quota first.
 *
 * @throws {OptionError} If the store of a quota lacks a function that it needs.
 */
export function defineQuotas ({ operations, perMinute, quotas = {}, authentication, mode }: QuotaOptions, store: QuotaStore): DefinedQuota[] {
  const callerOf = authentication === undefined ? callerOfUser : callerReader(authentication)
  // Quotas with the same function share its reader, so that each request is asked for its authentication once.
  const readers = new Map([[authentication, callerOf]])
  const main: DefinedQuota = {
    ...limitOf(defaultQuota, { perMinute }),
    operations: withUpperCase(operations ?? protectedOperations),
    isListed: operations !== undefined,
    isUnused: operations?.length === 0 && perMinute === undefined && Object.keys(quotas).length > 0,
    preference: preferenceOf('perMinute'),
    variable: perMinuteVariable,
    isEnforced: mode !== 'shadow',
    callerOf,
    store
  }
  const named = Object.entries<CheckedDefinition>(quotas).map(([name, definition]) => defineNamed(name, definition, main, readers))
  const defined = [main, ...named]
  assertStores(defined)
  return defined
}

/** Throws an `OptionError` if a store lacks `release` and a quota needs it. */
function assertStores (quotas: readonly DefinedQuota[]): void {
  const areSeveral = new Set(quotas.filter(({ isUnused }) => !isUnused).map(({ store }) => store)).size > 1
  for (const { name, unit, store, isUnused } of quotas) {
    if (unit !== 'requests' || (areSeveral && !isUnused)) assertStore(store, `store of the quota ${name}`, 'release')
  }
}

function defineNamed (name: string, definition: CheckedDefinition, main: DefinedQuota, readers: Map<QuotaOptions['authentication'], CallerReader>): DefinedQuota {
  const { authentication, mode, operations = [], store = main.store } = definition
  const callerOf = authentication === undefined ? main.callerOf : readers.get(authentication) ?? callerReader(authentication)
  readers.set(authentication, callerOf)
  const limit = limitOf(name, definition)
  return {
    ...limit,
    operations: withUpperCase(operations),
    isListed: true,
    isUnused: false,
    preference: preferenceOf(limit.limitName, name),
    variable: variableOf(limit.limitName, name),
    isEnforced: mode === undefined ? main.isEnforced : mode === 'enforce',
    callerOf,
    store
  }
}

/** Methods are compared in upper case, as Fastify stores them. */
function withUpperCase (operations: readonly Operation[]): Operation[] {
  return operations.map(({ method, path }) => ({ method: method.toUpperCase(), path }))
}

type LimitSettings = Pick<DefinedQuota, 'name' | 'limitName' | 'configured' | 'unit' | 'period' | 'window' | 'longestWindow' | 'calendar' | 'counters' | 'cost' | 'unreported' | 'isFreeUnreported'>

/** Returns what follows from the limit of a quota. */
function limitOf (name: string, definition: CheckedDefinition): LimitSettings {
  const limitName = limitNameOf(definition)
  const { period, window } = limitKinds[limitName]
  const { unit, configured } = amountOf(definition[limitName] ?? defaultPerMinute, limitName)
  const timeZone = definition.timeZone ?? (period === 'month' ? 'UTC' : undefined)
  const calendar = timeZone !== undefined && (period === 'day' || period === 'month') ? new Calendar(period, timeZone) : null
  const { cost, unreported } = definition
  return {
    name,
    limitName,
    configured,
    unit,
    period,
    window: calendar === null ? window : null,
    longestWindow: calendar !== null && period === 'day' ? longestDay : window,
    calendar,
    counters: countersOf(name, unit, period, calendar === null ? undefined : timeZone),
    cost: cost ?? (unit === 'requests' || window === null ? 1 : 0),
    unreported,
    isFreeUnreported: typeof definition[limitName] === 'object' && cost === undefined && unreported === undefined
  }
}

/** Returns the name under which a store keeps the counters, so that a quota whose unit or window changes starts anew. */
function countersOf (name: string, unit: string, period: string | null, timeZone: string | undefined): string {
  if (name === defaultQuota) return defaultQuota
  return period === null ? `${name}.in-flight` : [name, unit, period, ...(timeZone === undefined ? [] : [timeZone])].join('.')
}

function amountOf (amount: Amount, limitName: LimitName): { unit: string, configured: number } {
  if (typeof amount === 'number') return { unit: limitName === 'inFlight' ? 'requests-in-flight' : 'requests', configured: amount }
  const [[unit, configured] = ['requests', defaultPerMinute]] = Object.entries(amount)
  return { unit, configured }
}

function limitNameOf (definition: CheckedDefinition): LimitName {
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
