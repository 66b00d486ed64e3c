// A planned failover behind one address: the old primary keeps its connections and replies
// READONLY, so a client must leave it by itself.
import { GlideClient, Logger } from '@valkey/valkey-glide'
import { Redis } from 'ioredis'
import { Redis as Valkey } from 'iovalkey'
import { createClient, createClientPool } from 'redis'
import t from 'tap'
import { RedisQuotaStore } from '../../lib/redis.js'
import { FaultyProxy } from '../../chaos/faulty-proxy.js'
import { acquireOne, estimate } from '../support/demands.js'
import { closing, connected, nodesOf, quiet, type Connect } from '../support/redis-clients.js'
import { RedisServer } from '../support/redis-server.js'
import { until } from '../support/until.js'

Logger.setLoggerConfig('off')
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
    `${name} leaves a primary that has become a replica, and the counts continue`,
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
      await replica.until('the replica is synchronized', async (client) =>
        (await client.info('replication')).includes('master_link_status:up')
      )
      const store = new RedisQuotaStore({ client })
      t.match(await acquireOne(store, 'alice', { limit: 10 }), { count: 1 })
      await replica.until(
        'the counts are on the replica',
        async (client) => (await client.exists('llm-quota:{llm-quota:}v9:windows:default')) === 1
      )

      await onReplica.replicaof('NO', 'ONE')
      proxy.targetPort = replica.port
      await onPrimary.replicaof('127.0.0.1', replica.port)
      await t.rejects(() => acquireOne(store, 'alice', { limit: 10 }), /read only replica/)
      let counted = 1
      let inRow = 0
      // As many as the pool has connections.
      await until('five requests in a row are counted', async () => {
        try {
          const { count } = await acquireOne(store, 'alice', { limit: 1_000 })
          counted += 1
          inRow += 1
          t.equal(count, counted)
        } catch {
          inRow = 0
        }
        return inRow === 5
      })
    }
  )

  t.test(`${name} loses no settlement when it leaves a replica`, async (t) => {
    const server = await RedisServer.start()
    const onServer = server.client()
    const { client, close } = await connect([server.port])
    t.teardown(async () => {
      close()
      onServer.disconnect()
      await server.stop()
    })
    const store = new RedisQuotaStore({ client })
    const other = new RedisQuotaStore({ client })
    const tokens = { ...estimate(10), limit: 1_000 }
    const counted = await Promise.all(
      Array.from({ length: 20 }, () => acquireOne(store, 'alice', tokens))
    )

    await onServer.replicaof('127.0.0.1', 1)
    // Requests follow each other without a pause, also after the one with which the client leaves.
    const asking = new AbortController()
    const requests = [store, other].map(async (asked) => {
      while (!asking.signal.aborted) await acquireOne(asked, 'bob').catch(() => {})
    })
    const settled = counted.map(({ receipt }) => store.settle(receipt, { count: 9, held: 10 }))
    await t.rejects(acquireOne(store, 'carol'))
    await onServer.replicaof('NO', 'ONE')
    await Promise.all(settled)
    asking.abort()
    await Promise.all(requests)
    t.match(await acquireOne(store, 'alice', tokens), { count: 30 })
  })
}
