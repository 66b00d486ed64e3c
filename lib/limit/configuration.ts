import fastifyEnv, { type FastifyEnvOptions } from '@fastify/env'
import type { FastifyInstance } from 'fastify'
import { EnvironmentError, OptionError } from '../errors.js'
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
  /** The configured limit of each named quota, an integer; none if the limit is a function. */
  readonly [variable: `SERVICE_RATE_LIMIT_${string}`]: number
}

/** The `dotenv` option of `@fastify/env`, which reads the environment variables from a file. */
export type DotenvOptions = FastifyEnvOptions['dotenv']

/** The environment variables of the quotas' limits. */
interface LimitVariables {
  /** The default value of each variable that can be set. */
  readonly defaults: QuotaConfig
  /** The variables of limits that are functions of the caller, which must not be set. */
  readonly ofFunctions: readonly string[]
}

/** Returns the environment variables of the quotas' limits. */
export function limitVariables (
  quotas: readonly { readonly preference: string; readonly configured: unknown }[]
): LimitVariables {
  const defaults: { -readonly [Variable in keyof QuotaConfig]: QuotaConfig[Variable] } = {
    [perMinuteVariable]: defaultPerMinute
  }
  const ofFunctions: string[] = []
  for (const { preference, configured } of quotas) {
    const variable = variableOf(preference)
    if (typeof configured === 'number') defaults[variable] = configured
    else ofFunctions.push(variable)
  }
  return { defaults, ofFunctions }
}

/** The environment variables of limits, by name, as `@fastify/env` reads them. */
export type LimitEnvironment = ReadonlyMap<string, unknown>

/**
 * Returns the configured limits. Throws an `EnvironmentError` if a variable is not an integer, or
 * is set beside a function.
 *
 * @param texts The variables that are set.
 */
export function configurationIn (
  texts: LimitEnvironment,
  { defaults, ofFunctions }: LimitVariables
): QuotaConfig {
  const integers = entriesOf(defaults).map(([variable, value]): [string, number] => {
    const limit = texts.get(variable) ?? value
    const integer = toInteger(limit)
    if (integer === undefined) throw new EnvironmentError(variable, 'must be an integer', limit)
    return [variable, integer]
  })
  for (const variable of ofFunctions) {
    const text = texts.get(variable)
    const rule = 'must not be set, because the limit in the definition of the quota is a function'
    if (text !== undefined) throw new EnvironmentError(variable, rule, text)
  }
  return Object.freeze({ ...defaults, ...Object.fromEntries(integers) })
}

/** The decorator of the scope in which `@fastify/env` reads the variables. */
const environmentKey = 'quotaEnvironment'

/**
 * The schema of all limits' variables. It is one object, because `@fastify/env` compiles each that
 * it is given, and keeps it as long as the process runs.
 */
const schema = {
  type: 'object',
  patternProperties: { '^SERVICE_RATE_LIMIT_': { type: 'string' } }
}

/** Reads the variables of limits that are set, with `@fastify/env`. */
export async function readEnvironment (
  fastify: FastifyInstance,
  dotenv: DotenvOptions
): Promise<LimitEnvironment> {
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
