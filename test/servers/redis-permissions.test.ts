// docs/shared-server.md lists the least permissions of the store with each client: they are enough, and none of them can be left out.
import { readFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { GlideClient, GlideClusterClient, Logger } from '@valkey/valkey-glide'
import { Cluster, Redis } from 'ioredis'
import { Cluster as ValkeyCluster, Redis as Valkey } from 'iovalkey'
import { createClient, createClientPool, createCluster } from 'redis'
import t from 'tap'
import { RedisQuotaStore } from '../../lib/redis.js'
import { closing, connected, nodesOf, quiet, type Connect, type ConnectedClient } from '../support/redis-clients.js'
import { acquireOne, demand, place } from '../support/told-store.js'
import { portsOf, RedisServer, startCluster } from '../support/redis-server.js'

Logger.setLoggerConfig('off')
const credentials = { username: 'quota', password: 'password' }
const single = { ...credentials, maxRetriesPerRequest: 0, retryStrategy: () => null }
const cluster = { redisOptions: credentials, retryDelayOnFailover: 0, clusterRetryStrategy: () => null }
const nodeRedis = { ...credentials, disableOfflineQueue: true, pingInterval: 10, socket: { reconnectStrategy: false as const } }

/** For each row of the document's table, what connects such a client. */
const clients: Record<string, Connect> = {
  '`ioredis`, `Redis`': async ([port]) => quiet(new Redis({ port, ...single })),
  '`iovalkey`, `Redis`': async ([port]) => quiet(new Valkey({ port, ...single })),
  '`redis`, `createClient`': ([port]) => connected(createClient({ ...nodeRedis, socket: { ...nodeRedis.socket, port } })),
  '`redis`, `createClientPool`': ([port]) => connected(createClientPool({ ...nodeRedis, socket: { ...nodeRedis.socket, port } })),
  '`@valkey/valkey-glide`, `GlideClient`': (ports) => closing(GlideClient.createClient({ addresses: nodesOf(ports), credentials })),
  '`ioredis`, `Cluster`': async (ports) => quiet(new Cluster(nodesOf(ports), cluster)),
  '`iovalkey`, `Cluster`': async (ports) => quiet(new ValkeyCluster(nodesOf(ports), cluster)),
  '`redis`, `createCluster`': (ports) => connected(createCluster({ rootNodes: nodesOf(ports).map((socket) => ({ socket })), defaults: nodeRedis })),
  '`@valkey/valkey-glide`, `GlideClusterClient`': (ports) => closing(GlideClusterClient.createClient({ addresses: nodesOf(ports), credentials }))
}

const text = readFileSync('docs/shared-server.md', 'utf8')
const [, rules = ''] = /ACL SETUSER quota on >password (.*)/.exec(text) ?? []
const additions = new Map([...text.matchAll(/^\| (`.*`) \| (nothing|`(.*)`) \|$/gm)].map(([, client = '', , more = '']) => [client, more.replaceAll('\\|', '|').split(' ').filter((permission) => permission !== '')]))
const ofStore = rules.split(' ').filter((rule) => rule.startsWith('+'))
const otherRules = rules.split(' ').filter((rule) => !ofStore.includes(rule))

const one = [await RedisServer.start()]
const masters = await startCluster({ replicas: 0 })
t.teardown(() => Promise.all([...one, ...masters].map((server) => server.stop())))

for (const [name, connect] of Object.entries(clients)) {
  t.test(`${name} needs each of the documented permissions, and no other`, { timeout: 120_000 }, async (t) => {
    const isCluster = /cluster/i.test(name)
    const servers = isCluster ? masters : one
    const more = additions.get(name)
    if (more === undefined) throw new Error('the document does not list the client')
    const all = [...ofStore, ...more]
    t.same(await denials(servers, connect, all), [])
    // The store needs the same on each server.
    for (const permission of isCluster ? more : all) t.not((await denials(servers, connect, all.filter((other) => other !== permission))).length, 0, permission)
  })
}

/** Uses all that the store has, and returns what was denied. */
async function denials (servers: readonly RedisServer[], connect: Connect, permissions: readonly string[]): Promise<string[]> {
  const administrators = servers.map((server) => server.client())
  for (const administrator of administrators) {
    await administrator.call('ACL', 'SETUSER', 'quota', 'reset', 'on', '>password', ...otherRules, ...permissions)
    await administrator.flushall()
    await administrator.script('FLUSH')
    await administrator.call('ACL', 'LOG', 'RESET')
  }
  const failures: string[] = []
  const client = connect(portsOf(servers))
  await Promise.race([client.then(useStore), pause(5_000)]).catch((error: unknown) => { failures.push(String(error)) })
  await client.then(({ close }) => close(), () => {})
  const logs = await Promise.all(administrators.map((administrator) => administrator.call('ACL', 'LOG')))
  for (const administrator of administrators) administrator.disconnect()
  return [...failures, ...logs.flat().map(String)]
}

async function useStore ({ client }: ConnectedClient): Promise<void> {
  const demands = (caller: string) => [demand(caller), demand(caller, place())]
  const store = new RedisQuotaStore({ client, maxTrackedCallers: 1, rememberRejections: false })
  const [counted] = await store.acquire(demands('alice'))
  await store.acquire(demands('bob'))
  await store.peek(demand('alice'))
  await store.inspect('default')
  await store.list('default')
  if (counted != null) await store.release(counted, 1)
  await store.forget('alice', 'default')
  // Without the store's knowledge, the counters are absent within a minute of a decision, as if they had been evicted.
  await new RedisQuotaStore({ client }).clearCounters()
  await store.acquire(demands('alice'))
  let now = 0
  const checked = new RedisQuotaStore({ client, maxTrackedCallers: 1, keyPrefix: 'llm-quota:checked:', clock: () => now })
  await acquireOne(checked, 'alice')
  now += 180_000
  await acquireOne(checked, 'bob')
  // In the meantime, a client with pingInterval sends a ping.
  await pause(50)
}
