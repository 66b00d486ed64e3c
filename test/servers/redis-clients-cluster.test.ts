// Every client of a cluster: the same results, and no script on a replica.
import t from 'tap'
import { callerKey, localAuthentication } from '../../lib/index.js'
import { RedisQuotaStore } from '../../lib/redis.js'
import { quotaStoreContract } from '../../lib/testing.js'
import { clusterClients } from '../support/redis-clients.js'
import { portsOf, startCluster } from '../support/redis-server.js'

const servers = await startCluster()
const observers = servers.map((server) => server.client())
t.teardown(async () => {
  for (const observer of observers) observer.disconnect()
  await Promise.all(servers.map((server) => server.stop()))
})

const shards = 8
const key = (name: string) => String(callerKey(localAuthentication(name)))

/** Returns how many scripts the servers with a role have run since the statistics were reset. */
async function scriptsRunBy (role: 'master' | 'slave'): Promise<number> {
  let calls = 0
  for (const observer of observers) {
    if (!(await observer.info('replication')).includes(`role:${role}`)) continue
    for (const [, count] of (await observer.info('commandstats')).matchAll(/cmdstat_eval\w*:calls=(\d+)/g)) calls += Number(count)
  }
  return calls
}

for (const [name, connect] of Object.entries(clusterClients)) {
  t.test(`the store has correct results with the cluster client ${name}`, async (t) => {
    const { client, close } = await connect(portsOf(servers))
    t.teardown(close)
    for (const observer of observers) await observer.config('RESETSTAT')

    let stores = 0
    // A cap of 4 can be divided among at most 4 shards.
    const create = (options: { clock: () => number, maxTrackedCallers: number }) =>
      new RedisQuotaStore({ client, keyPrefix: `${name} ${++stores}:`, shards: Math.min(shards, options.maxTrackedCallers), ...options })
    for (const check of quotaStoreContract(create)) t.test(check.name, check.run)

    t.test('concurrent decisions about callers on different nodes are correct', async (t) => {
      const store = new RedisQuotaStore({ client, keyPrefix: `${name} at once:`, shards })
      const acquisitions = await Promise.all(Array.from({ length: 400 }, async (_, request) => store.acquire(key(`caller ${request % 100}`), 3)))
      t.equal(acquisitions.filter(({ admitted }) => admitted).length, 300)
    })

    t.test('the store sends a script again after the servers have lost it, even if decisions are in flight', async (t) => {
      const store = new RedisQuotaStore({ client, keyPrefix: `${name} flushed:`, shards })
      let admitted = 0
      for (let round = 0; round < 5; round++) {
        const acquisitions = Promise.all(Array.from({ length: 100 }, async (_, request) => store.acquire(key(`caller ${request % 50}`), 4)))
        await Promise.all(observers.map((observer) => observer.script('FLUSH')))
        admitted += (await acquisitions).filter((acquisition) => acquisition.admitted).length
      }
      t.equal(admitted, 200, 'each request is counted once')
    })

    t.test('scripts run on masters only', async (t) => {
      t.ok(await scriptsRunBy('master') > 1_000)
      t.equal(await scriptsRunBy('slave'), 0)
    })
  })
}
