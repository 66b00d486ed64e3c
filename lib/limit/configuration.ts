import fastifyEnv, { type FastifyEnvOptions } from '@fastify/env'
import type { FastifyInstance } from 'fastify'
import { EnvironmentError, shown } from './errors.js'
import { toInteger } from './integer.js'
import { perMinuteVariable } from './limit.js'

/**
 * The configured property, as `fastify.quotaConfig` holds it (specification, section 2).
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
  /** Requests per window per caller where no runtime preference says otherwise; an integer. */
  readonly SERVICE_RATE_LIMIT_PER_MINUTE: number
}

/**
 * Where else than the environment the variable may stand, as `@fastify/env` takes it.
 *
 * @example
 * ```ts
 * import Fastify from 'fastify'
 * import quotaPlugin, { type DotenvOptions } from 'fastify-llm-quota'
 *
 * // A file beside the service, which need not be there. The environment wins over it.
 * const dotenv: DotenvOptions = { path: 'quota.env' }
 * await Fastify().register(quotaPlugin, { dotenv })
 * ```
 */
export type DotenvOptions = FastifyEnvOptions['dotenv']

declare module 'fastify' {
  interface FastifyInstance {
    /** The quota's configured property, as it was read at start-up. */
    quotaConfig: QuotaConfig
  }
}

/**
 * Reads the configured property with `@fastify/env`.
 *
 * @throws {EnvironmentError} When the variable is set and not an integer.
 */
export async function readConfiguration (fastify: FastifyInstance, defaultValue: number, dotenv: DotenvOptions): Promise<QuotaConfig> {
  let text: unknown
  // In a scope of its own, since that plugin decorates `getEnvs` on the instance it meets first, which the host may want.
  await fastify.register(async function quotaEnvironment (scope) {
    await scope.register(fastifyEnv, {
      confKey: 'quotaEnvironment',
      schema: { type: 'object', properties: { [perMinuteVariable]: { type: 'string', default: String(defaultValue) } } },
      ...(dotenv !== undefined && { dotenv })
    })
    text = Object(Reflect.get(scope, 'quotaEnvironment'))[perMinuteVariable]
  })
  const perMinute = toInteger(text)
  if (perMinute === undefined) throw new EnvironmentError(perMinuteVariable, 'must be an integer', shown(text))
  return Object.freeze({ [perMinuteVariable]: perMinute })
}
