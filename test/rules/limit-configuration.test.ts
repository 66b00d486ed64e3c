// docs/rules.md, "Limit": the sources of the configured limit.
import { mkdtempSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { tmpdir } from 'node:os'
import Fastify from 'fastify'
import t from 'tap'
import quotaPlugin, { type QuotaOptions } from '../../lib/index.js'
import { alice, analyze, createService } from '../support/service.js'

async function configured (options: QuotaOptions = {}): Promise<number> {
  const app = Fastify()
  await app.register(quotaPlugin, options)
  return app.quotaConfig.SERVICE_RATE_LIMIT_PER_MINUTE
}

t.afterEach(() => { delete process.env.SERVICE_RATE_LIMIT_PER_MINUTE })

t.test('service.rate-limit.per-minute is read at start-up', async (t) => {
  t.test('the configured limit is 10 by default', async (t) => {
    t.equal(await configured(), 10)
  })

  t.test('the option perMinute applies if the environment variable is not set', async (t) => {
    t.equal(await configured({ perMinute: 7 }), 7)
  })

  t.test('the environment variable takes precedence over the option', async (t) => {
    process.env.SERVICE_RATE_LIMIT_PER_MINUTE = '25'
    t.equal(await configured({ perMinute: 7 }), 25)
    const app = await createService()
    t.same(app.quotaConfig, { SERVICE_RATE_LIMIT_PER_MINUTE: 25 })
  })

  t.test('the variable is read from a dotenv file if the option dotenv is set', async (t) => {
    const path = join(mkdtempSync(join(tmpdir(), 'quota-')), 'service.env')
    writeFileSync(path, 'SERVICE_RATE_LIMIT_PER_MINUTE=3\nOTHER=unread\n')
    t.equal(await configured({ dotenv: { path }, perMinute: 7 }), 3)
  })

  t.test('the configured limit can be 0 or negative', async (t) => {
    for (const value of [0, -5]) {
      process.env.SERVICE_RATE_LIMIT_PER_MINUTE = String(value)
      t.equal(await configured(), value)
    }
  })

  for (const value of ['', ' ', 'ten', '1.5', '1e1', '0x10', 'Infinity', 'NaN', 'true', '10 ', '9007199254740993']) {
    t.test(`start-up fails with the name and the value of the variable if it is ${JSON.stringify(value)}`, async (t) => {
      process.env.SERVICE_RATE_LIMIT_PER_MINUTE = value
      await t.rejects(configured(), { code: 'FST_ERR_LLM_QUOTA_ENVIRONMENT', message: `fastify-llm-quota: the environment variable SERVICE_RATE_LIMIT_PER_MINUTE must be an integer; it got "${value}"` })
    })
  }
})

t.test('ten requests per window are admitted by default', async (t) => {
  const app = await createService()
  const answers = []
  for (let request = 0; request < 12; request++) answers.push((await analyze(app, alice)).statusCode)
  t.same(answers, [...Array(10).fill(200), 429, 429])
})

t.test('a configured limit of 0 disables the quota, and a negative one results in a limit of 1', async (t) => {
  const disabled = await createService({ perMinute: 0 })
  t.equal((await analyze(disabled, null)).statusCode, 200)
  const closed = await createService({ perMinute: -1 })
  t.same([(await analyze(closed, alice)).statusCode, (await analyze(closed, alice)).statusCode], [200, 429])
})

t.test('rate-limit.per-minute is read for every protected request and takes precedence over the configured property', async (t) => {
  const preferences = new Map<string, unknown>()
  const app = await createService({ preferences, perMinute: 1 })
  t.equal((await analyze(app, alice)).statusCode, 200)
  t.equal((await analyze(app, alice)).statusCode, 429)
  preferences.set('rate-limit.per-minute', 2)
  t.equal((await analyze(app, alice)).statusCode, 200)
  t.equal((await analyze(app, alice)).statusCode, 429)
  preferences.delete('rate-limit.per-minute')
  t.equal((await analyze(app, alice)).statusCode, 429, 'the configured property applies again')
})
