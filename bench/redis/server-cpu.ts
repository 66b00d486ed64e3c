// Compares the server CPU of a decision, and of a request with three quotas, with that of a peer's decision. They take turns, and the figures
// are ratios, so that other load on the machine affects all.
import { callerKey, localAuthentication } from 'fastify-llm-quota'
import { RedisQuotaStore } from 'fastify-llm-quota/redis'
import { RateLimiterRedis } from 'rate-limiter-flexible'
import { Random } from '../../test/support/random.js'
import { RedisServer } from '../../test/support/redis-server.js'
import { median } from '../statistics.js'

const rounds = 25
const perRound = 3_200
const limit = 1_000_000_000
const random = new Random(1)

type Decide = (caller: string) => Promise<unknown>

const isQuick = process.argv.includes('--quick')
console.log('\n| callers | at once | server CPU relative to a decision of `rate-limiter-flexible`: median, least and most of the rounds |\n|---:|---:|---:|')
for (const [callers, atOnce] of [[1, 1], [10_000, 1], ...(isQuick ? [] : [[1_000_000, 1] as const]), [1, 64], [10_000, 64]] as const) {
  await compare(callers, atOnce, `${callers.toLocaleString('en')} | ${atOnce}`, (store) => async (caller) => store.acquire(caller, limit))
}
await compare(500, 64, '500, a request with three quotas | 64', (store) => {
  const [tokens, streams] = [store.quota('tokens', 60_000), store.quota('streams', 60_000)]
  return async (caller) => {
    const [{ leave }] = await Promise.all([streams.enter(caller, limit), tokens.acquire(caller, limit, 0)])
    await store.acquire(caller, limit)
    await tokens.acquire(caller, Number.MAX_SAFE_INTEGER, random.integer(0, 999))
    await leave?.()
  }
})

async function compare (size: number, atOnce: number, name: string, create: (store: RedisQuotaStore) => Decide): Promise<void> {
  const callers = Array.from({ length: size }, (_, number) => String(callerKey(localAuthentication(`caller ${number}`))))
  const server = await RedisServer.start()
  const client = server.client()
  const own = create(new RedisQuotaStore({ client, rememberRefusals: false, maxTrackedCallers: size }))
  const peer = new RateLimiterRedis({ storeClient: client, points: limit, duration: 3_600 })
  const others: Decide = (caller) => peer.consume(caller)
  for (const decide of [own, others]) {
    for (let first = 0; first < size; first += 1_000) await Promise.all(callers.slice(first, first + 1_000).map(decide))
  }
  const cpu = async (): Promise<number> => {
    const information = await client.info('cpu')
    return Number(/used_cpu_user:([\d.]+)/.exec(information)?.[1]) + Number(/used_cpu_sys:([\d.]+)/.exec(information)?.[1])
  }
  const costOf = async (decide: Decide): Promise<number> => {
    const before = await cpu()
    for (let done = 0; done < perRound; done += atOnce) {
      await Promise.all(Array.from({ length: atOnce }, () => decide(random.pick(callers))))
    }
    return await cpu() - before
  }
  const ratios: number[] = []
  for (let round = 0; round < rounds; round++) {
    const ownCost = await costOf(own)
    ratios.push(ownCost / await costOf(others))
  }
  console.log(`| ${name} | ${[median(ratios), Math.min(...ratios), Math.max(...ratios)].map((ratio) => ratio.toFixed(2)).join(', ')} |`)
  client.disconnect()
  await server.stop()
}
