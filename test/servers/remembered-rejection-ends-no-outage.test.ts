// While the server was down, a caller at its limit made an insured store switch to its primary and back in every cool-down, because a
// remembered rejection of the primary was treated as an answer of the server.
import { channel } from 'node:diagnostics_channel'
import t from 'tap'
import { InsuredQuotaStore, type InsuredQuotaStoreState } from '../../lib/index.js'
import { RedisQuotaStore } from '../../lib/redis.js'
import { startRedis } from '../support/redis-server.js'

t.test('a rejection that the primary remembers does not end an outage', async (t) => {
  const { server, client } = await startRedis(t)
  const states: InsuredQuotaStoreState[] = []
  const note = (message: unknown): void => { states.push(Object(message).state) }
  channel('fastify-llm-quota:insured-store').subscribe(note)
  t.teardown(() => channel('fastify-llm-quota:insured-store').unsubscribe(note))

  // The cool-down ends as soon as it begins.
  const store = new InsuredQuotaStore({ primary: new RedisQuotaStore({ client }), timeout: 2_000, coolDown: Number.MIN_VALUE })
  await store.acquire('flooding', 1)
  t.match(await store.acquire('flooding', 1), { admitted: false })
  await server.kill()
  t.match(await store.acquire('other', 5), { admitted: true })
  t.same(states, ['fallback'])
  for (let round = 0; round < 20; round++) {
    t.match(await store.acquire('flooding', 1), { admitted: false }, 'rejected from memory')
    await store.acquire('other', 5)
  }
  t.same(states, ['fallback'], 'the outage is one change of state')
  t.equal(store.state, 'fallback')

  await server.start()
  for (let attempt = 0; attempt < 10_000 && store.state === 'fallback'; attempt++) await store.acquire('third', 5)
  t.same(states, ['fallback', 'primary'], 'an answer of the server ends it')
})
