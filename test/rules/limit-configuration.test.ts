// docs/rules.md, "Limit": the sources of the configured limit.
import { mkdtempSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { tmpdir } from 'node:os'
import Fastify from 'fastify'
import t from 'tap'
import quotaPlugin, { MemoryQuotaStore, type QuotaOptions } from '../../lib/index.js'
import { VirtualClock } from '../../lib/testing/virtual-clock.js'
import { alice, analyze, createService } from '../support/service.js'

async function configured (options: QuotaOptions = {}): Promise<number> {
  const app = Fastify()
  await app.register(quotaPlugin, options)
  return app.quotaConfig.SERVICE_RATE_LIMIT_PER_MINUTE
}

t.afterEach(() => { delete process.env.SERVICE_RATE_LIMIT_PER_MINUTE })

t.test('the counter counts the requests admitted in the current window', async (t) => {
  const store = new MemoryQuotaStore({ clock: new VirtualClock().now })
  t.same([1, 2, 3, 4].map(() => store.acquire('caller', 3).count), [1, 2, 3, 3])
})

t.test('service.rate-limit.per-minute', async (t) => {
  t.test('defaults to 10', async (t) => {
    t.equal(await configured(), 10)
  })

  t.test('is the option perMinute if the environment variable is not set', async (t) => {
    t.equal(await configured({ perMinute: 7 }), 7)
  })

  t.test('is SERVICE_RATE_LIMIT_PER_MINUTE of the environment before anything else', async (t) => {
    process.env.SERVICE_RATE_LIMIT_PER_MINUTE = '25'
    t.equal(await configured({ perMinute: 7 }), 25)
    const app = await createService()
    t.same(app.quotaConfig, { SERVICE_RATE_LIMIT_PER_MINUTE: 25 })
  })

  t.test('is read from a dotenv file if the option is set', async (t) => {
    const path = join(mkdtempSync(join(tmpdir(), 'quota-')), 'service.env')
    writeFileSync(path, 'SERVICE_RATE_LIMIT_PER_MINUTE=3\nOTHER=unread\n')
    t.equal(await configured({ dotenv: { path }, perMinute: 7 }), 3)
  })

  t.test('may be 0 or negative', async (t) => {
    for (const value of [0, -5]) {
      process.env.SERVICE_RATE_LIMIT_PER_MINUTE = String(value)
      t.equal(await configured(), value)
    }
  })

  for (const value of ['', ' ', 'ten', '1.5', '1e1', '0x10', 'Infinity', 'NaN', 'true', '10 ', '9007199254740993']) {
    t.test(`fails at start-up with its name and value if it is ${JSON.stringify(value)}`, async (t) => {
      process.env.SERVICE_RATE_LIMIT_PER_MINUTE = value
      await t.rejects(configured(), { code: 'FST_ERR_LLM_QUOTA_ENVIRONMENT', message: `SERVICE_RATE_LIMIT_PER_MINUTE must be an integer; it got '${value}'` })
    })
  }
})

t.test('rate-limit.per-minute is read on every protected request and wins over the configured property', async (t) => {
  const preferences = new Map<string, unknown>()
  const app = await createService({ preferences, perMinute: 1 })
  t.equal((await analyze(app, alice)).statusCode, 200)
  t.equal((await analyze(app, alice)).statusCode, 429)
  preferences.set('rate-limit.per-minute', 2)
  t.equal((await analyze(app, alice)).statusCode, 200)
  t.equal((await analyze(app, alice)).statusCode, 429)
  preferences.delete('rate-limit.per-minute')
  t.equal((await analyze(app, alice)).statusCode, 429, 'the fallback is back in force')
})
