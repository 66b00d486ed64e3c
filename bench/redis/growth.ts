// Shows how the cost of the shared store grows with the number of callers, of connections, and of shards in a cluster.
import { cpus, loadavg } from 'node:os'
import { callerKey, localAuthentication } from 'fastify-llm-quota'
import { RedisQuotaStore } from 'fastify-llm-quota/redis'
import { Cluster, type Redis } from 'ioredis'
import { Random } from '../../test/support/random.js'
import { RedisServer, startCluster } from '../../test/support/redis-server.js'
import { median } from '../statistics.js'

const rounds = 5
const decisionsPerRound = 10_000
const batch = 200
const random = new Random(1)

const server = await RedisServer.start()
const clients = Array.from({ length: 16 }, () => server.client({ enableAutoPipelining: true }))
const [client] = clients
if (client === undefined) throw new Error('there is no client')
console.log(`\nRedis ${/redis_version:(\S+)/.exec(await client.info('server'))?.[1]}, Node ${process.version}, load of the machine ${loadavg()[0]?.toFixed(1)} on ${cpus().length} processors; medians of ${rounds} rounds of ${decisionsPerRound} decisions\n`)

console.log('| callers | server CPU per decision, µs | server memory per caller, bytes |\n|---:|---:|---:|')
for (const callers of [100, 1_000, 10_000, 100_000]) {
  const keyPrefix = `grow-${callers}:`
  const keys = keysOf(callers)
  const store = new RedisQuotaStore({ client, keyPrefix, rememberRefusals: false, maxTrackedCallers: callers })
  for (let first = 0; first < callers; first += 1_000) await Promise.all(keys.slice(first, first + 1_000).map((key) => store.acquire(key, 1_000_000)))
  const cost = await costOf([client], () => decide([store], keys))
  const bytes = Number(await client.memory('USAGE', `${keyPrefix}{0}:default:counters`, 'SAMPLES', 0))
  console.log(`| ${callers.toLocaleString('en')} | ${cost.toFixed(1)} | ${Math.round(bytes / callers)} |`)
  await store.clearCounters()
}

console.log('\n| connections (instances) | server CPU per decision, µs |\n|---:|---:|')
for (const connections of [1, 4, 16]) {
  const stores = clients.slice(0, connections).map((redis) => new RedisQuotaStore({ client: redis, keyPrefix: `share-${connections}:`, rememberRefusals: false }))
  const keys = keysOf(5_000)
  console.log(`| ${connections} | ${(await costOf([client], () => decide(stores, keys))).toFixed(1)} |`)
}
for (const redis of clients) redis.disconnect()
await server.stop()

const servers = await startCluster()
const cluster = new Cluster(servers.map(({ port }) => ({ host: '127.0.0.1', port })), { enableAutoPipelining: true })
const nodes = servers.map((node) => node.client())
console.log('\n| shards on three masters | CPU of all servers per decision, µs | share of the busiest |\n|---:|---:|---:|')
for (const shards of [1, 4, 16]) {
  const store = new RedisQuotaStore({ client: cluster, shards, keyPrefix: `shard-${shards}:`, rememberRefusals: false })
  const keys = keysOf(5_000)
  const before = await Promise.all(nodes.map(commandsOf))
  const cost = await costOf(nodes, () => decide([store], keys))
  const done = (await Promise.all(nodes.map(commandsOf))).map((commands, node) => commands - (before[node] ?? 0))
  console.log(`| ${shards} | ${cost.toFixed(1)} | ${Math.round(100 * Math.max(...done) / done.reduce((sum, commands) => sum + commands, 0))} % |`)
}
cluster.disconnect()
for (const node of nodes) node.disconnect()
await Promise.all(servers.map((node) => node.stop()))

function keysOf (callers: number): string[] {
  return Array.from({ length: callers }, (_, number) => String(callerKey(localAuthentication(`caller ${number}`))))
}

async function decide (stores: readonly RedisQuotaStore[], keys: readonly string[]): Promise<void> {
  for (let decision = 0; decision < decisionsPerRound; decision += batch) {
    await Promise.all(Array.from({ length: batch }, (_, turn) => stores[turn % stores.length]?.acquire(random.pick(keys), 1_000_000)))
  }
}

async function costOf (servers: readonly Redis[], run: () => Promise<void>): Promise<number> {
  const costs: number[] = []
  for (let round = 0; round < rounds; round++) {
    const before = await cpuOf(servers)
    await run()
    costs.push((await cpuOf(servers) - before) / decisionsPerRound)
  }
  return median(costs)
}

async function cpuOf (servers: readonly Redis[]): Promise<number> {
  const seconds = await Promise.all(servers.map(async (redis) => {
    const information = await redis.info('cpu')
    return Number(/used_cpu_user:([\d.]+)/.exec(information)?.[1]) + Number(/used_cpu_sys:([\d.]+)/.exec(information)?.[1])
  }))
  return seconds.reduce((sum, each) => sum + each, 0) * 1e6
}

// Counts the scripts that clients sent. A replica does not run them again, it only repeats their writes.
async function commandsOf (redis: Redis): Promise<number> {
  return Number(/cmdstat_evalsha:calls=(\d+)/.exec(await redis.info('commandstats'))?.[1] ?? 0)
}
