// docs/rules.md: closing waits as long as a store answers, here a real server.
import Fastify from 'fastify'
import t from 'tap'
import quotaPlugin, { localAuthentication } from '../../lib/index.js'
import { RedisQuotaStore } from '../../lib/redis.js'
import { startRedis } from '../support/redis-server.js'

t.test('12,000 open permits are settled, and their places free, when close returns', async (t) => {
  const { client } = await startRedis(t)
  const store = new RedisQuotaStore({ client })
  const app = Fastify()
  await app.register(quotaPlugin, {
    store,
    quotas: {
      tokens: { perDay: { tokens: 1_000_000 }, cost: 100 },
      streams: { concurrent: 1_000 }
    }
  })
  await app.ready()
  const all = ['tokens', 'streams']
  const callers = 100
  const acquire = async (number: number) => {
    const permit = await app.quotaAcquire(localAuthentication(`caller ${number}`), all)
    permit.charge(40).catch(t.threw)
    return permit.refusal
  }
  // One request of each caller at a time, so that none waits for too long on a slow machine.
  for (let round = 0; round < 120; round++) {
    const refusals = await Promise.all(Array.from({ length: callers }, (_, each) => acquire(each)))
    t.ok(refusals.every((refusal) => refusal === null))
  }
  await app.close()

  const counted = await new RedisQuotaStore({ client }).list('tokens.tokens.day')
  t.equal(counted.cursor, null)
  t.same(
    counted.callers.map(({ count, held }) => ({ count, held })),
    Array.from({ length: callers }, () => ({ count: 120 * 40, held: 0 }))
  )
  t.same(await store.list('streams.concurrent'), { callers: [], cursor: null })
})
