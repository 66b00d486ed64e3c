// After the event loop was blocked for longer than the timeout, the timer ran before the answer in the socket was read, so a caller that
// could stall the process also got the fallback's limit.
import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { InsuredQuotaStore } from '../../lib/index.js'
import { RedisQuotaStore } from '../../lib/redis.js'
import { CuttingProxy } from '../support/cutting-proxy.js'
import { RedisServer } from '../support/redis-server.js'

const timeout = 100

/** Blocks the event loop. */
function stall (ms = 150): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
}

const server = await RedisServer.start()
t.teardown(() => server.stop())

const stalls: Record<string, () => Promise<void>> = {
  'one stall': async () => { stall() },
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
  },
  'a stall in a microtask': async () => {
    await Promise.resolve()
    stall()
  },
  'a stall at the end of the turn': async () => {
    await turn()
    stall()
  }
}

for (const [name, happen] of Object.entries(stalls)) {
  t.test(`an answer that arrives while the event loop is stalled is used, with ${name}`, async (t) => {
    for (const port of [server.port, 'proxied'] as const) {
      // The proxy is stalled as well: the reply takes more than one turn to arrive.
      const proxy = port === 'proxied' ? await CuttingProxy.start(server.port) : undefined
      const client = server.client({ port: proxy?.port ?? server.port })
      const store = new InsuredQuotaStore({ primary: new RedisQuotaStore({ client, keyPrefix: `${name} ${port}:` }), timeout })
      await client.ping()
      t.match(await store.acquire('a', 100), { count: 1 })
      const asked = Array.from({ length: 20 }, async () => store.acquire('a', 100))
      await happen()
      t.equal(new Set((await Promise.all(asked)).map(({ count }) => count)).size, 20)
      t.equal(store.state, 'primary')
      t.match(await store.acquire('a', 100), { count: 22 })
      client.disconnect()
      await proxy?.stop()
    }
  })
}
