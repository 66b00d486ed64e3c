// Measures a million callers at the cap of 16 shards on a real cluster of three masters. The store has a virtual clock.
import { callerKey, localAuthentication } from 'fastify-llm-quota'
import { RedisQuotaStore } from 'fastify-llm-quota/redis'
import { Cluster, type Redis } from 'ioredis'
import { startCluster } from '../../test/support/redis-server.js'

const callers = 1_000_000
const shards = 16
const newCallers = 200
const atOnce = 2_000
const limit = 1_000_000

const servers = await startCluster({ replicas: 0 })
const nodes = servers.map((server) => server.client())
for (const node of nodes) {
  await node.config('SET', 'slowlog-log-slower-than', '0')
  await node.config('SET', 'slowlog-max-len', '20000')
}
const cluster = new Cluster(servers.map(({ port }) => ({ host: '127.0.0.1', port })))
let now = 1_000_000
const store = new RedisQuotaStore({ client: cluster, shards, maxTrackedCallers: callers, rememberRefusals: false, clock: () => now })
const tracked: string[] = []

console.log(`\n${callers.toLocaleString('en')} callers on ${shards} shards of three masters\n`)
console.log('| step | decisions | time, s | server CPU per decision, µs | longest script, ms |\n|---|---:|---:|---:|---:|')
await step('new callers until every shard has its share of the cap', fill)
now += 60_000
await step('every tracked caller again, with a sweep', touchAll)
const { trackedCallers } = await store.inspect()
const memory = await Promise.all(nodes.map(async (node) => Number(/used_memory:(\d+)/.exec(await node.info('memory'))?.[1])))
const keys = await Promise.all(nodes.map((node) => node.dbsize()))

now += 60_000
console.log(`\nTracked callers: ${trackedCallers.toLocaleString('en')}. Memory of the servers: ${Math.round(memory.reduce((sum, bytes) => sum + bytes, 0) / callers)} bytes per caller; shards on each: ${keys.join(', ')}.`)
console.log(`\nA new caller at the full cap, ${newCallers} in sequence, the first ones right after a sweep:\n`)
console.log('| callers | counted on the overflow counter | latency, ms: median, longest | longest script, ms |\n|---|---:|---:|---:|')
await newcomers('all stayed')
now += 120_000
await newcomers('all left')
cluster.disconnect()
for (const node of nodes) node.disconnect()
await Promise.all(servers.map((server) => server.stop()))

function keyOf (number: number): string {
  return String(callerKey(localAuthentication(`caller ${number}`)))
}

// The shards do not get exactly the same number of callers, so a few more callers are needed to fill all of them.
async function fill (): Promise<number> {
  const some = 1.02 * callers
  for (let first = 0; first < some; first += atOnce) {
    const keys = Array.from({ length: atOnce }, (_, number) => keyOf(first + number))
    const answers = await Promise.all(keys.map((key) => store.acquire(key, limit)))
    tracked.push(...keys.filter((_, index) => answers[index]?.overflow === false))
  }
  return some
}

async function touchAll (): Promise<number> {
  for (let first = 0; first < tracked.length; first += atOnce) {
    await Promise.all(tracked.slice(first, first + atOnce).map((key) => store.acquire(key, limit)))
  }
  return tracked.length
}

async function step (name: string, run: () => Promise<number>): Promise<void> {
  const before = await cpu()
  await longestScript()
  const started = performance.now()
  const decisions = await run()
  const seconds = (performance.now() - started) / 1000
  console.log(`| ${name} | ${decisions.toLocaleString('en')} | ${seconds.toFixed(1)} | ${((await cpu() - before) / decisions).toFixed(1)} | ${(await longestScript()).toFixed(1)} |`)
}

async function newcomers (name: string): Promise<void> {
  await longestScript()
  const times: number[] = []
  let overflows = 0
  for (let number = 0; number < newCallers; number++) {
    const started = performance.now()
    const { overflow } = await store.acquire(String(callerKey(localAuthentication(`new caller ${number}, ${name}`))), limit)
    times.push(performance.now() - started)
    if (overflow) overflows += 1
  }
  times.sort((one, other) => one - other)
  console.log(`| ${name} | ${overflows} of ${newCallers} | ${times[newCallers / 2]?.toFixed(1)}, ${times.at(-1)?.toFixed(1)} | ${(await longestScript()).toFixed(1)} |`)
}

async function cpu (): Promise<number> {
  const each = await Promise.all(nodes.map(async (node) => {
    const information = await node.info('cpu')
    return Number(/used_cpu_user:([\d.]+)/.exec(information)?.[1]) + Number(/used_cpu_sys:([\d.]+)/.exec(information)?.[1])
  }))
  return each.reduce((sum, seconds) => sum + seconds, 0) * 1e6
}

/** Returns the longest script since the last call, in milliseconds, as far as the servers' slow logs reach. */
async function longestScript (): Promise<number> {
  const times = await Promise.all(nodes.map(timesOf))
  return Math.max(0, ...times.flat()) / 1000
}

async function timesOf (node: Redis): Promise<number[]> {
  const entries = await node.slowlog('GET', 20_000)
  await node.slowlog('RESET')
  return (Array.isArray(entries) ? entries : []).filter((entry) => /eval/i.test(String(entry[3]))).map((entry) => Number(entry[2]))
}
