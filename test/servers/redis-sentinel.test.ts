// Failover by Redis Sentinel, with the options of docs/shared-server.md. A sentinel client of redis
// sent a decision again whose reply was lost.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { Redis as Valkey } from 'iovalkey'
import { createSentinel } from 'redis'
import { createSentinel as createLowestSentinel } from 'redis-lowest'
import t, { type Test } from 'tap'
import { RedisQuotaStore } from '../../lib/redis.js'
import { FaultyProxy } from '../../chaos/faulty-proxy.js'
import { acquireOne, demand } from '../support/demands.js'
import { connected, quiet, type ConnectedClient } from '../support/redis-clients.js'
import { RedisServer } from '../support/redis-server.js'
import { until } from '../support/until.js'

const name = 'quota'
const host = '127.0.0.1'
const ofIoredis = (port: number) => ({
  sentinels: [{ host, port }],
  name,
  maxRetriesPerRequest: 0,
  retryStrategy: () => 100
})
const ofNodeRedis = (port: number) => ({
  sentinelRootNodes: [{ host, port }],
  name,
  scanInterval: 1000,
  maxCommandRediscovers: 0,
  nodeClientOptions: { disableOfflineQueue: true, socket: { reconnectStrategy: () => 100 } }
})

const clients: Record<string, (sentinel: number) => Promise<ConnectedClient>> = {
  ioredis: async (sentinel) => quiet(new Redis(ofIoredis(sentinel))),
  iovalkey: async (sentinel) => quiet(new Valkey(ofIoredis(sentinel))),
  redis: (sentinel) => connected(createSentinel(ofNodeRedis(sentinel))),
  'redis 5.7.0': (sentinel) => connected(createLowestSentinel(ofNodeRedis(sentinel)))
}

for (const [client, connect] of Object.entries(clients)) {
  t.test(`a decision of ${client} whose reply is cut off is counted once`, async (t) => {
    const { proxy, primary, store } = await start(t, connect)
    const direct = primary.client()
    t.teardown(() => {
      direct.disconnect()
    })
    proxy.cut(1, /\r\nEVAL/i)
    await t.rejects(acquireOne(store, 'bob'))
    proxy.cut(0)
    await until('the client has reconnected', () => isCounted(store, 'alice'))
    t.match(await new RedisQuotaStore({ client: direct }).peek(demand('bob')), { count: 1 })
  })

  t.test(`${client} follows Sentinel after the primary has stopped`, async (t) => {
    const { primary, store } = await start(t, connect)
    await primary.kill()
    await until('the replica decides', () => isCounted(store, 'alice'))
    const { count } = await acquireOne(store, 'alice', { limit: 1_000 })
    t.ok(count >= 3, 'the counts continue')
  })

  // Clients of ioredis stay until Sentinel has demoted the primary, which takes ten seconds.
  if (/^io/.test(client)) continue
  t.test(`${client} leaves a replaced primary before Sentinel has demoted it`, async (t) => {
    const { primary, replica, sentinel, store } = await start(t, connect)
    await sentinel.until(
      'Sentinel begins a failover',
      async (client) => (await client.call('SENTINEL', 'FAILOVER', name).catch(() => {})) === 'OK'
    )
    await until(
      'the replica is a primary',
      async () => (await roleOf(replica).catch(() => {})) === 'master'
    )
    // What the replica counts from now on does not come from the former primary.
    await replica.until('the replica decides', async (direct) => {
      await isCounted(store, 'bob')
      return (await new RedisQuotaStore({ client: direct }).peek(demand('bob'))) !== null
    })
    t.equal(await roleOf(primary), 'master')
  })
}

/**
 * Starts a primary behind a proxy, its replica and a Sentinel, and counts a request of alice, which
 * the replica has.
 */
async function start (t: Test, connect: (sentinel: number) => Promise<ConnectedClient>) {
  const folder = mkdtempSync(join(tmpdir(), 'sentinel-'))
  const configuration = join(folder, 'sentinel.conf')
  const primary = await RedisServer.start()
  const proxy = await FaultyProxy.start(primary.port)
  const replica = await RedisServer.start('--replicaof', host, String(proxy.port))
  writeFileSync(
    configuration,
    `sentinel monitor ${name} ${host} ${proxy.port} 1
    sentinel down-after-milliseconds ${name} 500
    sentinel failover-timeout ${name} 3000`
  )
  await replica.until('the replica is synchronized', async (client) =>
    (await client.info('replication')).includes('master_link_status:up')
  )
  const sentinel = await RedisServer.start(configuration, '--sentinel')
  t.teardown(async () => {
    await Promise.all([sentinel.stop(), replica.stop(), primary.stop()])
    await proxy.stop()
    rmSync(folder, { recursive: true })
  })
  await sentinel.until('Sentinel knows that it can promote the replica', async (client) => {
    const replicas = JSON.stringify(await client.call('SENTINEL', 'REPLICAS', name))
    return replicas.includes('"master-link-status","ok"')
  })
  const { client, close } = await connect(sentinel.port)
  t.teardown(close)
  const store = new RedisQuotaStore({ client, rememberRejections: false })
  t.match(await acquireOne(store, 'alice'), { count: 1 })
  await replica.until(
    'the counts are on the replica',
    async (client) => (await client.exists('llm-quota:{llm-quota:}v9:windows:default')) === 1
  )
  return { proxy, primary, replica, sentinel, store }
}

async function isCounted (store: RedisQuotaStore, caller: string): Promise<boolean> {
  return acquireOne(store, caller, { limit: 1_000 }).then(
    () => true,
    () => false
  )
}

async function roleOf (server: RedisServer): Promise<unknown> {
  const role = await server.administer('ROLE')
  return Array.isArray(role) ? role[0] : role
}
