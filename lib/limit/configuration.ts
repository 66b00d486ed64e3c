import fastifyEnv, { type FastifyEnvOptions } from '@fastify/env'
import type { FastifyInstance } from 'fastify'
import { EnvironmentError } from '../errors.js'
import { toInteger } from './integer.js'

/**
 * The configured limits, as stored in `fastify.quotaConfig` (docs/rules.md, "Limit").
 *
 * @example
 * ```ts
 * import Fastify from 'fastify'
 * import quotaPlugin, { type QuotaConfig } from 'fastify-llm-quota'
 *
 * const app = Fastify()
 * await app.register(quotaPlugin, { perMinute: 30 })
 * const configured: QuotaConfig = app.quotaConfig
 * console.log(configured.SERVICE_RATE_LIMIT_PER_MINUTE) // 30
 * ```
 */
export interface QuotaConfig {
  /** The configured limit of the default quota, an integer. It applies if no runtime preference is set. */
  readonly SERVICE_RATE_LIMIT_PER_MINUTE: number
  /** The configured limit of each named quota. */
  readonly [variable: `SERVICE_RATE_LIMIT_${string}_PER_MINUTE`]: number
}

/**
 * The `dotenv` option of `@fastify/env`, which reads the environment variables from a file.
 *
 * @example
 * ```ts
 * import Fastify from 'fastify'
 * import quotaPlugin, { type DotenvOptions } from 'fastify-llm-quota'
 *
 * // The file is optional, and variables that are already set take precedence over it.
 * const dotenv: DotenvOptions = { path: 'quota.env' }
 * await Fastify().register(quotaPlugin, { dotenv })
 * ```
 */
export type DotenvOptions = FastifyEnvOptions['dotenv']

declare module 'fastify' {
  interface FastifyInstance {
    /** The configured limits, read at start-up. */
    quotaConfig: QuotaConfig
  }
}

/**
 * Reads the configured limits with `@fastify/env`.
 *
 * @param defaults The value of each variable that the environment does not set.
 * @throws {EnvironmentError} If a variable is set and is not an integer.
 */
export async function readConfiguration (fastify: FastifyInstance, defaults: QuotaConfig, dotenv: DotenvOptions): Promise<QuotaConfig> {
  const properties = Object.entries(defaults).map(([variable, value]) => [variable, { type: 'string', default: String(value) }])
  let texts: object = {}
  // @fastify/env also decorates the Fastify instance with `getEnvs`, but only the first registration does so. A registration in a
  // separate scope leaves that decorator to the host's own registration.
  await fastify.register(async function quotaEnvironment (scope) {
    await scope.register(fastifyEnv, {
      confKey: 'quotaEnvironment',
      schema: { type: 'object', properties: Object.fromEntries(properties) },
      ...(dotenv !== undefined && { dotenv })
    })
    texts = Object(Reflect.get(scope, 'quotaEnvironment'))
  })
  const configuration = { ...defaults }
  for (const variable of Object.keys(defaults)) Object.assign(configuration, { [variable]: integerIn(texts, variable) })
  return Object.freeze(configuration)
}

function integerIn (texts: object, variable: string): number {
  const text: unknown = Reflect.get(texts, variable)
  const integer = toInteger(text)
  if (integer === undefined) throw new EnvironmentError(variable, 'must be an integer', text)
  return integer
}
