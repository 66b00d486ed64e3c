// Errors about options contained connection strings that are not URLs, and the values of options that do not exist, such as a password.
import Fastify from 'fastify'
import t from 'tap'
import quotaPlugin, { InsuredQuotaStore, type QuotaOptions } from '../../lib/index.js'
import { PostgresQuotaStore } from '../../lib/postgres.js'
import { RedisQuotaStore } from '../../lib/redis.js'

const secret = 'hunter2'
const connection = `host=db user=service password=${secret}`
const mistakes: [string, () => unknown][] = [
  ['client', () => Reflect.construct(RedisQuotaStore, [{ client: connection }])],
  ['pool', () => Reflect.construct(PostgresQuotaStore, [{ pool: connection }])],
  ['primary', () => Reflect.construct(InsuredQuotaStore, [{ primary: connection }])],
  ['password', () => Reflect.construct(PostgresQuotaStore, [{ pool: { query () {} }, password: secret }])],
  ['store', async () => { await Fastify().register(quotaPlugin, { store: connection } as object as QuotaOptions) }]
]

t.test('an error about a value that can hold a password shows its type only', async (t) => {
  for (const [option, make] of mistakes) {
    await t.rejects(async () => make(), { code: 'FST_ERR_LLM_QUOTA_OPTION', message: new RegExp(`option ${option} .*; it got a string$`) }, option)
  }
})
