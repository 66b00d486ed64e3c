import t from 'tap'
import { RedisQuotaStore } from '../../lib/redis.js'

// The store's commands are answered by a client of the host, which could be faulty.
function storeThatReads (reply: unknown): RedisQuotaStore {
  return new RedisQuotaStore({ client: { evaluateDigest: async () => reply, evaluateSource: async () => reply, removeKey: async () => 0 } })
}

const unexpected = { name: 'TypeError', message: /unexpected reply of the server/ }

for (const reply of ['x1 2 0 1', '1 2 0 1x', '1 2 3 1', 'xnext 5', 'next 5x', 'next', '', 3, '3', -2]) {
  t.test(`acquire and peek reject the reply ${JSON.stringify(reply)}`, async (t) => {
    await t.rejects(async () => storeThatReads(reply).acquire('alice', 1), unexpected)
    await t.rejects(storeThatReads(reply).peek('alice'), unexpected)
  })
}

for (const reply of ['x1 2 0', '1 2 0x', '1 2', 1]) {
  t.test(`inspect rejects the reply ${JSON.stringify(reply)}`, async (t) => {
    await t.rejects(storeThatReads(reply).inspect(), unexpected)
  })
}

t.test('the shortest time left is one microsecond', async (t) => {
  t.same(await storeThatReads(2 ** 28 + 4).acquire('alice', 1), { admitted: false, count: 1, windowRemaining: 0.001, overflow: false })
  t.same(await storeThatReads('1 1 0 1').acquire('alice', 1), { admitted: true, count: 1, windowRemaining: 0.001, overflow: false })
})
