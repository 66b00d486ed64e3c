import { GlideClient, Logger } from '@valkey/valkey-glide'
import { Redis as IoRedis } from 'ioredis'
import { Redis as IoValkey } from 'iovalkey'
import pg from 'pg'
import { createClient } from 'redis'
import type { QuotaStore } from '../lib/index.js'
import { PostgresQuotaStore } from '../lib/postgres.js'
import { type IoredisClient, RedisQuotaStore } from '../lib/redis.js'

const host = '127.0.0.1'

/** What the instances authenticate with on Redis. */
export const credentials = { username: 'instances', password: 'right' }

// The timeout after which a client closes a silent connection.
export const clientPatience = 1_000

// The delay before a client connects again.
const reconnectAfter = 100

const ioOptions = {
  host,
  ...credentials,
  maxRetriesPerRequest: 0,
  socketTimeout: clientPatience,
  retryStrategy: () => reconnectAfter,
  maxLoadingRetryTime: reconnectAfter,
  reconnectOnError: ({ message }: Error) => message.includes('READONLY')
}

interface ConnectedStore {
  readonly store: QuotaStore
  close(): unknown
}

/**
 * A client that an instance can use. It does not send commands again after a lost connection, and
 * reconnects soon.
 */
export interface ChaosClient {
  /** Creates a store on one server. */
  connect(port: number): Promise<ConnectedStore>
  /** Whether it closes silent connections. */
  readonly noticesSilence: boolean
}

type IoClient = IoredisClient & {
  on(event: 'error', listener: () => void): unknown
  disconnect(): void
}

const ofIo = (
  connect: (options: typeof ioOptions & { port: number }) => IoClient
): ChaosClient => ({
  noticesSilence: true,
  async connect (port) {
    const client = connect({ ...ioOptions, port })
    client.on('error', () => {})
    return { store: new RedisQuotaStore({ client }), close: () => client.disconnect() }
  }
})

export const clients: Readonly<Record<string, ChaosClient>> = {
  ioredis: ofIo((options) => new IoRedis(options)),
  iovalkey: ofIo((options) => new IoValkey(options)),
  redis: {
    noticesSilence: true,
    async connect (port) {
      const client = createClient({
        ...credentials,
        disableOfflineQueue: true,
        // socketTimeout also closes idle connections, and while the primary rests, only pings keep
        // a connection busy.
        pingInterval: clientPatience / 3,
        socket: {
          host,
          port,
          socketTimeout: clientPatience,
          reconnectStrategy: () => reconnectAfter
        }
      })
      client.on('error', () => {})
      await client.connect()
      return { store: new RedisQuotaStore({ client }), close: () => client.close() }
    }
  },
  glide: {
    noticesSilence: false,
    async connect (port) {
      Logger.setLoggerConfig('off')
      const client = await GlideClient.createClient({
        addresses: [{ host, port }],
        credentials,
        requestTimeout: clientPatience,
        connectionBackoff: { numberOfRetries: 1, factor: reconnectAfter, exponentBase: 1 },
        // An attempt that meets silence delays the next one.
        advancedConfiguration: { connectionTimeout: clientPatience / 2 }
      })
      return { store: new RedisQuotaStore({ client }), close: () => client.close() }
    }
  },
  postgres: {
    noticesSilence: true,
    async connect (port) {
      const timeouts = { connectionTimeoutMillis: clientPatience, query_timeout: clientPatience }
      const pool = new pg.Pool({ host, port, user: 'postgres', database: 'postgres', ...timeouts })
      pool.on('error', () => {})
      return { store: new PostgresQuotaStore({ pool }), close: () => pool.end() }
    }
  }
}
