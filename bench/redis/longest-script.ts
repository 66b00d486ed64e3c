// Prints the longest script of the store for several orders of requests, the latency of a new caller at the cap right after a sweep, and
// the memory per caller on the server. The store has a virtual clock.
import { callerKey, localAuthentication } from 'fastify-llm-quota'
import { RedisQuotaStore } from 'fastify-llm-quota/redis'
import type { Redis } from 'ioredis'
import { RedisServer } from '../../test/support/redis-server.js'

const sizes = process.argv.includes('--quick') ? [10_000, 100_000] : [10_000, 100_000, 1_000_000]
const limit = 1_000_000
const server = await RedisServer.start('--slowlog-log-slower-than', '0', '--slowlog-max-len', '20000')
const client = server.client({ enableAutoPipelining: true })

interface Stage { readonly store: RedisQuotaStore, readonly keys: readonly string[], pass (milliseconds: number): void }

// The requests between reaching the cap and the first new caller. The second half of the callers comes last, and a sweep is due.
const orders: Record<string, (stage: Stage) => Promise<void>> = {
  'all staying': async ({ store, keys, pass }) => {
    pass(60_000)
    await touch(store, keys)
    pass(60_000)
  },
  'all leaving': async ({ pass }) => { pass(150_000) },
  'half leaving': async ({ store, keys, pass }) => {
    pass(60_000)
    await touch(store, keys.slice(keys.length / 2))
    pass(61_000)
  },
  'half silent for a minute, none leaving': async ({ store, keys, pass }) => {
    pass(30_000)
    await touch(store, keys.slice(0, keys.length / 2))
    pass(30_000)
    await touch(store, keys.slice(keys.length / 2))
    pass(61_000)
  },
  'halves in turn, none leaving': async ({ store, keys, pass }) => {
    const halves = [keys.slice(0, keys.length / 2), keys.slice(keys.length / 2)] as const
    pass(35_000)
    await touch(store, halves[0])
    pass(35_000)
    await touch(store, halves[1])
    pass(30_000)
    await touch(store, halves[0])
    pass(65_000)
  },
  'almost all silent for 85 s, none leaving': async ({ store, keys, pass }) => {
    pass(35_000)
    await touch(store, keys.slice(0, 1))
    pass(900)
    await touch(store, keys.slice(1))
    pass(34_100)
    await touch(store, keys.slice(0, 1))
    pass(85_500)
  }
}

console.log('\n| callers | order of requests | longest script, ms | latency of the new caller, ms | scripts | memory per caller, bytes |\n|---:|---|---:|---:|---:|---:|')
for (const size of sizes) {
  const keys = Array.from({ length: size }, (_, number) => String(callerKey(localAuthentication(`caller ${number}`))))
  for (const [order, run] of Object.entries(orders)) {
    let now = 1_000_000
    const keyPrefix = `${order.replaceAll(' ', '-')}-${size}:`
    const store = new RedisQuotaStore({ client, keyPrefix, maxTrackedCallers: size, rememberRefusals: false, clock: () => now })
    let longest = 0
    await touch(store, keys)
    longest = Math.max(longest, ...await scriptTimes(client))
    const bytes = Number(await client.memory('USAGE', `${keyPrefix}{0}:default:counters`, 'SAMPLES', 0)) / size
    await run({ store, keys, pass: (milliseconds) => { now += milliseconds } })
    longest = Math.max(longest, ...await scriptTimes(client))
    const started = performance.now()
    await store.acquire('a new caller', limit)
    const took = performance.now() - started
    const scripts = await scriptTimes(client)
    longest = Math.max(longest, ...scripts)
    console.log(`| ${size.toLocaleString('en')} | ${order} | ${(longest / 1000).toFixed(1)} | ${took.toFixed(1)} | ${scripts.length} | ${Math.round(bytes)} |`)
    await store.clearCounters()
  }
}
client.disconnect()
await server.stop()

async function touch (store: RedisQuotaStore, keys: readonly string[]): Promise<void> {
  for (let first = 0; first < keys.length; first += 2_000) {
    await Promise.all(keys.slice(first, first + 2_000).map((key) => store.acquire(key, limit)))
  }
}

/** Returns the durations of the scripts since the last call, in microseconds, as far as the server's slow log reaches. */
async function scriptTimes (client: Redis): Promise<number[]> {
  const entries = await client.slowlog('GET', 20_000)
  await client.slowlog('RESET')
  return (Array.isArray(entries) ? entries : []).filter((entry) => /eval/i.test(String(entry[3]))).map((entry) => Number(entry[2]))
}
