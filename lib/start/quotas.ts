import { defaultPerMinute, namedPreference, namedVariable, perMinutePreference, perMinuteVariable } from '../limit/limit.js'
import type { QuotaConfig } from '../limit/configuration.js'
import { defaultQuota } from '../subject/quota-name.js'
import { protectedOperations, type Operation } from '../subject/operation.js'
import type { QuotaOptions } from './options.js'

/** One quota of a server: the default quota or a named one. */
export interface QuotaDefinition {
  readonly name: string
  /** The operations that it protects, in addition to the routes that are marked with its name. */
  readonly operations: readonly Operation[]
  /** Whether the host has listed these operations; false if they are the default ones. */
  readonly isListed: boolean
  /** The configured limit if the environment variable is not set. */
  readonly perMinute: number
  /** The environment variable that holds the configured limit. */
  readonly variable: keyof QuotaConfig
  /** The runtime preference that holds the limit. */
  readonly preference: string
}

/** A quota with its configured limit, from its environment variable or, if that is not set, from its option `perMinute`. */
export interface ConfiguredQuota extends QuotaDefinition {
  readonly configured: number
}

/** Returns the quotas that the options define, the default quota first. */
export function defineQuotas ({ operations, perMinute = defaultPerMinute, quotas = {} }: QuotaOptions): QuotaDefinition[] {
  const named = Object.entries(quotas).map(([name, { operations = [], perMinute = defaultPerMinute }]) => ({
    name, operations, isListed: true, perMinute, variable: namedVariable(name), preference: namedPreference(name)
  }))
  const isListed = operations !== undefined
  return [{ name: defaultQuota, operations: operations ?? protectedOperations, isListed, perMinute, variable: perMinuteVariable, preference: perMinutePreference }, ...named]
}

/** Returns the default value of each quota's environment variable. */
export function configurationDefaults (quotas: readonly QuotaDefinition[]): QuotaConfig {
  return Object.assign({ [perMinuteVariable]: defaultPerMinute }, ...quotas.map(({ variable, perMinute }) => ({ [variable]: perMinute })))
}

/** Returns the quotas with their configured limits. */
export function configureQuotas (quotas: readonly QuotaDefinition[], configuration: QuotaConfig): ConfiguredQuota[] {
  return quotas.map((quota) => {
    const { [quota.variable]: configured = quota.perMinute } = configuration
    return { ...quota, configured }
  })
}
