// npm run bench [-- --quick]: measures times of the quota and its peers, and writes the second part of docs/benchmarks.md and its plots.
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { fileURLToPath } from 'node:url'
import { RedisServer } from '../test/support/redis-server.js'
import { ServerProcess, type Round, type Situation } from './http/measure.js'
import { writeReport, type Results } from './report.js'
import { versionsOf } from './versions.js'

const quick = process.argv.includes('--quick')
const [generations, roundsOfEach, seconds] = quick ? [1, 3, 1] : [3, 3, 1]
const all = ['bare', 'bare again', 'floor', 'fastify-llm-quota', '@fastify/rate-limit', 'rate-limiter-flexible']
const high = 1_000_000_000

const scenarios: { name: string, situation: Situation, path?: string, callers?: number, servers?: string[] }[] = [
  { name: 'admitted', situation: { limit: high } },
  { name: 'rejected', situation: { limit: 1 } },
  { name: 'unprotected route', situation: { limit: high }, path: '/api/other' },
  { name: '10,000 callers at random', situation: { limit: high }, callers: 10_000 },
  { name: 'at the cap, with overflow', situation: { limit: high }, callers: 20_000 },
  { name: 'with an HS256 token verified', situation: { limit: high, tokens: true } },
  { name: 'asynchronous preference reader', situation: { limit: high, asynchronousPreference: true }, servers: ['bare', 'bare again', 'fastify-llm-quota', '@fastify/rate-limit'] },
  { name: 'decisions subscribed', situation: { limit: high, decisionsSubscribed: true }, servers: ['bare', 'bare again', 'floor', 'fastify-llm-quota'] }
]

const results: Results = {
  date: new Date().toISOString().slice(0, 10),
  machine: `${cpus().length} cores, ${cpus()[0]?.model.trim()}`,
  versions: versionsOf(['fastify', '@fastify/rate-limit', 'rate-limiter-flexible', 'ioredis', 'autocannon', 'mitata']),
  rounds: generations * roundsOfEach,
  generations,
  seconds,
  memory: {},
  shared: {},
  functions: program('functions/figures.js'),
  growth: program('growth.js', '--expose-gc', '--single-threaded-gc')
}

const measured = quick ? scenarios.slice(0, 3) : scenarios
for (const { name, situation, path = '/api/analyze-node', callers = 1, servers = all } of measured) {
  console.log(`memory store: ${name}`)
  results.memory[name] = await compare(servers, situation, (server) => server.round(path, callers, seconds))
}

for (const autoPipelining of quick ? [false] : [false, true]) {
  for (const [name, limit] of [['admitted', high], ['rejected', 1]] as const) {
    const title = `${name}, ${autoPipelining ? 'with' : 'without'} auto-pipelining`
    console.log(`shared store: ${title}`)
    const redis = await RedisServer.start()
    const client = redis.client()
    const serverCpu = async () => {
      const information = await client.info('cpu')
      return 1e6 * (Number(/used_cpu_user:([\d.]+)/.exec(information)?.[1]) + Number(/used_cpu_sys:([\d.]+)/.exec(information)?.[1]))
    }
    results.shared[title] = await compare(all.filter((server) => server !== 'floor'), { limit, redisPort: redis.port, autoPipelining }, async (server) => {
      const before = await serverCpu()
      const round = await server.round('/api/analyze-node', name === 'rejected' ? 1 : 100, seconds)
      return { ...round, serverCpu: (await serverCpu() - before) / round.requests }
    })
    client.disconnect()
    await redis.stop()
  }
}

writeFileSync('build/bench/results.json', JSON.stringify(results, undefined, 1))
if (!quick) writeReport(results)
console.log(quick ? 'Done: build/bench/results.json' : 'Done: docs/benchmarks.md')

// The servers take turns in each round, in a different order, so that other load on the machine affects them equally. They are restarted
// after a few rounds, because V8 can compile the same program differently in each process.
async function compare<Figures extends Round> (names: readonly string[], situation: Situation, measure: (server: ServerProcess) => Promise<Figures>): Promise<Record<string, Figures[]>> {
  const figures: Record<string, Figures[]> = Object.fromEntries(names.map((name) => [name, []]))
  for (let generation = 0; generation < generations; generation++) {
    const servers = await Promise.all(names.map(async (name) => ({ name, server: await ServerProcess.start(name, situation) })))
    for (const { server } of servers) await server.round('/api/analyze-node', 1, quick ? 0.5 : 1.5)
    for (let round = 0; round < roundsOfEach; round++) {
      const turn = (generation + round) % servers.length
      for (const { name, server } of [...servers.slice(turn), ...servers.slice(0, turn)]) figures[name]?.push(await measure(server))
    }
    await Promise.all(servers.map(({ server }) => server.stop()))
  }
  return figures
}

function program (name: string, ...options: string[]): never {
  console.log(name)
  return JSON.parse(execFileSync(process.execPath, [...options, fileURLToPath(new URL(name, import.meta.url)), ...(quick ? ['--quick'] : [])], { encoding: 'utf8', maxBuffer: 2 ** 26 })) as never
}
