// While a slot of a cluster moves, its keys are on two servers, and a script with several keys gets
// the error TRYAGAIN, which not every client repeats.
import t from 'tap'
import { RedisQuotaStore } from '../../lib/redis.js'
import { clusterClients } from '../support/redis-clients.js'
import { portsOf, startCluster } from '../support/redis-server.js'
import { demand, estimate, place } from '../support/told-store.js'
import { until } from '../support/until.js'

const servers = await startCluster()
const observers = servers.map((server) => server.client())
t.teardown(async () => {
  for (const observer of observers) observer.disconnect()
  await Promise.all(servers.map((server) => server.stop()))
})

const nodes = await Promise.all(
  observers.map(async (observer, index) => ({
    observer,
    port: servers[index]?.port ?? 0,
    id: String(await observer.cluster('MYID')),
    isMaster: (await observer.info('replication')).includes('role:master')
  }))
)
const masters = nodes.filter(({ isMaster }) => isMaster)

for (const [name, connect] of Object.entries(clusterClients)) {
  t.test(`each request of ${name} is decided on while the slot of its keys moves`, async (t) => {
    const { client, close } = await connect(portsOf(servers))
    t.teardown(close)
    const store = new RedisQuotaStore({
      client,
      keyPrefix: `${name} moving:`,
      rememberRejections: false
    })
    const demands = (caller: string) => [
      demand(caller, { limit: 1_000 }),
      demand(caller, estimate(3, { limit: 1_000_000 })),
      demand(caller, place(1_000))
    ]
    await store.acquire(demands('alice'))

    const [anyMaster] = masters
    const key = (await Promise.all(masters.map(({ observer }) => observer.keys('*moving:*'))))
      .flat()
      .find((found) => found.includes(`${name} moving:`) && found.endsWith('}'))
    if (anyMaster === undefined || key === undefined) throw new Error('there is no shard')
    const slot = await anyMaster.observer.cluster('KEYSLOT', key)
    const owners = await Promise.all(
      masters.map(async ({ observer }) => Number(await observer.cluster('COUNTKEYSINSLOT', slot)))
    )
    const source = masters[owners.findIndex((keys) => keys > 0)]
    const target = masters.find((master) => master !== source)
    if (source === undefined || target === undefined) throw new Error('there is no other master')
    const move = async (moved: readonly string[]) => {
      for (const each of moved) {
        await source.observer.call('MIGRATE', '127.0.0.1', target.port, each, 0, 5_000)
      }
    }

    await target.observer.cluster('SETSLOT', slot, 'IMPORTING', source.id)
    await source.observer.cluster('SETSLOT', slot, 'MIGRATING', target.id)
    await move([key])
    let errors = 0
    const countErrors = async () => {
      const statistics = await Promise.all(
        masters.map(({ observer }) => observer.info('errorstats'))
      )
      const pattern = /errorstat_TRYAGAIN:count=(\d+)/
      const counts = statistics.map((text) => pattern.exec(text)?.[1] ?? 0)
      return counts.reduce((sum: number, count) => sum + Number(count), 0)
    }
    const before = await countErrors()
    const moving = Promise.all(Array.from({ length: 50 }, () => store.acquire(demands('alice'))))
    await until('a call was refused', async () => {
      errors = (await countErrors()) - before
      return errors > 0
    })
    await move(await source.observer.cluster('GETKEYSINSLOT', slot, 1_000))
    for (const { observer } of [target, source, ...masters]) {
      await observer.cluster('SETSLOT', slot, 'NODE', target.id)
    }
    const acquired = await moving
    t.ok(acquired.flat().every((acquisition) => acquisition?.admitted))
    t.match(await store.peek(demand('alice', { limit: 1_000 })), { count: 51 })
    t.match(await store.peek(demand('alice', place())), { count: 51 })
    for (const each of acquired.flat()) if (each !== null) await store.settle(each, 0)
    t.match(await store.peek(demand('alice', place())), { count: 1 })
    t.match(await store.peek(demand('alice', estimate())), { count: 3, held: 3 })
  })
}
