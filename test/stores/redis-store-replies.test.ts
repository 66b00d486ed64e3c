// The replies of the server to the store's scripts. A host's own client could return anything.
import t from 'tap'
import { RedisQuotaStore } from '../../lib/redis.js'

function storeThatReads (reply: unknown): RedisQuotaStore {
  return new RedisQuotaStore({ client: { evaluateDigest: async () => reply, evaluateSource: async () => reply, removeKey: async () => 0 } })
}

const calls: Record<string, (store: RedisQuotaStore) => unknown> = {
  acquire: (store) => store.acquire('alice', 1),
  peek: (store) => store.peek('alice'),
  inspect: (store) => store.inspect(),
  enter: (store) => store.enter('alice', 1)
}
const unreadable = [null, 'OK', [1, 2, 3], [1, 2, 3, 'x']]
const unreadableCounts = ['x1 2 0', '1 2 0x', '1 2', '1 2 3 4', '', '1 0 1', '1.5 2 1', '9007199254740993 2 1', null]
const invalid: Record<string, unknown[]> = {
  acquire: [...unreadableCounts, ...unreadable, 0], peek: unreadableCounts, inspect: ['x1 2', '1 2x', '1', '1 2 3', ...unreadable], enter: [['x'], [0], [null], 'OK']
}

for (const [name, replies] of Object.entries(invalid)) {
  for (const reply of replies) {
    t.test(`${name} rejects the reply ${JSON.stringify(reply)}`, async (t) => {
      await t.rejects(async () => calls[name]?.(storeThatReads(reply)), { name: 'TypeError', message: /unexpected reply of the server/ })
    })
  }
}

t.test('acquire accepts replies in every form that clients return', async (t) => {
  const packed = (2 ** 27 + 60_000) * 4 + 3
  for (const reply of [packed, String(packed), BigInt(packed), Buffer.from(String(packed)), '1 60000 3', [packed]]) {
    t.same(await storeThatReads(reply).acquire('alice', 5), { admitted: true, count: 1, windowRemaining: 60_000, overflow: true }, typeof reply)
  }
  t.same(await storeThatReads((2 ** 27 + 1) * 4).acquire('alice', 1), { admitted: false, count: 1, windowRemaining: 1, overflow: false })
  t.same(await storeThatReads('1 0.001 1').acquire('alice', 1), { admitted: true, count: 1, windowRemaining: 0.001, overflow: false })
})
