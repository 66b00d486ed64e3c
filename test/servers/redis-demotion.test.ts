// A planned failover behind one address: the old primary keeps its connections and replies
// READONLY, so a client must leave it by itself.
import { setTimeout as pause } from 'node:timers/promises'
import { GlideClient, Logger } from '@valkey/valkey-glide'
import { Redis } from 'ioredis'
import { Redis as Valkey } from 'iovalkey'
import { createClient, createClientPool } from 'redis'
import t from 'tap'
import { RedisQuotaStore } from '../../lib/redis.js'
import { FaultyProxy } from '../../chaos/faulty-proxy.js'
import { closing, connected, nodesOf, quiet, type Connect } from '../support/redis-clients.js'
import { RedisServer } from '../support/redis-server.js'
import { acquireOne } from '../support/told-store.js'

Logger.setLoggerConfig('off')
const coolDown = 1000
const reconnectOnError = (error: Error) => error.message.includes('READONLY')
const nodeRedis = (port: number) => ({
  disableOfflineQueue: true,
  socket: { port, reconnectStrategy: () => 20 }
})

const clients: Record<string, Connect> = {
  'ioredis with reconnectOnError': async ([port]) =>
    quiet(new Redis({ port, maxRetriesPerRequest: 0, retryStrategy: () => 20, reconnectOnError })),
  'iovalkey with reconnectOnError': async ([port]) =>
    quiet(new Valkey({ port, maxRetriesPerRequest: 0, retryStrategy: () => 20, reconnectOnError })),
  redis: ([port]) => connected(createClient(nodeRedis(port))),
  'redis, pool of five': ([port]) => connected(createClientPool(nodeRedis(port), { minimum: 5 })),
  'valkey-glide': (ports) =>
    closing(GlideClient.createClient({ addresses: nodesOf(ports), requestTimeout: 1000 }))
}

for (const [name, connect] of Object.entries(clients)) {
  t.test(
    `${name} leaves a primary that has become a replica within coolDown, and the counts continue`,
    async (t) => {
      const [primary, replica] = await Promise.all([RedisServer.start(), RedisServer.start()])
      const proxy = await FaultyProxy.start(primary.port)
      const [onPrimary, onReplica] = [primary.client(), replica.client()]
      const { client, close } = await connect([proxy.port])
      t.teardown(async () => {
        close()
        for (const redis of [onPrimary, onReplica]) redis.disconnect()
        await Promise.all([proxy.stop(), primary.stop(), replica.stop()])
      })
      await onReplica.replicaof('127.0.0.1', primary.port)
      while (!(await onReplica.info('replication')).includes('master_link_status:up')) {
        await pause(10)
      }
      const store = new RedisQuotaStore({ client })
      t.match(await acquireOne(store, 'alice', { limit: 10 }), { count: 1 })
      while ((await onReplica.exists('llm-quota:{0}')) === 0) await pause(10)

      await onReplica.replicaof('NO', 'ONE')
      proxy.targetPort = replica.port
      await onPrimary.replicaof('127.0.0.1', replica.port)
      await t.rejects(() => acquireOne(store, 'alice', { limit: 10 }), /read only replica/)
      await pause(coolDown)
      // As many as the pool has connections.
      for (const count of [2, 3, 4, 5, 6]) {
        t.match(await acquireOne(store, 'alice', { limit: 10 }), { admitted: true, count })
      }
    }
  )
}
