// docs/rules.md, "Several quotas", in real time on a server: a process that has ended renews its places no more, so they are free when their leases end.
import { setTimeout as pause } from 'node:timers/promises'
import t from 'tap'
import { RedisQuotaStore } from '../../lib/redis.js'
import { startRedis } from '../support/redis-server.js'

t.test('the places of a process that was killed are free within 30 s, and those of another process are not', async (t) => {
  const { server, client } = await startRedis(t)
  const lost = server.client()
  const [killed, running] = [lost, client].map((client) => new RedisQuotaStore({ client }).quota('streams', 60_000))
  t.match(await killed?.enter('alice', 2), { admitted: true, count: 1 })
  t.match(await running?.enter('alice', 2), { admitted: true, count: 2 })
  // The server sees no more of a process that was killed.
  lost.disconnect()
  const started = performance.now()
  while ((await running?.enter('alice', 0))?.count === 2) await pause(100)
  const passed = performance.now() - started
  t.ok(passed > 20_000 && passed < 31_000, `${Math.round(passed)} ms`)
  t.match(await running?.enter('alice', 2), { admitted: true, count: 2 })
})
