// Connections and servers that fail, with each client: nothing is counted twice, and the client
// recovers by itself.
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { FaultyProxy } from '../../chaos/faulty-proxy.js'
import type { QuotaStore } from '../../lib/index.js'
import { RedisQuotaStore } from '../../lib/redis.js'
import { acquireOne, demand } from '../support/demands.js'
import { singleClients } from '../support/redis-clients.js'
import { startRedis } from '../support/redis-server.js'

const { server, client: direct } = await startRedis(t)
const proxy = await FaultyProxy.start(server.port)
t.teardown(() => proxy.stop())

/** Waits until a client has reconnected, which takes a different time with each client. */
async function recovered (store: QuotaStore): Promise<void> {
  for (let attempt = 0; attempt < 1_000; attempt++) {
    if ((await acquireOne(store, 'another').catch(() => wait(20))) !== undefined) return
  }
  throw new Error('the client did not recover')
}

for (const [name, connect] of Object.entries(singleClients)) {
  if (/key prefix|wrapper/.test(name)) continue
  t.test(
    `a decision of ${name} whose reply is cut off is counted once, and its promise rejects`,
    async (t) => {
      const options = { keyPrefix: `${name}, cut:`, rememberRejections: false }
      const { client, close } = await connect([proxy.port])
      t.teardown(close)
      const store = new RedisQuotaStore({ client, ...options })
      await acquireOne(store, 'another')
      proxy.cut(1, /\r\nEVAL/i)
      await t.rejects(acquireOne(store, 'alice'))
      proxy.cut(0)
      await recovered(store)
      t.match(await new RedisQuotaStore({ client: direct, ...options }).peek(demand('alice')), {
        count: 1
      })
    }
  )
  t.test(
    `decisions of ${name} fail while the server is not running, and succeed after it has restarted`,
    async (t) => {
      const options = { keyPrefix: `${name}, restarted:`, rememberRejections: false }
      const { client, close } = await connect([server.port])
      const store = new RedisQuotaStore({ client, ...options })
      await acquireOne(store, 'alice')
      await server.kill()
      await t.rejects(acquireOne(store, 'alice'))
      await server.start()
      await recovered(store)
      t.match(await acquireOne(store, 'alice'), { admitted: true, count: 1 })
      await close()
      await t.rejects(
        acquireOne(store, 'alice'),
        'a decision fails after the host has closed the client'
      )
      const observer = new RedisQuotaStore({ client: direct, ...options })
      await recovered(observer)
      t.match(await observer.peek(demand('alice')), { count: 1 })
    }
  )
}
