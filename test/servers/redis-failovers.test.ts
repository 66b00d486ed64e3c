// Failovers by a sentinel and in a cluster, planned and after the end of a primary: each client returns to the shared counters by itself.
import { setTimeout as pause } from 'node:timers/promises'
import * as glide from '@valkey/valkey-glide'
import { Cluster, Redis } from 'ioredis'
import { Cluster as ValkeyCluster, Redis as Valkey } from 'iovalkey'
import { createCluster, createSentinel } from 'redis'
import t from 'tap'
import { InsuredQuotaStore } from '../../lib/index.js'
import { RedisQuotaStore } from '../../lib/redis.js'
import { closing, connected, nodesOf, quiet, type Connect } from '../support/redis-clients.js'
import { isSynchronized, portsOf, RedisServer, startCluster, startSentinel } from '../support/redis-server.js'
import { acquireOne } from '../support/told-store.js'

const soon = () => 50
const single = { name: 'quota', maxRetriesPerRequest: 0, socketTimeout: 2000, retryStrategy: soon, sentinelRetryStrategy: soon }
const cluster = { retryDelayOnFailover: 0, slotsRefreshInterval: 1000, clusterRetryStrategy: soon, redisOptions: { socketTimeout: 2000 } }
const nodeRedis = { disableOfflineQueue: true, socket: { reconnectStrategy: soon } }

// An election takes a second or two. A client that does not leave the old primary never returns.
const mostTime = 60_000

const sentinelClients: Record<string, Connect> = {
  ioredis: async (ports) => quiet(new Redis({ ...single, sentinels: nodesOf(ports) })),
  iovalkey: async (ports) => quiet(new Valkey({ ...single, sentinels: nodesOf(ports) })),
  redis: (ports) => connected(createSentinel({ name: 'quota', sentinelRootNodes: nodesOf(ports), nodeClientOptions: nodeRedis, scanInterval: 1000 }))
}

const clusterClients: Record<string, Connect> = {
  ioredis: async (ports) => quiet(new Cluster(nodesOf(ports), cluster)),
  iovalkey: async (ports) => quiet(new ValkeyCluster(nodesOf(ports), cluster)),
  redis: (ports) => connected(createCluster({ rootNodes: nodesOf(ports).map((socket) => ({ socket })), defaults: nodeRedis })),
  'valkey-glide': (ports) => closing(glide.GlideClusterClient.createClient({ addresses: nodesOf(ports), requestTimeout: 1000 }))
}

/** A primary with the counters, its replica, and what makes the replica the primary. */
interface Group { ports: [number, ...number[]], primary: RedisServer, failOver (): Promise<unknown>, stop (): Promise<unknown> }

async function sentinelGroup (): Promise<Group> {
  const primary = await RedisServer.start()
  const replica = await RedisServer.start('--replicaof', `127.0.0.1 ${primary.port}`)
  const sentinel = await startSentinel(primary)
  await replica.until(isSynchronized)
  // The sentinel learns of the replica from the primary.
  await sentinel.until(async (redis) => (await redis.info('sentinel')).includes('slaves=1'))
  return {
    ports: [sentinel.port],
    primary,
    failOver: () => sentinel.administer('SENTINEL', 'FAILOVER', 'quota'),
    stop: () => Promise.all([sentinel, replica, primary].map((server) => server.stop()))
  }
}

async function clusterGroup (): Promise<Group> {
  const servers = await startCluster()
  const redis = servers[0]?.client()
  const slot = Number(await redis?.cluster('KEYSLOT', '{0}'))
  const range = (await redis?.cluster('SLOTS'))?.find(([first, last]) => first <= slot && slot <= last)
  redis?.disconnect()
  const holders = range?.slice(2).map((node) => Number(Object(node)[1])) ?? []
  const [primary, replica] = holders.map((port) => servers.find((server) => server.port === port))
  if (primary === undefined || replica === undefined) throw new Error('the shard has no master with a replica')
  return {
    ports: portsOf(servers),
    primary,
    failOver: () => replica.administer('CLUSTER', 'FAILOVER'),
    stop: () => Promise.all(servers.map((server) => server.stop()))
  }
}

for (const [kind, clients, start] of [['sentinel', sentinelClients, sentinelGroup], ['cluster', clusterClients, clusterGroup]] as const) {
  for (const isPlanned of [true, false]) {
    t.test(`after ${isPlanned ? 'a failover' : "a primary's end"} with a ${kind}, clients return to the shared counters`, async (t) => {
      const { ports, primary, failOver, stop } = await start()
      t.teardown(stop)
      const connected = await Promise.all(Object.values(clients).map((connect) => connect(ports)))
      t.teardown(() => Promise.all(connected.map(({ close }) => close())))
      const stores = connected.map(({ client }) => new InsuredQuotaStore({ primary: new RedisQuotaStore({ client, rememberRejections: false }), timeout: 500 }))
      for (const store of stores) await acquireOne(store, 'before')
      await primary.administer('WAIT', '1', '1000')

      await (isPlanned ? failOver() : primary.kill())
      const started = performance.now()
      // Each client has failed or found the new primary, and all count on the same counter again.
      for (let attempt = 0, isShared = false; !isShared; attempt++) {
        const counts: number[] = []
        for (const store of stores) counts.push((await acquireOne(store, `after ${attempt}`, { limit: 100 })).count)
        isShared = counts.every((count, index) => count === index + 1) && (!isPlanned || String(await primary.administer('ROLE')).startsWith('slave'))
        if (performance.now() - started > mostTime) {
          t.same(counts, counts.map((_, index) => index + 1), Object.keys(clients).join(', '))
          break
        }
        await pause(20)
      }
      t.comment(`all shared again after ${Math.round(performance.now() - started)} ms`)
      t.equal(stores[0] && (await acquireOne(stores[0], 'before', { limit: 100 })).count, stores.length + 1, 'the earlier count is kept')
      t.same(stores.map(({ state }) => state), stores.map(() => 'primary'))
    })
  }
}
