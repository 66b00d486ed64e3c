// A planned failover behind one address: the old primary keeps its connections and replies READONLY, so a client must leave it by itself. It has
// done so when an insured store tries its primary again.
import { setTimeout as pause, setImmediate as turn } from 'node:timers/promises'
import { GlideClient, Logger } from '@valkey/valkey-glide'
import { Redis } from 'ioredis'
import { Redis as Valkey } from 'iovalkey'
import { createClient, createClientPool } from 'redis'
import t from 'tap'
import { RedisQuotaStore } from '../../lib/redis.js'
import { SwitchingProxy } from '../support/redis-address.js'
import { quiet, type ConnectedClient } from '../support/redis-clients.js'
import { RedisServer } from '../support/redis-server.js'

Logger.setLoggerConfig('off')
const coolDown = 1000
const reconnectOnError = (error: Error) => error.message.startsWith('READONLY')
const nodeRedis = (port: number) => ({ disableOfflineQueue: true, socket: { port, reconnectStrategy: () => 20 } })

const clients: Record<string, (port: number) => Promise<ConnectedClient>> = {
  'ioredis with reconnectOnError': async (port) => quiet(new Redis({ port, maxRetriesPerRequest: 0, retryStrategy: () => 20, reconnectOnError })),
  'iovalkey with reconnectOnError': async (port) => quiet(new Valkey({ port, maxRetriesPerRequest: 0, retryStrategy: () => 20, reconnectOnError })),
  async redis (port) {
    const client = createClient(nodeRedis(port))
    client.on('error', () => {})
    await client.connect()
    return { client, close: () => { client.destroy() } }
  },
  async 'redis, pool of five' (port) {
    const client = createClientPool(nodeRedis(port), { minimum: 5 })
    client.on('error', () => {})
    await client.connect()
    return { client, close: () => { client.destroy() } }
  },
  async 'valkey-glide' (port) {
    const client = await GlideClient.createClient({ addresses: [{ host: '127.0.0.1', port }], requestTimeout: 1000 })
    return { client, close: () => { client.close() } }
  }
}

for (const [name, connect] of Object.entries(clients)) {
  t.test(`${name} leaves a primary that has become a replica within coolDown, and the counts continue`, async (t) => {
    const [primary, replica] = await Promise.all([RedisServer.start(), RedisServer.start()])
    const proxy = await SwitchingProxy.start(primary.port)
    const [onPrimary, onReplica] = [primary.client(), replica.client()]
    const { client, close } = await connect(proxy.port)
    t.teardown(async () => {
      close()
      for (const redis of [onPrimary, onReplica]) redis.disconnect()
      await Promise.all([proxy.stop(), primary.stop(), replica.stop()])
    })
    await onReplica.replicaof('127.0.0.1', primary.port)
    while (!(await onReplica.info('replication')).includes('master_link_status:up')) await turn()
    const store = new RedisQuotaStore({ client })
    t.match(await store.acquire('alice', 10), { count: 1 })
    while (await onReplica.exists('llm-quota:{0}:default:counters') === 0) await turn()

    await onReplica.replicaof('NO', 'ONE')
    proxy.target = replica.port
    await onPrimary.replicaof('127.0.0.1', replica.port)
    await t.rejects(async () => store.acquire('alice', 10), /read only replica/)
    await pause(coolDown)
    // As many as the pool has connections.
    for (const count of [2, 3, 4, 5, 6]) t.match(await store.acquire('alice', 10), { admitted: true, count })
  })
}
