import { type EventEmitter, once } from 'node:events'
import type { FastifyBaseLogger } from 'fastify'
import type { RedisQuotaStoreOptions } from 'fastify-llm-quota/redis'
import type { Hash } from './shared-preferences.js'

/** A connection to the server at `REDIS_URL`. It is made, and made again, in the background. */
export interface SharedServer {
  readonly client: RedisQuotaStoreOptions['client']
  readonly hash: Hash
  /** Resolves when the first connection is ready, and rejects with the reason why it failed. */
  readonly firstConnection: Promise<unknown>
  disconnect (): void
}

// Milliseconds without a reply after which a connection is ended. It is longer than a stall of the event loop, during which it passes as well. No
// client sends a command twice, and none keeps commands in a queue while the server is away: the insurance is quicker.
const socketTimeout = 1_000

const reconnectAfter = 100

// Milliseconds. A server that does not answer delays the start no longer than this.
const firstConnectionTimeout = 5_000

/** How each value of `REDIS_CLIENT` connects. Only the package that is chosen is loaded. */
export const connectShared = {
  async ioredis (url: string, log: FastifyBaseLogger): Promise<SharedServer> {
    const { Redis } = await import('ioredis')
    const client = new Redis(url, { maxRetriesPerRequest: 0, socketTimeout, retryStrategy: () => reconnectAfter })
    client.on('error', logged(log))
    return { client, hash: client, firstConnection: ready(client), disconnect: () => { client.disconnect() } }
  },

  async redis (url: string, log: FastifyBaseLogger): Promise<SharedServer> {
    const { createClient } = await import('redis')
    const client = createClient({
      url,
      disableOfflineQueue: true,
      // It ends idle connections as well.
      pingInterval: socketTimeout / 3,
      socket: { socketTimeout, reconnectStrategy: () => reconnectAfter }
    })
    client.on('error', logged(log))
    const firstConnection = ready(client)
    client.connect().catch(logged(log))
    const hash = {
      hget: (key: string, field: string) => client.hGet(key, field),
      hset: (key: string, field: string, value: number) => client.hSet(key, field, String(value)),
      hdel: (key: string, field: string) => client.hDel(key, field)
    }
    return { client, hash, firstConnection, disconnect: () => { client.destroy() } }
  },

  async glide (url: string): Promise<SharedServer> {
    const { GlideClient, Logger } = await import('@valkey/valkey-glide')
    // It would write to the standard output what the insured store logs.
    Logger.setLoggerConfig('off')
    const { hostname, port, username, password, protocol, pathname } = new URL(url)
    const client = await GlideClient.createClient({
      addresses: [{ host: hostname.replaceAll(/[[\]]/g, ''), port: Number(port || 6379) }],
      ...(password === '' ? {} : { credentials: { username: decodeURIComponent(username) || 'default', password: decodeURIComponent(password) } }),
      useTLS: protocol === 'rediss:',
      databaseId: Number(pathname.slice(1)),
      requestTimeout: socketTimeout,
      lazyConnect: true
    })
    const hash = {
      hget: (key: string, field: string) => client.hget(key, field),
      hset: (key: string, field: string, value: number) => client.hset(key, { [field]: String(value) }),
      hdel: (key: string, field: string) => client.hdel(key, [field])
    }
    return { client, hash, firstConnection: client.ping(), disconnect: () => { client.close() } }
  }
}

async function ready (client: EventEmitter): Promise<void> {
  await once(client, 'ready', { signal: AbortSignal.timeout(firstConnectionTimeout) })
}

// Errors of clients carry commands, with their keys and passwords.
function logged (log: FastifyBaseLogger): (error: Error) => void {
  return ({ name, message }) => { log.debug({ error: { name, message } }, 'the connection to the shared server') }
}
