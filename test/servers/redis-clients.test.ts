// The store has the same results with every client of one server and of a cluster.
import t from 'tap'
import { callerKey, localAuthentication } from '../../lib/index.js'
import { RedisQuotaStore } from '../../lib/redis.js'
import { compareWithReference } from '../support/compare-stores.js'
import { acquireOne } from '../support/demands.js'
import { clusterClients, singleClients, type Connect } from '../support/redis-clients.js'
import { portsOf, RedisServer, serverVersion, startCluster } from '../support/redis-server.js'

const key = (number: number) => String(callerKey(localAuthentication(`caller ${number}`)))

/** Clients, the servers that they connect to, and a client of the test for each server. */
async function start (clients: Record<string, Connect>, servers: readonly RedisServer[]) {
  const observers = servers.map((server) => server.client())
  t.teardown(async () => {
    for (const observer of observers) observer.disconnect()
    await Promise.all(servers.map((server) => server.stop()))
  })
  const isMaster = await Promise.all(
    observers.map(async (observer) => (await observer.info('replication')).includes('role:master'))
  )
  return {
    clients,
    servers,
    observers,
    masters: observers.filter((_, index) => isMaster[index])
  }
}

t.comment(serverVersion())
const kinds = [
  await start(singleClients, [await RedisServer.start()]),
  await start(clusterClients, await startCluster())
]

for (const { clients, servers, observers, masters } of kinds) {
  const keysOf = async (pattern: string) =>
    (await Promise.all(masters.map((master) => master.keys(pattern)))).flat()
  for (const [name, connect] of Object.entries(clients)) {
    t.test(`the store has correct results with ${name}`, async (t) => {
      const { client, close } = await connect(portsOf(servers))
      t.teardown(close)
      for (const observer of observers) await observer.config('RESETSTAT')
      t.test('each call has the results of the reference', async (t) => {
        let stores = 0
        const create = (options: { clock: () => number; maxTrackedCallers: number }) =>
          new RedisQuotaStore({
            client,
            keyPrefix: `${name} ${++stores}:`,
            rememberRejections: false,
            ...options
          })
        const seen = await compareWithReference({
          create,
          walks: 1,
          length: 200,
          placesEnd: true,
          areTogether: true
        })
        t.ok(seen.admitted > 0 && seen.settledLess > 0, JSON.stringify(seen))
      })
      t.test('concurrent decisions are correct', async (t) => {
        const store = new RedisQuotaStore({ client, keyPrefix: `${name} at once:` })
        const acquisitions = await Promise.all(
          Array.from({ length: 400 }, async (_, index) =>
            acquireOne(store, key(index % 100), { limit: 3 })
          )
        )
        t.equal(acquisitions.filter(({ admitted }) => admitted).length, 300)
      })
      t.test(
        'the store sends a script again after the servers have lost it, even if decisions ' +
          'have not returned yet',
        async (t) => {
          const store = new RedisQuotaStore({ client, keyPrefix: `${name} flushed:` })
          const counts: number[] = []
          for (let round = 0; round < 5; round++) {
            const acquisitions = Promise.all(
              Array.from({ length: 100 }, async (_, index) =>
                acquireOne(store, key(index % 50), { limit: 1_000 })
              )
            )
            await Promise.all(observers.map((observer) => observer.script('FLUSH')))
            counts.push(...(await acquisitions).map(({ count }) => count))
          }
          const expected = Array.from({ length: 500 }, (_, index) => Math.floor(index / 50) + 1)
          t.same(
            counts.sort((one, other) => one - other),
            expected,
            'each request is counted once'
          )
        }
      )
      t.test(
        'each key has the prefixes of the client and of the store, and clearCounters removes it',
        async (t) => {
          const store = new RedisQuotaStore({ client, keyPrefix: 'mine:' })
          for (let caller = 0; caller < 200; caller++) {
            await acquireOne(store, key(caller), { limit: 1 })
          }
          const keys = await keysOf('*mine:*')
          t.equal(keys.length, 1, 'the counters of a quota')
          for (const key of keys) {
            t.ok(key.startsWith(name.includes('a key prefix') ? 'all:mine:' : 'mine:'), key)
          }
          await store.clearCounters()
          t.same(await keysOf('*mine:*'), [])
        }
      )
      t.test('acquire rejects with the error of the server', async (t) => {
        const store = new RedisQuotaStore({ client, keyPrefix: `${name} wrong:` })
        await acquireOne(store, key(1), { limit: 1 })
        for (const master of masters) {
          for (const found of await master.keys(`*${name} wrong:*windows:default`)) {
            await master.multi().del(found).set(found, "another program's").exec()
          }
        }
        await t.rejects(() => acquireOne(store, key(2), { limit: 1 }), /WRONGTYPE/)
      })
      t.test('scripts run on masters only', async (t) => {
        let onMasters = 0
        for (const observer of observers) {
          const scripts = [
            ...(await observer.info('commandstats')).matchAll(/cmdstat_eval\w*:calls=(\d+)/g)
          ].reduce((sum, [, calls]) => sum + Number(calls), 0)
          // Which masters run some depends on the slots of the few stores.
          if (masters.includes(observer)) onMasters += scripts
          else t.equal(scripts, 0)
        }
        t.ok(onMasters > 20, `${onMasters} scripts`)
      })
    })
  }
}
