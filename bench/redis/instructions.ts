// Prints the number of server instructions per decision, for this store, for a minimal script, and for a peer, and per request with three quotas.
import { callerKey, localAuthentication } from 'fastify-llm-quota'
import { RedisQuotaStore, type QuotaRedisClient } from 'fastify-llm-quota/redis'
import type { Redis } from 'ioredis'
import { RateLimiterRedis } from 'rate-limiter-flexible'
import { median } from '../statistics.js'
import { instructionsDuring, instructionsOf } from './counted-redis-server.js'

const callers = Array.from({ length: 500 }, (_, number) => String(callerKey(localAuthentication(`caller ${number}`))))
const limit = 1_000_000_000

type Decide = (caller: string) => unknown

const limiters: Record<string, { create: (client: Redis) => Promise<Decide>, atOnce: number }> = {
  'bare INCR and PTTL in a script': { create: bare, atOnce: 64 },
  'rate-limiter-flexible': { create: peer, atOnce: 64 },
  'this store, one decision per script': { create: apart, atOnce: 64 },
  'this store, 64 callers at once': { create: together, atOnce: 64 },
  'this store, a request with three quotas, 64 callers at once': { create: severalQuotas, atOnce: 64 }
}

const figures = new Map<string, number>()
for (const [name, { create, atOnce }] of Object.entries(limiters)) {
  const slopes: number[] = []
  while (slopes.length < 3) slopes.push(await instructionsOf(decideAll(create, callers, atOnce)))
  figures.set(name, median(slopes))
}

const least = figures.get('bare INCR and PTTL in a script') ?? NaN
const peers = figures.get('rate-limiter-flexible') ?? NaN
console.log('| | server instructions per decision | relative to bare | relative to `rate-limiter-flexible` |\n|---|---:|---:|---:|')
for (const [name, instructions] of figures) {
  console.log(`| ${name} | ${(instructions / 1000).toFixed(1)}k | ${(instructions / least).toFixed(2)} | ${(instructions / peers).toFixed(2)} |`)
}

console.log('\n| callers | at once | server instructions of this store | of `rate-limiter-flexible` | relative |\n|---:|---:|---:|---:|---:|')
for (const [size, atOnce, perSlope] of [[1, 1, 2_000], [1, 64, 2_000], [10_000, 1, 4_000], [10_000, 64, 4_000], [100_000, 1, 20_000]] as const) {
  const some = Array.from({ length: size }, (_, number) => String(callerKey(localAuthentication(`caller ${number}`))))
  const [own, peers] = [await instructionsOf(decideAll(together, some, atOnce), perSlope), await instructionsOf(decideAll(peer, some, atOnce), perSlope)]
  console.log(`| ${size.toLocaleString('en')} | ${atOnce} | ${(own / 1000).toFixed(1)}k | ${(peers / 1000).toFixed(1)}k | ${(own / peers).toFixed(2)} |`)
}

console.log('\n| script at the full cap, for a new caller | server instructions |\n|---|---:|')
console.log(`| removes a page of dead rows | ${await pageInstructions(150_000)} |`)
console.log(`| scans a page without dead rows | ${await pageInstructions(85_500)} |`)

/** Returns what takes decisions of callers in turn, of whom each already has a counter, so that all decisions are alike. */
function decideAll (create: (client: Redis) => Promise<Decide>, callers: readonly string[], atOnce: number): (client: Redis, decisions: number) => Promise<void> {
  return async (client, decisions) => {
    const decide = await create(client)
    for (let first = 0; first < callers.length; first += 500) await Promise.all(callers.slice(first, first + 500).map(decide))
    for (let done = 0; done < decisions; done += atOnce) {
      await Promise.all(Array.from({ length: Math.min(atOnce, decisions - done) }, (_, turn) => decide(callers[(done + turn) % callers.length] ?? '')))
    }
  }
}

/** Returns the instructions of one page, of a check of all rows. */
async function pageInstructions (silence: number): Promise<string> {
  const callers = Array.from({ length: 5_000 }, (_, number) => String(callerKey(localAuthentication(`caller ${number}`))))
  let scripts = 0
  const run = (newCallers: readonly string[]) => async (client: Redis): Promise<void> => {
    let now = 0
    const store = new RedisQuotaStore({ client: counting(client, () => { scripts += 1 }), clock: () => now, maxTrackedCallers: callers.length, rememberRefusals: false })
    const touch = (some: readonly string[]) => Promise.all(some.map((caller) => store.acquire(caller, limit)))
    for (const [pass, some] of [[0, callers], [35_000, callers.slice(0, 1)], [900, callers.slice(1)], [34_100, callers.slice(0, 1)]] as const) {
      now += pass
      await touch(some)
    }
    now += silence
    scripts = 0
    await touch(newCallers)
  }
  const before = await instructionsDuring(run([]))
  const after = await instructionsDuring(run(['a new caller']))
  return `${((after - before) / scripts / 1e6).toFixed(1)}M`
}

async function bare (client: Redis): Promise<Decide> {
  const digest = String(await client.script('LOAD', `
    local count = redis.call('INCR', KEYS[1])
    if count == 1 then redis.call('PEXPIRE', KEYS[1], 60000) end
    return {count, redis.call('PTTL', KEYS[1])}`))
  return (caller) => client.evalsha(digest, 1, `bare:${caller}`)
}

async function peer (client: Redis): Promise<Decide> {
  const limiter = new RateLimiterRedis({ storeClient: client, points: limit, duration: 3_600 })
  return (caller) => limiter.consume(caller)
}

async function together (client: Redis): Promise<Decide> {
  const store = new RedisQuotaStore({ client, rememberRefusals: false, maxTrackedCallers: 100_000 })
  return (caller) => store.acquire(caller, limit)
}

// A request with a quota of requests, one of tokens and one of requests in flight takes a place and asks for tokens, then counts, charges its tokens
// and gives the place back.
async function severalQuotas (client: Redis): Promise<Decide> {
  const store = new RedisQuotaStore({ client, rememberRefusals: false })
  const [tokens, streams] = [store.quota('tokens', 60_000), store.quota('streams', 60_000)]
  let requests = 0
  return async (caller) => {
    const [{ leave }] = await Promise.all([streams.enter(caller, limit), tokens.acquire(caller, limit, 0)])
    await store.acquire(caller, limit)
    await tokens.acquire(caller, Number.MAX_SAFE_INTEGER, requests++ % 1_000)
    await leave?.()
  }
}

// Uses one store for each concurrent decision, all with the same counters, so that decisions do not share a script.
async function apart (client: Redis): Promise<Decide> {
  const shared = counting(client, () => {})
  const stores = Array.from({ length: 64 }, () => new RedisQuotaStore({ client: shared, rememberRefusals: false }))
  for (const store of stores) await store.acquire(callers[0] ?? '', limit)
  let turn = 0
  return (caller) => stores[turn++ % stores.length]?.acquire(caller, limit)
}

function counting (client: Redis, sent: () => void): QuotaRedisClient {
  return {
    evaluateDigest (digest, key, parameters) {
      sent()
      return client.evalsha(digest, 1, key, ...parameters)
    },
    evaluateSource (source, key, parameters) {
      sent()
      return client.eval(source, 1, key, ...parameters)
    },
    removeKey: (key) => client.unlink(key)
  }
}
