import { GlideClient, Logger } from '@valkey/valkey-glide'
import { Redis as IoRedis } from 'ioredis'
import { Redis as IoValkey } from 'iovalkey'
import { createClient } from 'redis'
import type { RedisQuotaStoreOptions } from '../lib/redis.js'

const host = '127.0.0.1'

/** What the instances authenticate with. */
export const credentials = { username: 'instances', password: 'right' }

// The timeout after which a client closes a silent connection. Unlike the store's timeout, it also runs during a stall of the event loop,
// so it must be longer than a stall.
const patience = 1_000

// The delay before a client connects again.
const reconnectAfter = 100

const ioOptions = { host, ...credentials, maxRetriesPerRequest: 0, socketTimeout: patience, retryStrategy: () => reconnectAfter, maxLoadingRetryTime: reconnectAfter }

/** A client that an instance can use. It does not send commands again after a lost connection, and reconnects soon. */
interface ChaosClient {
  connect (port: number): Promise<RedisQuotaStoreOptions['client']>
  /** Whether it closes silent connections. */
  readonly noticesSilence: boolean
}

export const clients: Readonly<Record<string, ChaosClient>> = {
  ioredis: {
    noticesSilence: true,
    async connect (port) {
      const client = new IoRedis({ ...ioOptions, port })
      client.on('error', () => {})
      return client
    }
  },
  iovalkey: {
    noticesSilence: true,
    async connect (port) {
      const client = new IoValkey({ ...ioOptions, port })
      client.on('error', () => {})
      return client
    }
  },
  redis: {
    noticesSilence: true,
    async connect (port) {
      const client = createClient({
        ...credentials,
        disableOfflineQueue: true,
        // socketTimeout also closes idle connections, and while the primary rests, only pings keep a connection busy.
        pingInterval: patience / 3,
        socket: { host, port, socketTimeout: patience, reconnectStrategy: () => reconnectAfter }
      })
      client.on('error', () => {})
      await client.connect()
      return client
    }
  },
  glide: {
    // The client has no option for this.
    noticesSilence: false,
    connect (port) {
      Logger.setLoggerConfig('off')
      return GlideClient.createClient({
        addresses: [{ host, port }],
        credentials,
        requestTimeout: patience,
        connectionBackoff: { numberOfRetries: 1, factor: reconnectAfter, exponentBase: 1 }
      })
    }
  }
}
