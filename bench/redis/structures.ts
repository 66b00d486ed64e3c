// Compares ways to keep the counters on a server by what a decision costs it, and what a sweep and a caller cost.
//
// All are asked in turn, round by round, so that a busy machine slows them alike; ratios are taken within a round.
import { createHash } from 'node:crypto'
import { callerKey, localAuthentication } from 'fastify-llm-quota'
import { RedisQuotaStore } from 'fastify-llm-quota/redis'
import type { Redis } from 'ioredis'
import { RedisServer } from '../../test/support/redis-server.js'
import { median } from '../statistics.js'

const callers = 5_000
const tracked = 10_000
const decisionsPerRound = 10_000
const rounds = 15
const batch = 200

interface Structure {
  readonly name: string
  decide (caller: string): Promise<unknown>
}

const prelude = `
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local count, start = 0, now
`
const acquireStep = `
if now - start >= 60000000 then count, start = 0, now end
if count < tonumber(ARGV[2]) then count = count + 1 end
`
const scripts: Record<string, { lua: string, key: (caller: string) => string }> = {
  'bare INCR and PTTL': {
    lua: "local count = redis.call('INCR', KEYS[1]) if count == 1 then redis.call('PEXPIRE', KEYS[1], 60000) end return {count, redis.call('PTTL', KEYS[1])}",
    key: (caller) => `bare:${caller}`
  },
  'one hash, scanned by a sweep': {
    lua: `${prelude}
local found = redis.call('HMGET', KEYS[1], ARGV[1], 'sweep')
if found[1] then count, start = struct.unpack('I4dd', found[1]) end
${acquireStep}
redis.call('HSET', KEYS[1], ARGV[1], struct.pack('I4dd', count, start, now))
return {count, start + 60000000 - now}`,
    key: () => 'hash'
  },
  'a hash, and a sorted set written each time': {
    lua: `${prelude}
local found = redis.call('HMGET', KEYS[1], ARGV[1], 'sweep')
if found[1] then count, start = struct.unpack('I4d', found[1]) end
${acquireStep}
redis.call('HSET', KEYS[1], ARGV[1], struct.pack('I4d', count, start))
redis.call('ZADD', KEYS[1] .. ':order', now, ARGV[1])
return {count, start + 60000000 - now}`,
    key: () => '{sorted}'
  },
  'a key a caller, and a sorted set': {
    lua: `${prelude}
local found = redis.call('GET', KEYS[1])
if found then count, start = struct.unpack('I4d', found) end
${acquireStep}
redis.call('SET', KEYS[1], struct.pack('I4d', count, start), 'PX', 180000)
redis.call('ZADD', '{key}:order', now, ARGV[1])
return {count, start + 60000000 - now}`,
    key: (caller) => `{key}:${caller}`
  }
}

const server = await RedisServer.start()
const client = server.client({ enableAutoPipelining: true })
const keys = Array.from({ length: tracked }, (_, number) => String(callerKey(localAuthentication(`caller ${number}`))))
const store = new RedisQuotaStore({ client, rememberRefusals: false })
const structures: Structure[] = [
  ...await Promise.all(Object.entries(scripts).map(async ([name, script]) => scripted(client, name, script))),
  await asFunction(client),
  { name: 'this store', decide: async (caller) => store.acquire(caller, 1_000_000) }
]

const costs = new Map(structures.map(({ name }) => [name, [] as number[]]))
for (let round = 0; round < rounds; round++) {
  for (const structure of structures) costs.get(structure.name)?.push(await costOfRound(structure))
}

