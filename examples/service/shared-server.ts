import { type EventEmitter, once } from 'node:events'
import type { FastifyBaseLogger } from 'fastify'
import type { RedisQuotaStoreOptions } from 'fastify-llm-quota/redis'

/** The functions of a client that the preferences need. */
interface Hash {
  hget (key: string, field: string): Promise<unknown>
  hset (key: string, field: string, value: number): Promise<unknown>
  hdel (key: string, field: string): Promise<unknown>
}

/** A connection to the server at `REDIS_URL`. It is established in the background, and established again if it is lost. */
export interface SharedServer {
  readonly client: RedisQuotaStoreOptions['client']
  readonly hash: Hash
  /** Resolves when the first connection is ready, and rejects with the reason why it failed. */
  readonly firstConnection: Promise<unknown>
  disconnect (): void
}

// How long a reply may take before the connection is closed, in milliseconds. The timer also runs while the event loop stalls, so this is longer
// than a stall. No client sends a command twice or queues commands while the server is unavailable, because the fallback answers sooner.
const socketTimeout = 1_000

const reconnectAfter = 100

// The maximum delay of the start if the server does not answer, in milliseconds.
const firstConnectionTimeout = 5_000

/** A function that connects for each value of `REDIS_CLIENT`. Only the chosen package is loaded. */
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
      // The timeout also closes idle connections.
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
    // The insured store already logs what this logger would write to the standard output.
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

// The errors of clients contain commands, with their keys and passwords.
function logged (log: FastifyBaseLogger): (error: Error) => void {
  return ({ name, message }) => { log.debug({ error: { name, message } }, 'the connection to the shared server') }
}
