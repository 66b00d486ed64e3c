import fastifyEnv, { type FastifyEnvOptions } from '@fastify/env'
import type { FastifyInstance } from 'fastify'
import { EnvironmentError, shown } from '../errors.js'
import { defaultPerMinute, perMinuteVariable, toInteger, variableOf } from './limit.js'

/**
 * The configured limits (docs/rules.md, "Limit"), as in `fastify.quotaConfig`: each applies if its
 * preference is unset or unavailable.
 */
export interface QuotaConfig {
  /** The configured limit of the default quota, an integer. */
  readonly [perMinuteVariable]: number
  /** The configured limit of each named quota, an integer. */
  readonly [variable: `SERVICE_RATE_LIMIT_${string}`]: number
}

/** The `dotenv` option of `@fastify/env`, which reads the environment variables from a file. */
export type DotenvOptions = FastifyEnvOptions['dotenv']

/** Returns the default value of each quota's environment variable. */
export const configurationDefaults = (
  quotas: readonly { readonly preference: string; readonly configured: number }[]
): QuotaConfig =>
  Object.assign(
    { [perMinuteVariable]: defaultPerMinute },
    ...quotas.map((quota) => ({ [variableOf(quota.preference)]: quota.configured }))
  )

/**
 * Reads variables with `@fastify/env`, each with a default. Throws an `EnvironmentError` if one is
 * not an integer.
 */
export async function readConfiguration (
  fastify: FastifyInstance,
  defaults: QuotaConfig,
  dotenv: DotenvOptions
): Promise<QuotaConfig> {
  const properties = Object.entries(defaults).map(([variable, value]) => [
    variable,
    { type: 'string', default: String(value) }
  ])
  const schema = { type: 'object', properties: Object.fromEntries(properties) }
  let texts: object = {}
  // In a scope, so that the decorator `getEnvs`, which only the first registration of @fastify/env
  // adds, is left to the host's own.
  await fastify.register(async function quotaEnvironment (scope) {
    await scope.register(fastifyEnv, {
      confKey: 'quotaEnvironment',
      schema,
      ...(dotenv !== undefined && { dotenv })
    })
    texts = Object(Reflect.get(scope, 'quotaEnvironment'))
  })
  const integers = Object.keys(defaults).map((variable) => {
    const text: unknown = Reflect.get(texts, variable)
    const integer = toInteger(text)
    if (integer === undefined) throw new EnvironmentError(variable, shown(text))
    return [variable, integer]
  })
  return Object.freeze({ ...defaults, ...Object.fromEntries(integers) })
}
