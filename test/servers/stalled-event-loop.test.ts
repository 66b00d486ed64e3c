// A stalled event loop is no failure of the server. After a stall of more than the timeout, the
// timer once ran before the answer in the socket was read, so a caller that could stall the process
// also got the fallback's limit.
import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { InsuredQuotaStore } from '../../lib/index.js'
import { RedisQuotaStore } from '../../lib/redis.js'
import { FaultyProxy } from '../../chaos/faulty-proxy.js'
import { demand } from '../support/demands.js'
import { matchExactly } from '../support/match-exactly.js'
import { RedisServer } from '../support/redis-server.js'

const demands = [demand('a', { limit: 100 })]

/** Blocks the event loop. */
function stall (ms = 150): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
}

const server = await RedisServer.start()
t.teardown(() => server.stop())

const stalls: Record<string, () => Promise<void>> = {
  'one stall': async () => {
    stall()
  },
  'a stall before the answer can be read and one after each turn': async () => {
    for (let stalls = 0; stalls < 5; stalls++) {
      stall()
      await turn()
    }
  },
  'short stalls that together are longer than the timeout': async () => {
    for (let stalls = 0; stalls < 6; stalls++) {
      stall(30)
      await turn()
    }
  }
}

for (const [name, happen] of Object.entries(stalls)) {
  t.test(
    `an answer that arrives while the event loop is stalled is used, with ${name}`,
    async (t) => {
      // The proxy is stalled as well: the reply takes more than one turn to arrive.
      const proxy = await FaultyProxy.start(server.port)
      t.teardown(() => proxy.stop())
      for (const port of [server.port, proxy.port]) {
        const client = server.client({ port })
        const store = new InsuredQuotaStore({
          primary: new RedisQuotaStore({ client, keyPrefix: `${name} ${port}:` })
        })
        await client.ping()
        matchExactly(t, await store.acquire(demands), [{ count: 1 }])
        const asked = Array.from({ length: 20 }, async () => store.acquire(demands))
        await happen()
        t.equal(
          new Set((await Promise.all(asked)).map(([acquisition]) => acquisition?.count)).size,
          20
        )
        t.equal(store.state, 'primary')
        matchExactly(t, await store.acquire(demands), [{ count: 22 }])
        client.disconnect()
      }
    }
  )
}
