// Each change of an insured store is logged once.
import Fastify from 'fastify'
import t from 'tap'
import { quotaPlugin } from '../../lib/index.js'
import { matchExactly } from '../support/match-exactly.js'
import { answered, insure } from '../support/told-store.js'
import { alice, analyze, captureLog, createService } from '../support/service.js'

t.test('many requests that fail at once cause one log line', async (t) => {
  const { clock, primary, store } = insure()
  const log = captureLog()
  const app = await createService({ store, perMinute: 100 }, { logger: log.logger })
  primary.manner = 'hangs'
  const responses = await answered(
    clock,
    Promise.all(Array.from({ length: 50 }, () => analyze(app, alice)))
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
  for (let request = 0; request < 3; request++) await analyze(app, alice)
  matchExactly(t, log.problems(), [fails, works])
})

t.test('a server logs the changes of its own store, until it has closed', async (t) => {
  const { primary, store, countOf } = insure()
  const log = captureLog()
  const app = await createService({ store }, { logger: log.logger })
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
  const log = captureLog()
  const app = await createService({ quotas: { chat: { store } } }, { logger: log.logger })
  await app.ready()
  primary.manner = 'throws'
  await countOf()
  matchExactly(t, log.warnings(), [/primary store fails; its fallback counts/])
})

t.test('each of two servers that share a store logs its changes', async (t) => {
  const { primary, store, countOf } = insure()
  const logs = [captureLog(), captureLog()]
  for (const { logger } of logs) await createService({ store }, { logger })
  primary.manner = 'throws'
  await countOf()
  for (const log of logs) matchExactly(t, log.warnings(), [/primary store fails/])
})

t.test(
  'each change of a shard is logged once, with the shards of the fallback, and the error',
  async (t) => {
    const { clock, primary, store, countOf } = insure()
    const log = captureLog()
    const app = Fastify({ logger: log.logger })
    for (const prefix of ['/one', '/two', '/three']) {
      await app.register(
        async (scope) => {
          await scope.register(quotaPlugin, { store })
        },
        { prefix }
      )
    }
    /** Makes shards fail or recover, and returns the lines about it. */
    const change = async (manner: 'rejects' | 'promises', ...shards: number[]) => {
      const before = log.lines.length
      for (const shard of shards) primary.manners.set(shard, manner)
      for (const shard of [...shards, ...shards]) await countOf(`a${shard}`)
      clock.advance(100)
      return log.lines
        .slice(before)
        .map(({ msg, shards, err }) => [
          String(msg).replace(/^the quota's primary store /, ''),
          shards,
          Object(err).message
        ])
    }
    const part = (down: number) =>
      `fails for ${down} of 3 shards; the fallback counts their callers`
    t.same(await change('promises', 0, 1, 2), [])
    t.same(await change('rejects', 2, 1, 0), [
      [part(1), [2], 'rejected'],
      [part(2), [1, 2], 'rejected'],
      ['fails; its fallback counts', undefined, 'rejected']
    ])
    t.same(await change('promises', 1, 0, 2), [
      [`still ${part(2)}`, [0, 2], undefined],
      [`still ${part(1)}`, [2], undefined],
      ['works again', undefined, undefined]
    ])
    await app.close()
  }
)
