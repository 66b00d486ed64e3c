import t from 'tap'
import { RedisQuotaStore } from '../../lib/redis.js'

// The store's commands are answered by a client of the host, which could be faulty.
function storeThatReads (reply: unknown): RedisQuotaStore {
  return new RedisQuotaStore({ client: { evaluateDigest: async () => reply, evaluateSource: async () => reply, removeKey: async () => 0 } })
}

const unexpected = { name: 'TypeError', message: /unexpected reply of the server/ }

for (const reply of ['x1 2 0', '1 2 0x', '1 2', '1 2 3 4', '', '1 0 1', '1.5 2 1', '9007199254740993 2 1', null]) {
  t.test(`acquire and peek reject the reply ${JSON.stringify(reply)}`, async (t) => {
    await t.rejects(async () => storeThatReads(reply).acquire('alice', 1), unexpected)
    await t.rejects(storeThatReads(reply).peek('alice'), unexpected)
  })
}

for (const reply of ['x1 2', '1 2x', '1', '1 2 3', null]) {
  t.test(`inspect rejects the reply ${JSON.stringify(reply)}`, async (t) => {
    await t.rejects(storeThatReads(reply).inspect(), unexpected)
  })
}

for (const reply of [['x'], [0], [null], 'OK']) {
  t.test(`enter rejects the reply ${JSON.stringify(reply)}`, async (t) => {
    await t.rejects(storeThatReads(reply).enter('alice', 1), unexpected)
  })
}

t.test('the shortest time left is read', async (t) => {
  t.same(await storeThatReads((2 ** 27 + 1) * 8).acquire('alice', 1), { admitted: false, count: 1, windowRemaining: 1, overflow: false })
  t.same(await storeThatReads('1 0.001 1').acquire('alice', 1), { admitted: true, count: 1, windowRemaining: 0.001, overflow: false })
})
