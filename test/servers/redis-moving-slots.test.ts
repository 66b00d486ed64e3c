// While a slot of a cluster moves, its keys are on two servers, and a script with several keys gets
// the error TRYAGAIN, which not every client repeats. A script must not use a key again that it has
// emptied, for which the server would look on the other one.
import t from 'tap'
import { RedisQuotaStore } from '../../lib/redis.js'
import type { Acquisitions } from '../../lib/store/store.js'
import { demand, estimate, place } from '../support/demands.js'
import { clusterClients } from '../support/redis-clients.js'
import { portsOf, startCluster } from '../support/redis-server.js'
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

/** Begins to move the slot of the store with this key prefix to another master. */
async function startMoving (keyPrefix: string) {
  // A client can have a key prefix of its own.
  const found = masters.map(({ observer }) => observer.keys(`*{${keyPrefix}}*windows:default`))
  const [counters] = (await Promise.all(found)).flat()
  const [anyMaster] = masters
  if (anyMaster === undefined || counters === undefined) throw new Error('there are no counters')
  const slot = await anyMaster.observer.cluster('KEYSLOT', counters)
  const owners = await Promise.all(
    masters.map(async ({ observer }) => Number(await observer.cluster('COUNTKEYSINSLOT', slot)))
  )
  const source = masters[owners.findIndex((keys) => keys > 0)]
  const target = masters.find((master) => master !== source)
  if (source === undefined || target === undefined) throw new Error('there is no other master')
  await target.observer.cluster('SETSLOT', slot, 'IMPORTING', source.id)
  await source.observer.cluster('SETSLOT', slot, 'MIGRATING', target.id)
  const move = async (keys: readonly string[]) => {
    for (const key of keys) {
      await source.observer.call('MIGRATE', '127.0.0.1', target.port, key, 0, 5_000)
    }
  }
  return {
    moveCounters: () => move([counters]),
    async finish () {
      await move(await source.observer.cluster('GETKEYSINSLOT', slot, 1_000))
      for (const { observer } of [target, source, ...masters]) {
        await observer.cluster('SETSLOT', slot, 'NODE', target.id)
      }
    }
  }
}

/** How often the masters have refused a call because of a slot that moves. */
async function countRefused (): Promise<number> {
  const statistics = await Promise.all(masters.map(({ observer }) => observer.info('errorstats')))
  const counts = statistics.map((text) => /errorstat_TRYAGAIN:count=(\d+)/.exec(text)?.[1] ?? 0)
  return counts.reduce((sum: number, count) => sum + Number(count), 0)
}

for (const [name, connect] of Object.entries(clusterClients)) {
  t.test(`each request of ${name} is decided on while the slot of its keys moves`, async (t) => {
    const { client, close } = await connect(portsOf(servers))
    t.teardown(close)
    const keyPrefix = `${name} moving:`
    const store = new RedisQuotaStore({ client, keyPrefix, rememberRejections: false })
    const demands = (caller: string) => [
      demand(caller, { limit: 1_000 }),
      demand(caller, estimate(3, { limit: 1_000_000 })),
      demand(caller, place(1_000))
    ]
    await store.acquire(demands('alice'))
    const before = await countRefused()
    const { moveCounters, finish } = await startMoving(keyPrefix)
    await moveCounters()
    const moving = Promise.all(Array.from({ length: 50 }, () => store.acquire(demands('alice'))))
    await until('a call was refused', async () => (await countRefused()) > before)
    await finish()
    const acquired = await moving
    t.ok(acquired.flat().every((acquisition) => acquisition?.admitted))
    t.match(await store.peek(demand('alice', { limit: 1_000 })), { count: 51 })
    t.match(await store.peek(demand('alice', place())), { count: 51 })
    for (const each of acquired.flat()) {
      const { granted: count = 0, receipt } = each ?? {}
      await store.settle(receipt, { count, held: count })
    }
    t.match(await store.peek(demand('alice', place())), { count: 1 })
    t.match(await store.peek(demand('alice', estimate())), { count: 3, held: 3 })
  })

  t.test(`what ${name} settles while the slot moves is applied, beside a last place`, async (t) => {
    const { client, close } = await connect(portsOf(servers))
    t.teardown(close)
    const keyPrefix = `${name} settling:`
    const store = new RedisQuotaStore({ client, keyPrefix })
    const demands = [
      demand('alice'),
      demand('alice', estimate(3, { limit: 100 })),
      demand('alice', place(1))
    ]
    const settle = (acquired: Acquisitions) =>
      acquired.map(async (each) => {
        const { granted: count = 0, receipt } = each ?? {}
        await store.settle(receipt, { count, held: count })
      })
    // While a slot moves, the server refuses a call with a key that is new, as that of the process.
    await Promise.all(settle(await store.acquire(demands)))
    const acquired = await store.acquire(demands)
    const { finish } = await startMoving(keyPrefix)
    const settled = settle(acquired)
    // In one call with what frees the only place.
    const again = await store.acquire(demands)
    await Promise.all(settled)
    t.ok(again.every((each) => each?.admitted))
    await Promise.all(settle(again))
    await finish()
    t.match(await store.peek(demand('alice', estimate())), { count: 0, held: 0 })
    t.match(await store.peek(demand('alice', place())), { count: 0 })
  })
}
