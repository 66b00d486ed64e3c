// A planned failover behind one address: the old primary keeps its connections and replies READONLY, so a client must leave it by itself.
import { setImmediate as turn } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { Redis as Valkey } from 'iovalkey'
import t from 'tap'
import { RedisQuotaStore } from '../../lib/redis.js'
import { FaultyProxy } from '../support/faulty-proxy.js'
import { clientNamed, quiet, type Connect } from '../support/redis-clients.js'
import { RedisServer } from '../support/redis-server.js'

const reconnectOnError = (error: Error) => error.message.startsWith('READONLY')

const clients: Record<string, Connect> = {
  'ioredis with reconnectOnError': async ([port]) => quiet(new Redis({ port, maxRetriesPerRequest: 0, retryStrategy: () => 20, reconnectOnError })),
  'iovalkey with reconnectOnError': async ([port]) => quiet(new Valkey({ port, maxRetriesPerRequest: 0, retryStrategy: () => 20, reconnectOnError })),
  redis: clientNamed('redis')
}

for (const [name, connect] of Object.entries(clients)) {
  t.test(`${name} leaves a primary that has become a replica, and the counts continue`, async (t) => {
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
    while (!(await onReplica.info('replication')).includes('master_link_status:up')) await turn()
    const store = new RedisQuotaStore({ client })
    t.match(await store.acquire('alice', 5), { count: 1 })
    while (await onReplica.exists('llm-quota:{0}:default:counters') === 0) await turn()

    await onReplica.replicaof('NO', 'ONE')
    proxy.targetPort = replica.port
    await onPrimary.replicaof('127.0.0.1', replica.port)
    await t.rejects(async () => store.acquire('alice', 5), /READONLY/)
    const deadline = performance.now() + 10_000
    let acquisition
    while (acquisition === undefined && performance.now() < deadline) {
      await turn()
      acquisition = await Promise.resolve(store.acquire('alice', 5)).catch(() => undefined)
    }
    t.match(acquisition, { admitted: true, count: 2 })
  })
}
