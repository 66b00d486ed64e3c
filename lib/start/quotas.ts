import { callerReader, type CallerReader } from '../caller/request-caller.js'
import { Calendar } from '../limit/calendar.js'
import { defaultPerMinute, limitKinds, longestDay, preferenceOf } from '../limit/limit.js'
import type { QuotaSettings } from '../permit/quota.js'
import { assertStore, type QuotaStore } from '../store/store.js'
import { defaultQuota } from '../subject/mark.js'
import { protectedOperations } from '../subject/operation.js'
import { limitsIn, type CheckedDefinition, type QuotaOptions } from './options.js'

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
}

/**
 * Returns the quotas that the options define, the default quota first. Throws if the store of one
 * lacks a function that it needs.
 */
export function defineQuotas (options: QuotaOptions, store: QuotaStore): DefinedQuota[] {
  const { operations, perMinute, quotas = {}, authentication, mode } = options
  // Quotas with the same function share its reader, so that each request is asked for its
  // authentication once.
  const readers = new Map<QuotaOptions['authentication'], CallerReader>()
  const ofDefault = { perMinute, operations: operations ?? protectedOperations }
  const definitions = Object.entries<CheckedDefinition>({ [defaultQuota]: ofDefault, ...quotas })
  const defined = definitions.map(([name, definition]): DefinedQuota => {
    const [limitName = 'perMinute'] = limitsIn(definition)
    const { period, window } = limitKinds[limitName]
    const limit = definition[limitName] ?? defaultPerMinute
    const ofRequests = [period === null ? 'requests-in-flight' : 'requests', Number(limit)] as const
    const [[unit, configured] = ofRequests] = Object.entries<number>(Object(limit))
    const { cost, unreported, timeZone = period === 'month' ? 'UTC' : undefined } = definition
    const calendar =
      timeZone !== undefined && (period === 'day' || period === 'month')
        ? new Calendar(period, timeZone)
        : null
    // A quota whose unit or window changes starts anew.
    const ofWindow =
      period === null ? `${name}.in-flight` : [name, unit, period, timeZone ?? []].flat().join('.')
    const isDefault = name === defaultQuota
    const preference = preferenceOf(limitName, isDefault ? undefined : name)
    const reader = definition.authentication ?? authentication
    const callerOf = readers.get(reader) ?? callerReader(reader)
    readers.set(reader, callerOf)
    const settings = { name, configured, unit, period, calendar, preference, unreported, callerOf }
    return {
      ...settings,
      // Methods are compared in upper case, as Fastify stores them.
      operations:
        definition.operations?.map(({ method, path }) => ({
          method: method.toUpperCase(),
          path
        })) ?? [],
      isListed: !isDefault || operations !== undefined,
      isUnused:
        isDefault && operations?.length === 0 && perMinute === undefined && definitions.length > 1,
      isEnforced: (definition.mode ?? mode) !== 'shadow',
      store: definition.store ?? store,
      window: calendar === null ? window : null,
      longestWindow: calendar !== null && period === 'day' ? longestDay : window,
      counters: isDefault ? name : ofWindow,
      cost: cost ?? (unit === 'requests' || period === null ? 1 : 0),
      isFreeUnreported: typeof limit === 'object' && cost === undefined && unreported === undefined
    }
  })
  const areSeveral =
    new Set(defined.filter(({ isUnused }) => !isUnused).map(({ store }) => store)).size > 1
  for (const { name, unit, store, isUnused } of defined) {
    if (unit !== 'requests' || (areSeveral && !isUnused)) {
      assertStore(store, `store of the quota ${name}`, 'release')
    }
  }
  return defined
}