const [bare = []] = costs.values()
const version = /redis_version:(\S+)/.exec(await client.info('server'))?.[1]
console.log(`Redis ${version}, Node ${process.version}; ${rounds} rounds of ${decisionsPerRound} decisions of ${callers} callers, pipelined by ${batch}\n`)
console.log('| structure | server CPU a decision, µs (median) | against bare (median; least to most) |\n|---|---:|---:|')
for (const [name, values] of costs) {
  const ratios = values.map((value, round) => value / (bare[round] ?? NaN)).sort((one, other) => one - other)
  console.log(`| ${name} | ${median(values).toFixed(1)} | ${median(ratios).toFixed(2)} (${ratios[0]?.toFixed(2)} to ${ratios.at(-1)?.toFixed(2)}) |`)
}
await sweeps(client)
client.disconnect()
await server.stop()

async function costOfRound (structure: Structure): Promise<number> {
  const before = await serverCpu(client)
  for (let decision = 0; decision < decisionsPerRound; decision += batch) {
    await Promise.all(Array.from({ length: batch }, () => structure.decide(keys[Math.floor(Math.random() * callers)] ?? '')))
  }
  return (await serverCpu(client) - before) / decisionsPerRound
}

async function scripted (client: Redis, name: string, { lua, key }: { lua: string, key: (caller: string) => string }): Promise<Structure> {
  await client.script('LOAD', lua)
  const digest = createHash('sha1').update(lua).digest('hex')
  return { name, decide: (caller) => client.evalsha(digest, 1, key(caller), Buffer.from(caller, 'hex'), 1_000_000) }
}

async function asFunction (client: Redis): Promise<Structure> {
  const body = scripts['one hash, scanned by a sweep']?.lua.replaceAll('KEYS', 'keys').replaceAll('ARGV', 'arguments')
  await client.call('FUNCTION', 'LOAD', 'REPLACE', `#!lua name=quota\nredis.register_function('acquire', function (keys, arguments) ${body} end)`)
  return { name: 'one hash, by a server function', decide: (caller) => client.call('FCALL', 'acquire', 1, 'function', Buffer.from(caller, 'hex'), 1_000_000) }
}

async function serverCpu (client: Redis): Promise<number> {
  const information = await client.info('cpu')
  const seconds = (name: string) => Number(new RegExp(`${name}:([\\d.]+)`).exec(information)?.[1])
  return (seconds('used_cpu_user') + seconds('used_cpu_sys')) * 1e6
}

// The store on a clock of its own, with as many callers as it tracks, then a sweep while they stay and one when all go.
async function sweeps (client: Redis): Promise<void> {
  const stay: number[] = []
  const go: number[] = []
  for (let round = 0; round < 5; round++) {
    let now = 1_000_000
    const swept = new RedisQuotaStore({ client, keyPrefix: `sweep-${round}:`, clock: () => now })
    await Promise.all(keys.map((key) => swept.acquire(key, 1_000)))
    now += 60_000
    await Promise.all(keys.slice(1).map((key) => swept.acquire(key, 1_000)))
    now += 60_000
    stay.push(await slowest(client, () => swept.acquire(keys[1] ?? '', 1_000)))
    now += 120_000
    go.push(await slowest(client, () => swept.acquire(keys[0] ?? '', 1_000)))
  }
  const bytes = Number(await client.memory('USAGE', 'llm-quota:{0}:counters')) + Number(await client.memory('USAGE', 'llm-quota:{0}:order'))
  console.log(`\nA sweep of ${tracked} callers that stay blocks the server for ${median(stay)} µs, of ${tracked} that all go for ${median(go)} µs (medians of ${go.length}).`)
  console.log(`A tracked caller takes ${Math.round(bytes / callers)} bytes of the server.`)
}

async function slowest (client: Redis, run: () => unknown): Promise<number> {
  await client.config('SET', 'slowlog-log-slower-than', '0')
  await client.slowlog('RESET')
  await run()
  const entries = await client.slowlog('GET', 20)
  await client.config('SET', 'slowlog-log-slower-than', '10000')
  const micros = (Array.isArray(entries) ? entries : []).filter((entry) => /eval/i.test(String(entry[3]))).map((entry) => Number(entry[2]))
  return Math.max(...micros)
}
