// The shards of a store on servers.
import t from 'tap'
import { SharedStore } from '../../lib/store/shared/shared-store.js'
import { DriverServer } from '../support/driver-server.js'

const createStore = (shards: number) =>
  new SharedStore({}, shards, () => new DriverServer(() => 0))

t.test('all shards have callers, and about as many, whatever the keys look like', async (t) => {
  const digits = '0123456789abcdef'
  const keys: Record<string, (index: number) => string> = {
    numbers: (index) => String(index),
    'short names': (index) => `user:${index}`,
    digests: (index) =>
      Array.from({ length: 64 }, (_, position) =>
        digits.charAt(Math.floor(Math.abs(Math.sin(index * 64 + position)) * 1e6) % 16)
      ).join('')
  }
  for (const [kind, keyOf] of Object.entries(keys)) {
    for (const shards of [2, 16, 100, 1_000]) {
      const store = createStore(shards)
      const callers = new Array<number>(shards).fill(0)
      for (let index = 0; index < shards * 100; index++) {
        const shard = store.shardOf(keyOf(index))
        callers[shard] = (callers[shard] ?? 0) + 1
      }
      t.ok(Math.min(...callers) >= 40, `of ${shards}, the smallest has enough ${kind}`)
      t.ok(Math.max(...callers) <= 160, `of ${shards}, the largest has not too many ${kind}`)
    }
  }
})

t.test('the shard of a caller is the same in every process', async (t) => {
  const callers = ['alice', 'bob', 'zo\u00eb', '']
  const shards = callers.map((caller) => createStore(16).shardOf(caller))
  t.same(shards, [7, 4, 7, 5])
})
