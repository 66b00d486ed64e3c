import fastifyEnv, { type FastifyEnvOptions } from '@fastify/env'
import type { FastifyInstance } from 'fastify'
import { EnvironmentError, OptionError, format } from '../errors.js'
import { entriesOf } from '../option-checks.js'
import { required } from '../required.js'
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
export function configurationDefaults (
  quotas: readonly { readonly preference: string; readonly configured: number }[]
): QuotaConfig {
  const defaults: { -readonly [Variable in keyof QuotaConfig]: QuotaConfig[Variable] } = {
    [perMinuteVariable]: defaultPerMinute
  }
  for (const { preference, configured } of quotas) defaults[variableOf(preference)] = configured
  return defaults
}

/**
 * Reads variables with `@fastify/env`, each with a default. Throws an `EnvironmentError` if one is
 * not an integer.
 */
export async function readConfiguration (
  fastify: FastifyInstance,
  defaults: QuotaConfig,
  dotenv: DotenvOptions
): Promise<QuotaConfig> {
  const variables = entriesOf(defaults)
  const properties = Object.fromEntries(
    variables.map(([variable, value]) => [variable, { type: 'string', default: String(value) }])
  )
  const texts = await readEnvironment(fastify, { type: 'object', properties }, dotenv)
  const integers = variables.map(([variable]) => {
    const text = texts.get(variable)
    const integer = toInteger(text)
    if (integer === undefined) throw new EnvironmentError(variable, format(text))
    return [variable, integer]
  })
  return Object.freeze({ ...defaults, ...Object.fromEntries(integers) })
}

/** The decorator of the scope in which `@fastify/env` reads the variables. */
const environmentKey = 'quotaEnvironment'

/** Returns the variables that `@fastify/env` reads. */
async function readEnvironment (
  fastify: FastifyInstance,
  schema: object,
  dotenv: DotenvOptions
): Promise<ReadonlyMap<string, unknown>> {
  const options: FastifyEnvOptions = { confKey: environmentKey, schema }
  if (dotenv !== undefined) options.dotenv = dotenv
  let environment: object | undefined
  // In a scope, so that the decorator `getEnvs`, which only the first registration of @fastify/env
  // adds, is left to the host's own.
  await fastify.register(async function quotaEnvironment (scope) {
    try {
      await scope.register(fastifyEnv, options)
    } catch (error) {
      const rule = `must name a file that can be read (${String(error)})`
      throw new OptionError('dotenv', rule, fileOf(dotenv))
    }
    environment = Reflect.get(scope, environmentKey)
  })
  return new Map(entriesOf(required(environment, 'what @fastify/env has read')))
}

/** Returns the file that `@fastify/env` reads. */
function fileOf (dotenv: DotenvOptions): string {
  const path = typeof dotenv === 'object' ? dotenv.path : undefined
  return path ?? '.env'
}
