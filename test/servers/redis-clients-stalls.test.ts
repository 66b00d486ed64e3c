// With the options that docs/scaling.md recommends for each client, an insured store does not treat a stalled event loop as a failure.
import { setImmediate as turn } from 'node:timers/promises'
import { Redis } from 'ioredis'
import t from 'tap'
import { InsuredQuotaStore } from '../../lib/index.js'
import { RedisQuotaStore } from '../../lib/redis.js'
import { quiet, singleClients, type Connect } from '../support/redis-clients.js'
import { RedisServer } from '../support/redis-server.js'

const server = await RedisServer.start()
t.teardown(() => server.stop())

/** Sends a request, stalls the event loop before the reply can be read, and returns which store answered. */
async function stateAfterStall (connect: Connect, milliseconds: number, keyPrefix: string): Promise<string> {
  const { client, close } = await connect([server.port])
  try {
    const primary = new RedisQuotaStore({ client, keyPrefix })
    // Connects and loads the script without a limit of time, which a busy machine could exceed.
    await primary.acquire('a', 100)
    const store = new InsuredQuotaStore({ primary })
    const asked = store.acquire('a', 100)
    await turn()
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, milliseconds)
    await asked
    return store.state
  } finally {
    await close()
  }
}

for (const name of ['ioredis', 'iovalkey, a key prefix, automatic pipelining', 'redis, pings and a socketTimeout', 'redis, pool', 'valkey-glide']) {
  t.test(`a reply that arrives during a stall of 700 ms is used by ${name} with the recommended options`, async (t) => {
    const connect: Connect = (ports) => singleClients[name]?.(ports) ?? Promise.reject(new Error(name))
    t.equal(await stateAfterStall(connect, 700, `${name}:`), 'primary')
  })
}

t.test('ioredis drops the reply if commandTimeout is shorter than the stall, and the fallback is used', async (t) => {
  const connect: Connect = async ([port]) => quiet(new Redis({ port, maxRetriesPerRequest: 0, commandTimeout: 500 }))
  t.equal(await stateAfterStall(connect, 700, 'commandTimeout:'), 'fallback')
})
