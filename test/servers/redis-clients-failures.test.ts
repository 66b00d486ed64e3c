// Connections and servers that fail, with each client: nothing is counted twice, and the client recovers by itself.
import { setTimeout as wait } from 'node:timers/promises'
import { Cluster } from 'ioredis'
import t from 'tap'
import { callerKey, localAuthentication, type QuotaStore } from '../../lib/index.js'
import { RedisQuotaStore } from '../../lib/redis.js'
import { FaultyProxy } from '../support/faulty-proxy.js'
import { clientNamed, clusterClients, nodesOf, singleClients, type Connect } from '../support/redis-clients.js'
import { portsOf, RedisServer, startCluster } from '../support/redis-server.js'
import { acquireOne, demand } from '../support/told-store.js'

const key = (name: string) => String(callerKey(localAuthentication(name)))
const limit = 1_000

/** Waits until a client has reconnected, which takes a different time with each client. */
async function recovered (store: QuotaStore): Promise<void> {
  const decide = () => acquireOne(store, key('another'), { limit })
  for (let attempt = 0; attempt < 200; attempt++) if (await decide().catch(() => wait(20)) !== undefined) return
  throw new Error('the client did not recover')
}

/** Cuts off the reply to one decision, and returns how often the decision was counted and whether it was answered. */
async function cutOneReply (connect: Connect, proxies: readonly FaultyProxy[], observer: QuotaStore, keyPrefix: string): Promise<{ count: number | undefined, answered: boolean }> {
  const { client, close } = await connect(portsOf(proxies))
  const store = new RedisQuotaStore({ client, keyPrefix })
  try {
    await acquireOne(store, key('another'), { limit })
    for (const proxy of proxies) proxy.cut(1, /\r\nEVAL/i)
    const answered = await Promise.resolve(acquireOne(store, key('alice'), { limit })).then(() => true, () => false)
    for (const proxy of proxies) proxy.cut(0)
    await recovered(store)
    return { count: (await observer.peek?.(demand(key('alice'))))?.count, answered }
  } finally {
    await close()
  }
}

t.test('the clients of one server count as documented when a connection or the server fails', async (t) => {
  const server = await RedisServer.start()
  const proxy = await FaultyProxy.start(server.port)
  const direct = server.client()
  t.teardown(async () => {
    direct.disconnect()
    await proxy.stop()
    await server.stop()
  })
  const names = Object.keys(singleClients).filter((name) => !/key prefix|wrapper/.test(name))

  for (const name of names) {
    const connect = clientNamed(name)

    t.test(`a decision of ${name} whose reply is cut off is counted once, and its promise rejects`, async (t) => {
      const keyPrefix = `${name}, cut:`
      t.same(await cutOneReply(connect, [proxy], new RedisQuotaStore({ client: direct, keyPrefix }), keyPrefix), { count: 1, answered: false })
    })

    t.test(`decisions of ${name} fail while the server is not running, and succeed after it has restarted`, async (t) => {
      const { client, close } = await connect([server.port])
      const store = new RedisQuotaStore({ client, keyPrefix: `${name}, restarted:` })
      await acquireOne(store, key('alice'), { limit })
      await server.kill()
      await t.rejects(() => acquireOne(store, key('alice'), { limit }))
      await server.start()
      await recovered(store)
      t.match(await acquireOne(store, key('alice'), { limit }), { admitted: true, count: 1 })
      await close()
      await t.rejects(() => acquireOne(store, key('alice'), { limit }), 'a decision fails after the host has closed the client')
      const observer = new RedisQuotaStore({ client: direct, keyPrefix: `${name}, restarted:` })
      await recovered(observer)
      t.match(await observer.peek(demand(key('alice'))), { count: 1 })
    })
  }
})

t.test('the clients of a cluster count as documented when replies are cut off', async (t) => {
  const proxies: FaultyProxy[] = []
  // Also if the cluster does not start.
  t.teardown(async () => { await Promise.all(proxies.map((proxy) => proxy.stop())) })
  const servers = await startCluster({
    replicas: 0,
    async through (port) {
      const proxy = await FaultyProxy.start(port)
      proxies.push(proxy)
      return proxy
    }
  })
  const observerClient = new Cluster(nodesOf(portsOf(proxies)))
  t.teardown(async () => {
    observerClient.disconnect()
    await Promise.all(servers.map((server) => server.stop()))
  })

  for (const [name, connect] of Object.entries(clusterClients)) {
    if (name.includes('key prefix')) continue
    t.test(`a decision of ${name} in a cluster whose reply is cut off is counted once, and its promise rejects`, async (t) => {
      const observer = new RedisQuotaStore({ client: observerClient, keyPrefix: `${name}:` })
      t.same(await cutOneReply(connect, proxies, observer, `${name}:`), { count: 1, answered: false })
    })
  }
})
