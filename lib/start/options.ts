import type { AuthenticationReader } from '../caller/request-caller.js'
import type { DotenvOptions } from '../limit/configuration.js'
import type { Operation } from '../subject/operation.js'
import type { PreferenceReader } from '../limit/preference-reader.js'
import type { RefusalBodyWriter } from '../refusal/host-body.js'
import type { QuotaStore } from '../store/store.js'

declare module 'fastify' {
  interface FastifyInstance {
    /** The store that holds the quota's counters. */
    quotaStore: QuotaStore
  }
}

/**
 * Options of `fastify.register(quotaPlugin, options)`. All are optional. Fastify's own `register` options are also accepted.
 *
 * @example
 * ```ts
 * import Fastify from 'fastify'
 * import quotaPlugin, { MemoryQuotaStore, protectedOperations, type QuotaOptions } from 'fastify-llm-quota'
 *
 * const options: QuotaOptions = {
 *   prefix: '/context',
 *   operations: protectedOperations,
 *   store: new MemoryQuotaStore({ maxTrackedCallers: 50_000 }),
 *   perMinute: 20,
 *   mode: 'shadow'
 * }
 * await Fastify().register(quotaPlugin, options)
 * ```
 */
export interface QuotaOptions {
  /** The deployment context prefix. Default: the route prefix of the Fastify instance on which the plugin is registered. */
  readonly prefix?: string
  /** The operations that the default quota protects. Default `protectedOperations`. */
  readonly operations?: readonly Operation[]
  /** The store that holds the counters. Default: the host's `fastify.quotaStore`, or a new `MemoryQuotaStore` if there is none. */
  readonly store?: QuotaStore
  /**
   * The reader of runtime preferences. Set it to `false` to use none. Default: the value of the host's `fastify.preferences` when
   * the server becomes ready, or none if the host has no such decorator.
   */
  readonly preferences?: PreferenceReader | false
  /** How long an asynchronous preference reader may take, in milliseconds. Default 1000. */
  readonly preferenceTimeout?: number
  /**
   * Additional quotas by name, each with a limit and counters of its own. A name has at most 32 characters from a-z, 0-9 and "-",
   * starts with a letter, and is not `default`. Default: none.
   */
  readonly quotas?: Readonly<Record<string, NamedQuotaOptions>>
  /** The configured limit if `SERVICE_RATE_LIMIT_PER_MINUTE` is not set, an integer. Default 10. */
  readonly perMinute?: number
  /** A file to read the environment variables from, as in the `dotenv` option of `@fastify/env`. Default: none. */
  readonly dotenv?: DotenvOptions
  /** Returns the authentication of a request, or a promise for it. Default: uses the value of `request.user`. */
  readonly authentication?: AuthenticationReader
  /**
   * Adds the headers `RateLimit-Policy` and `RateLimit` to the responses to requests that were admitted or rejected. Default: no
   * such headers.
   */
  readonly rateLimitHeaders?: 'draft-10'
  /** Returns the body of a refusal and its content type; the status and the other headers do not change. Default: the quota's own body. */
  readonly refusalBody?: RefusalBodyWriter
  /** In `shadow` mode, decisions are made, counted and published, but every request passes. Default `enforce`. */
  readonly mode?: 'enforce' | 'shadow'
}

/**
 * Options of one of the `quotas`. All are optional.
 *
 * @example
 * ```ts
 * import Fastify from 'fastify'
 * import quotaPlugin, { type NamedQuotaOptions } from 'fastify-llm-quota'
 *
 * const chat: NamedQuotaOptions = { operations: [{ method: 'POST', path: '/api/chat' }], perMinute: 60 }
 * const app = Fastify()
 * await app.register(quotaPlugin, { perMinute: 10, quotas: { chat } })
 * app.post('/v1/models/:model/chat', { config: { quota: 'chat' } }, async () => 'from your model')
 * ```
 */
export interface NamedQuotaOptions {
  /** The operations that the quota protects, in addition to the routes that are marked with its name. Default: none. */
  readonly operations?: readonly Operation[]
  /** The configured limit if `SERVICE_RATE_LIMIT_<NAME>_PER_MINUTE` is not set, an integer. Default 10. */
  readonly perMinute?: number
}
