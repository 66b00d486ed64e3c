// Compares the server CPU of a request with three quotas (requests, tokens and requests in flight) with that of one decision of a peer. 64
// callers are served at once. A request takes a place and asks both other quotas, then counts, charges its tokens and gives the place back.
import { cpus, loadavg } from 'node:os'
import { callerKey, localAuthentication } from 'fastify-llm-quota'
import { RedisQuotaStore } from 'fastify-llm-quota/redis'
import { RateLimiterRedis } from 'rate-limiter-flexible'
import { RedisServer } from '../../test/support/redis-server.js'
import { median } from '../statistics.js'

const rounds = 7
const perRound = 6_400
const atOnce = 64
const callers = Array.from({ length: 500 }, (_, number) => String(callerKey(localAuthentication(`caller ${number}`))))
const limit = 1_000_000_000

const server = await RedisServer.start()
const client = server.client()
const store = new RedisQuotaStore({ client, rememberRefusals: false })
const [tokens, streams] = [store.quota('tokens', 60_000), store.quota('streams', 60_000)]
const peer = new RateLimiterRedis({ storeClient: client, points: limit, duration: 60 })

const requests: Record<string, (caller: string) => Promise<unknown>> = {
  'rate-limiter-flexible, one decision': (caller) => peer.consume(caller),
  'this store, one decision': async (caller) => store.acquire(caller, limit),
  async 'this store, three quotas' (caller) {
    const [{ leave }] = await Promise.all([streams.enter(caller, limit), store.acquire(caller, limit, 0), tokens.acquire(caller, limit, 0)])
    await store.acquire(caller, limit)
    await tokens.acquire(caller, Number.MAX_SAFE_INTEGER, 100)
    await leave?.()
  }
}

const figures = new Map(Object.keys(requests).map((name): [string, number[]] => [name, []]))
for (let round = 0; round <= rounds; round++) {
  for (const [name, request] of Object.entries(requests)) {
    const cost = await costOf(request)
    // The first round warms up.
    if (round > 0) figures.get(name)?.push(cost)
  }
}
const [peers = NaN] = [...figures.values()].map(median)
console.log(`\nRedis ${/redis_version:(\S+)/.exec(await client.info('server'))?.[1]}, Node ${process.version}, load of the machine ${loadavg()[0]?.toFixed(1)} on ${cpus().length} processors; medians of ${rounds} rounds of ${perRound} requests, ${atOnce} at once\n`)
console.log('| | server CPU per request, µs | relative to `rate-limiter-flexible` |\n|---|---:|---:|')
for (const [name, costs] of figures) console.log(`| ${name} | ${median(costs).toFixed(1)} | ${(median(costs) / peers).toFixed(2)} |`)
client.disconnect()
await server.stop()

async function costOf (request: (caller: string) => Promise<unknown>): Promise<number> {
  const before = await cpu()
  for (let done = 0; done < perRound; done += atOnce) {
    await Promise.all(Array.from({ length: atOnce }, (_, turn) => request(callers[(done + turn) % callers.length] ?? '')))
  }
  return (await cpu() - before) / perRound
}

async function cpu (): Promise<number> {
  const information = await client.info('cpu')
  return 1e6 * (Number(/used_cpu_user:([\d.]+)/.exec(information)?.[1]) + Number(/used_cpu_sys:([\d.]+)/.exec(information)?.[1]))
}
