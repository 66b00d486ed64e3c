import { CallerReader, type AuthenticationReader } from '../caller/request-caller.js'
import { defaultPerMinute, preferenceOf } from '../limit/limit.js'
import type { LimitName } from '../limit/limit-kinds.js'
import { rangeOf, type Cost, type CostRange } from '../permit/cost.js'
import type { QuotaInfo, QuotaSettings, WaitSettings } from '../permit/quota.js'
import { required } from '../required.js'
import { assertStore } from '../store/store-functions.js'
import type { QuotaStore } from '../store/store.js'
import { defaultQuota } from '../subject/mark.js'
import { protectedOperations, type Operation } from '../subject/operation.js'
import { limitNameOf } from './definition-rules.js'
import type { Amount, CheckedDefinition, Limit, QuotaOptions } from './options.js'
import { windowsOf } from './windows.js'

/** How many requests of a quota can wait for room. */
const defaultQueue = 100

/**
 * A quota as the options define it. Its configured limit is that of the options until the
 * environment is read.
 */
export interface DefinedQuota extends QuotaSettings {
  /** Whether the host has listed the operations; false if they are the default ones. */
  readonly isListed: boolean
  /**
   * Whether the host uses only its named quotas: it gives the default quota neither operations nor
   * a limit.
   */
  readonly isUnused: boolean
  /** Whether whoever disconnects before anything is reported pays nothing. */
  readonly isFreeUnreported: boolean
  /** Whether it is probably a mistake if no route is found that it protects. */
  readonly shouldProtect: boolean
}

/**
 * Returns the quotas that the options define, the default quota first. Throws if the store of one
 * lacks a function that it needs.
 */
export function defineQuotas (options: QuotaOptions, store: QuotaStore): DefinedQuota[] {
  const readers = new CallerReaders()
  const quotas = [defineDefaultQuota(options, store, readers)]
  for (const [name, definition] of Object.entries<CheckedDefinition>(options.quotas ?? {})) {
    quotas.push(defineQuota(name, definition, options, store, readers))
  }
  assertStores(quotas)
  return quotas
}

function defineDefaultQuota (
  options: QuotaOptions,
  store: QuotaStore,
  readers: CallerReaders
): DefinedQuota {
  const { operations = protectedOperations, perMinute } = options
  const quota = defineQuota(defaultQuota, { operations, perMinute }, options, store, readers)
  const hasNamedQuotas = Object.keys(options.quotas ?? {}).length > 0
  return {
    ...quota,
    preference: preferenceOf('perMinute'),
    counters: defaultQuota,
    isListed: options.operations !== undefined,
    shouldProtect:
      options.prefix !== undefined || (options.operations === undefined && !hasNamedQuotas),
    isUnused: operations.length === 0 && perMinute === undefined && hasNamedQuotas
  }
}

function defineQuota (
  name: string,
  definition: CheckedDefinition,
  options: QuotaOptions,
  store: QuotaStore,
  readers: CallerReaders
): DefinedQuota {
  const { operations = [], cost, unreported, fromUsage } = definition
  const limitName = limitNameOf(definition)
  const { unit, limit } = unitAndLimitOf(limitName, definition[limitName] ?? defaultPerMinute)
  const isEstimated = unit !== 'requests' && limitName !== 'concurrent'
  return {
    name,
    configured: typeof limit === 'number' ? limit : ({ authentication }) => limit(authentication),
    unit,
    ...windowsOf(name, unit, limitName, definition),
    preference: preferenceOf(limitName, name),
    cost: typeof cost === 'function' ? cost : rangeOfCost(cost ?? (isEstimated ? 0 : 1)),
    unreported,
    fromUsage,
    operations: operations.map(inUpperCase),
    store: definition.store ?? store,
    callers: readers.of(definition.authentication ?? options.authentication),
    wait: waitOf(definition),
    hasOwnCaller: definition.authentication !== undefined,
    hasRateLimitHeaders: definition.rateLimitHeaders !== false,
    isEnforced: (definition.mode ?? options.mode) !== 'shadow',
    isListed: true,
    shouldProtect: false,
    isUnused: false,
    isFreeUnreported: isEstimated && cost === undefined && unreported === undefined
  }
}

/** Returns how long requests wait for room, and how many; null if they do not. */
function waitOf ({ wait }: CheckedDefinition): WaitSettings | null {
  if (wait === undefined) return null
  const { timeout, queue = defaultQueue } = typeof wait === 'number' ? { timeout: wait } : wait
  return { timeout, queue }
}

/** @param cost It was checked. */
function rangeOfCost (cost: Cost): CostRange {
  return required(rangeOf(cost), 'the range of a cost')
}

/** The readers of callers. Quotas with the same function of the host share one. */
class CallerReaders {
  readonly #byFunction = new Map<AuthenticationReader | undefined, CallerReader>()

  of (authentication: AuthenticationReader | undefined): CallerReader {
    const known = this.#byFunction.get(authentication)
    if (known !== undefined) return known
    const reader = new CallerReader(authentication)
    this.#byFunction.set(authentication, reader)
    return reader
  }
}

function unitAndLimitOf (limitName: LimitName, amount: Amount): { unit: string; limit: Limit } {
  if (typeof amount !== 'object') {
    return { unit: limitName === 'concurrent' ? 'concurrent-requests' : 'requests', limit: amount }
  }
  const [entry] = Object.entries(amount)
  const [unit, limit] = required(entry, 'the unit of a limit')
  return { unit, limit }
}

/** Methods are compared in upper case, as Fastify stores them. */
function inUpperCase ({ method, path }: Operation): Operation {
  return { method: method.toUpperCase(), path }
}

/**
 * Throws an `OptionError` if a store cannot settle, where a unit other than requests or several
 * stores need it.
 */
function assertStores (quotas: readonly DefinedQuota[]): void {
  const used = quotas.filter(({ isUnused }) => !isUnused)
  const areSeveral = new Set(used.map(({ store }) => store)).size > 1
  for (const { name, unit, store } of used) {
    if (unit === 'requests' && !areSeveral) continue
    assertStore(store, `store of the quota ${name}`, 'settle')
  }
}

/**
 * Returns the value of the decorator `fastify.quotas`: all quotas but an unused default quota.
 */
export function describeQuotas (quotas: readonly DefinedQuota[]): QuotaInfo[] {
  return quotas.filter(({ isUnused }) => !isUnused).map(describeQuota)
}

/** Adds a default quota that seemed unused, and that a route is marked with. */
export function addDefault (described: QuotaInfo[], quotas: readonly DefinedQuota[]): void {
  const [quota] = quotas
  if (quota === undefined || described[0]?.name === quota.name) return
  described.unshift(describeQuota(quota))
}

function describeQuota ({ name, unit, period, window, store, counters }: DefinedQuota): QuotaInfo {
  return Object.freeze({ name, unit, period, window, store, counters })
}
