import fastifyRedis from '@fastify/redis'
import type { FastifyInstance } from 'fastify'
import createPlugin from 'fastify-plugin'
import { InsuredQuotaStore, MemoryQuotaStore } from 'fastify-llm-quota'
import { RedisQuotaStore } from 'fastify-llm-quota/redis'
import { Redis } from 'ioredis'

declare module 'fastify' {
  interface FastifyInstance {
    /** Changes a preference at once, for all instances; null unsets it. */
    changePreference (key: string, value: number | null): unknown
  }
}

const preferencesKey = 'language-service:preferences'

/**
 * The counters and the preferences: on the server at `REDIS_URL`, shared by all instances and insured against its
 * failure, or in this process where there is none.
 */
export const shared = createPlugin(async function shared (app: FastifyInstance, clock: { clock?: () => number }) {
  if (app.config.REDIS_URL === '') {
    const preferences = new Map<string, unknown>()
    app.decorate('quotaStore', app.timeStore(new MemoryQuotaStore(clock)))
    app.decorate('preferences', preferences)
    app.decorate('changePreference', (key, value) => preferences.set(key, value))
    return
  }
  // A command that cannot be carried out now fails now: the insurance is quicker than a queue.
  const redis = new Redis(app.config.REDIS_URL, { maxRetriesPerRequest: 0, commandTimeout: 500 })
  redis.on('error', (error) => { app.log.debug({ err: error }, 'the connection to the shared server') })
  await app.register(fastifyRedis, { client: redis })
  // The polite way to part waits for an answer, and there may be nobody to give one.
  app.addHook('onClose', async () => { redis.disconnect() })
  app.decorate('quotaStore', new InsuredQuotaStore({ primary: app.timeStore(new RedisQuotaStore({ client: redis, ...clock })) }))
  app.decorate('preferences', { get: (key) => redis.hget(preferencesKey, key) })
  app.decorate('changePreference', (key, value) => value === null ? redis.hdel(preferencesKey, key) : redis.hset(preferencesKey, key, value))
}, { name: 'shared', dependencies: ['configuration', 'metrics'] })
