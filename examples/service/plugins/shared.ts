import type { FastifyInstance } from 'fastify'
import createPlugin from 'fastify-plugin'
import { InsuredQuotaStore, MemoryQuotaStore, type PreferenceReader, type PrimaryQuotaStore } from 'fastify-llm-quota'
import { RedisQuotaStore } from 'fastify-llm-quota/redis'
import { ServiceError } from '../service-error.js'
import { connectDatabase } from '../shared-database.js'
import { connectShared } from '../shared-server.js'

declare module 'fastify' {
  interface FastifyInstance {
    /** The runtime preferences. */
    preferences: PreferenceReader
    /** Changes a preference for all instances, with immediate effect; null unsets it. */
    changePreference (key: string, value: number | null): Promise<void>
  }
}

/** The counters and the preferences on a server that all instances share. */
export interface Shared {
  readonly store: PrimaryQuotaStore
  /** Reads a preference. */
  read (name: string): Promise<unknown>
  /** Changes a preference; null unsets it. */
  write (name: string, value: number | null): Promise<unknown>
  disconnect (): void | Promise<void>
}

const hashKey = 'language-service:preferences'

/**
 * The counters and the preferences: on the server at `REDIS_URL` or in the database at `DATABASE_URL`, shared by all instances and with a
 * fallback, or in this process if neither is set.
 */
export const shared = createPlugin(async function shared (app: FastifyInstance, clock: { clock?: () => number }) {
  const { REDIS_URL, DATABASE_URL } = app.config
  if (REDIS_URL === '' && DATABASE_URL === '') {
    const preferences = new Map<string, unknown>()
    app.decorate('quotaStore', new MemoryQuotaStore(clock))
    app.decorate('preferences', preferences)
    app.decorate('changePreference', async (key, value) => { preferences.set(key, value) })
    return
  }
  const { store, read, write, disconnect } = DATABASE_URL === '' ? await connectRedis(app, clock) : await connectDatabase(DATABASE_URL, app.log, clock)
  app.addHook('onClose', async () => { await disconnect() })
  app.decorate('quotaStore', new InsuredQuotaStore({ primary: store }))
  app.decorate('preferences', {
    async get (key) {
      try {
        return stored(await read(key))
      } catch (cause) {
        throw new ServiceError(503, 'LIMIT_UNAVAILABLE', 'The shared server does not answer, so the limit is not available. Please try again.', { retryAfter: 1, cause })
      }
    }
  })
  app.decorate('changePreference', async (key, value) => {
    try {
      await write(key, value)
    } catch (cause) {
      throw new ServiceError(503, 'LIMIT_NOT_CHANGED', 'The shared server did not confirm the new limit. Please try again.', { retryAfter: 1, cause })
    }
  })
}, { name: 'shared', dependencies: ['configuration'] })

async function connectRedis ({ config, log }: FastifyInstance, clock: { clock?: () => number }): Promise<Shared> {
  const { client, hash, firstConnection, disconnect } = await connectShared[config.REDIS_CLIENT](config.REDIS_URL, log)
  await firstConnection.catch((error: unknown) => {
    const rejection = credentialsRejection(error)
    if (rejection !== null) {
      disconnect()
      throw new Error(`REDIS_URL: the server does not accept the user name and the password (${rejection})`)
    }
    log.warn('the shared server does not answer; until it does, each instance counts for itself')
  })
  return {
    store: new RedisQuotaStore({ client, ...clock }),
    read: async (name) => await hash.hget(hashKey, name),
    write: async (name, value) => await (value === null ? hash.hdel(hashKey, name) : hash.hset(hashKey, name, value)),
    disconnect
  }
}

// The service stores integers, but somebody else can have stored any text. The quota plugin interprets it.
function stored (value: unknown): unknown {
  const text = value == null ? '' : String(value)
  return /^-?\d+$/.test(text) ? Number(text) : value
}

// The fallback bridges an outage, but wrong credentials stay wrong until somebody corrects them.
function credentialsRejection (error: unknown): string | null {
  const [rejection = null] = /\b(WRONGPASS|NOAUTH)\b/.exec(error instanceof Error ? error.message : '') ?? []
  return rejection
}
