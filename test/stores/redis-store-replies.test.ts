// The replies of the server to the store's scripts. A host's own client could return anything.
import t from 'tap'
import { RedisQuotaStore } from '../../lib/redis.js'
import { acquireOne } from '../support/acquire-one.js'
import { demand } from '../support/told-store.js'

function storeThatReads (reply: unknown): RedisQuotaStore {
  return new RedisQuotaStore({ client: { evaluateDigest: async () => reply, evaluateSource: async () => reply } })
}

const calls: Record<string, (store: RedisQuotaStore) => Promise<unknown>> = {
  acquire: (store) => acquireOne(store, 'alice'),
  peek: (store) => store.peek(demand('alice')),
  inspect: (store) => store.inspect('default'),
  list: (store) => store.list('default')
}
const unreadable = [null, 'OK', '', [1], ['x', 2, 3], [1, 2.5, 3], [1, null, 3], ['', 2, 3], [2 ** 53, 2, 3]]
const invalid: Record<string, unknown[]> = {
  acquire: [...unreadable, 5, [], [1, 2, 3, 4]], peek: unreadable, inspect: [...unreadable.slice(0, 5), 5, []], list: [null, 'OK', [], ['x'], ['0', 'alice'], ['0', 'alice', 1, 'x']]
}

for (const [name, replies] of Object.entries(invalid)) {
  for (const reply of replies) {
    t.test(`${name} rejects the reply ${JSON.stringify(reply)}`, async (t) => {
      await t.rejects(async () => calls[name]?.(storeThatReads(reply)), { name: 'TypeError', message: /unexpected reply of the server/ })
    })
  }
}

t.test('integers are accepted in every form that clients return', async (t) => {
  const forms: ((value: number) => unknown)[] = [Number, String, BigInt, (value) => Buffer.from(String(value))]
  for (const form of forms) {
    t.match(await acquireOne(storeThatReads([1, 60_000, 7].map((value) => form(value))), 'alice'), { admitted: true, count: 1, windowRemaining: 60_000, overflow: true })
    t.match(await acquireOne(storeThatReads([4, 1, 4].map((value) => form(value))), 'alice'), { admitted: false, count: 4, windowRemaining: 1, overflow: false })
  }
})
