// Compares the server CPU of one decision at a time with that of a peer, for one caller and for many. The two take turns, and the figures are
// ratios, so that other load on the machine affects both.
import { callerKey, localAuthentication } from 'fastify-llm-quota'
import { RedisQuotaStore } from 'fastify-llm-quota/redis'
import { RateLimiterRedis } from 'rate-limiter-flexible'
import { RedisServer } from '../../test/support/redis-server.js'
import { median } from '../statistics.js'

const rounds = 9
const perRound = 3_000
const limit = 1_000_000_000
const sizes = process.argv.includes('--quick') ? [1, 10_000] : [1, 10_000, 1_000_000]

console.log('\n| callers | server CPU per decision, relative to `rate-limiter-flexible`: median, least and most of the rounds |\n|---:|---:|')
for (const size of sizes) {
  const ratios = await ratiosOf(Array.from({ length: size }, (_, number) => String(callerKey(localAuthentication(`caller ${number}`)))))
  console.log(`| ${size.toLocaleString('en')} | ${[median(ratios), Math.min(...ratios), Math.max(...ratios)].map((ratio) => ratio.toFixed(2)).join(', ')} |`)
}

async function ratiosOf (callers: readonly string[]): Promise<number[]> {
  const server = await RedisServer.start()
  const client = server.client()
  const store = new RedisQuotaStore({ client, rememberRefusals: false, maxTrackedCallers: callers.length })
  const peer = new RateLimiterRedis({ storeClient: client, points: limit, duration: 3_600 })
  const own = async (caller: string): Promise<unknown> => store.acquire(caller, limit)
  const others = (caller: string): Promise<unknown> => peer.consume(caller)
  for (const decide of [own, others]) {
    for (let first = 0; first < callers.length; first += 1_000) await Promise.all(callers.slice(first, first + 1_000).map(decide))
  }
  const cpu = async (): Promise<number> => {
    const information = await client.info('cpu')
    return Number(/used_cpu_user:([\d.]+)/.exec(information)?.[1]) + Number(/used_cpu_sys:([\d.]+)/.exec(information)?.[1])
  }
  const costOf = async (decide: (caller: string) => Promise<unknown>): Promise<number> => {
    const before = await cpu()
    for (let done = 0; done < perRound; done++) await decide(callers[Math.floor(Math.random() * callers.length)] ?? '')
    return await cpu() - before
  }
  const ratios: number[] = []
  for (let round = 0; round < rounds; round++) {
    const ownCost = await costOf(own)
    ratios.push(ownCost / await costOf(others))
  }
  client.disconnect()
  await server.stop()
  return ratios
}
