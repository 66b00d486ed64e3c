import type { FastifyInstance } from 'fastify'
import createPlugin from 'fastify-plugin'
import { InsuredQuotaStore, MemoryQuotaStore, type PreferenceReader } from 'fastify-llm-quota'
import { RedisQuotaStore } from 'fastify-llm-quota/redis'
import { SharedPreferences } from '../shared-preferences.js'
import { connectShared } from '../shared-server.js'

declare module 'fastify' {
  interface FastifyInstance {
    /** The runtime preferences. */
    preferences: PreferenceReader
    /** Changes a preference for all instances, with immediate effect; null unsets it. */
    changePreference (key: string, value: number | null): Promise<void>
  }
}

/**
 * The counters and the preferences: on the server at `REDIS_URL`, shared by all instances and with a fallback, or
 * in this process if `REDIS_URL` is not set.
 */
export const shared = createPlugin(async function shared (app: FastifyInstance, clock: { clock?: () => number }) {
  if (app.config.REDIS_URL === '') {
    const preferences = new Map<string, unknown>()
    app.decorate('quotaStore', new MemoryQuotaStore(clock))
    app.decorate('preferences', preferences)
    app.decorate('changePreference', async (key, value) => { preferences.set(key, value) })
    return
  }
  const { client, hash, firstConnection, disconnect } = await connectShared[app.config.REDIS_CLIENT](app.config.REDIS_URL, app.log)
  await firstConnection.catch((error: unknown) => {
    const rejection = credentialsRejection(error)
    if (rejection !== null) {
      disconnect()
      throw new Error(`REDIS_URL: the server does not accept the user name and the password (${rejection})`)
    }
    app.log.warn('the shared server does not answer; until it does, each instance counts for itself')
  })
  app.addHook('onClose', async () => { disconnect() })
  app.decorate('quotaStore', new InsuredQuotaStore({ primary: new RedisQuotaStore({ client, ...clock }) }))
  const preferences = new SharedPreferences(hash)
  app.decorate('preferences', preferences)
  app.decorate('changePreference', async (key, value) => { await preferences.set(key, value) })
}, { name: 'shared', dependencies: ['configuration'] })

// The fallback bridges an outage, but wrong credentials stay wrong until somebody corrects them.
function credentialsRejection (error: unknown): string | null {
  const [rejection = null] = /\b(WRONGPASS|NOAUTH)\b/.exec(error instanceof Error ? error.message : '') ?? []
  return rejection
}
