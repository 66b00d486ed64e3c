// Each change of an insured store is logged once.
import Fastify from 'fastify'
import t from 'tap'
import { quotaPlugin, ShardedQuotaStore } from '../../lib/index.js'
import { captureLog } from '../support/log.js'
import { matchExactly } from '../support/match-exactly.js'
import { createServer } from '../support/server.js'
import { answered, insure } from '../support/told-store.js'

t.test('many requests that fail at once cause one log line', async (t) => {
  const { clock, primary, store } = insure()
  const { ask, log } = await createServer({ store, perMinute: 100 })
  primary.manner = 'hangs'
  const responses = await answered(
    clock,
    Promise.all(Array.from({ length: 50 }, async () => ask()))
  )
  t.ok(responses.every(({ statusCode }) => statusCode === 200))
  const fails = {
    level: 40,
    msg: /primary store fails; its fallback counts/,
    err: { message: 'no response within 30 ms' }
  }
  const works = { level: 40, msg: /primary store works again/ }
  matchExactly(t, log.problems(), [fails])
  primary.manner = 'promises'
  clock.advance(100)
  for (let request = 0; request < 3; request++) await ask()
  matchExactly(t, log.problems(), [fails, works])
})

t.test('a server logs the changes of its own store, until it has closed', async (t) => {
  const { primary, store, countOf } = insure()
  const { app, log } = await createServer({ store })
  const other = insure()
  other.primary.manner = 'throws'
  await other.countOf()
  t.same(log.warnings(), [], 'that of another server')
  await app.close()
  primary.manner = 'throws'
  await countOf()
  t.same(log.warnings(), [], 'closed')
})

t.test('the changes of a store that only a named quota has are logged, too', async (t) => {
  const { primary, store, countOf } = insure()
  const { app, log } = await createServer({ quotas: { chat: { store } } })
  await app.ready()
  primary.manner = 'throws'
  await countOf()
  matchExactly(t, log.warnings(), [/primary store fails; its fallback counts/])
})

t.test('each of two servers that share a store logs its changes', async (t) => {
  const { primary, store, countOf } = insure()
  const servers = [await createServer({ store }), await createServer({ store })]
  primary.manner = 'throws'
  await countOf()
  for (const { log } of servers) matchExactly(t, log.warnings(), [/primary store fails/])
})

t.test('the changes of a shard are logged, once for all scopes of a server', async (t) => {
  const insured = [insure(), insure()]
  const store = new ShardedQuotaStore(insured.map((each) => each.store))
  const log = captureLog()
  const app = Fastify({ logger: log.logger })
  for (const prefix of ['/one', '/two']) {
    await app.register(
      async (scope) => {
        await scope.register(quotaPlugin, { store })
      },
      { prefix }
    )
  }
  const [, second] = insured
  for (const manner of ['rejects', 'promises'] as const) {
    if (second !== undefined) second.primary.manner = manner
    await second?.countOf()
    second?.clock.advance(100)
  }
  matchExactly(t, log.problems(), [
    { msg: /primary store fails; its fallback counts/, err: { message: 'rejected' } },
    { msg: /primary store works again/ }
  ])
  await app.close()
})
