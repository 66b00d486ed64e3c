// The commands that docs/shared-server.md lists for the user of the store are enough, for each client.
import { readFileSync } from 'node:fs'
import { GlideClient, Logger } from '@valkey/valkey-glide'
import { Redis } from 'ioredis'
import { Redis as Valkey } from 'iovalkey'
import { createClient } from 'redis'
import t from 'tap'
import { RedisQuotaStore } from '../../lib/redis.js'
import { quiet, type ConnectedClient } from '../support/redis-clients.js'
import { startRedis } from '../support/redis-server.js'

Logger.setLoggerConfig('off')
const { server, client: administrator } = await startRedis(t)
const [, rules = ''] = /ACL SETUSER quota on >password (.*)/.exec(readFileSync('docs/shared-server.md', 'utf8')) ?? []
await administrator.call('ACL', 'SETUSER', 'quota', 'on', '>password', ...rules.split(' '))

const credentials = { username: 'quota', password: 'password' }
const clients: Record<string, () => Promise<ConnectedClient>> = {
  ioredis: async () => quiet(new Redis({ port: server.port, ...credentials, maxRetriesPerRequest: 0 })),
  iovalkey: async () => quiet(new Valkey({ port: server.port, ...credentials, maxRetriesPerRequest: 0 })),
  async redis () {
    const client = createClient({ ...credentials, pingInterval: 10, socket: { port: server.port } })
    client.on('error', () => {})
    await client.connect()
    return { client, close: () => { client.destroy() } }
  },
  async 'valkey-glide' () {
    const client = await GlideClient.createClient({ addresses: [{ host: '127.0.0.1', port: server.port }], credentials })
    return { client, close: () => { client.close() } }
  }
}

for (const [name, connect] of Object.entries(clients)) {
  t.test(`the documented permissions are enough for ${name}`, async (t) => {
    await administrator.flushall()
    await administrator.call('ACL', 'LOG', 'RESET')
    const { client, close } = await connect()
    t.teardown(close)
    const store = new RedisQuotaStore({ client, maxTrackedCallers: 1, rememberRefusals: false })
    for (const caller of ['alice', 'bob']) await store.acquire(caller, 5, 2)
    await store.peek('alice')
    await store.forget('alice')
    await store.inspect()
    const entry = await store.enter('alice', 5)
    await entry.leave?.()
    await store.clearCounters()
    await store.acquire('alice', 5)
    await administrator.hdel('llm-quota:{0}:default:counters', Buffer.from([255]))
    await store.acquire('alice', 5)
    t.same(await administrator.call('ACL', 'LOG'), [])
  })
}
