// docs/rules.md, "Limit": the configured limit, the preference, and what a limit means.
import { mkdtempSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { tmpdir } from 'node:os'
import Fastify, { type FastifyInstance } from 'fastify'
import t from 'tap'
import quotaPlugin, { type PreferenceReader, type QuotaOptions } from '../../lib/index.js'
import { preferenceFailures, storeDurations } from '../../lib/channels.js'
import { alice, analyze, asAlice, createService, published, statuses } from '../support/service.js'

const variable = 'SERVICE_RATE_LIMIT_PER_MINUTE'
const key = 'rate-limit.per-minute'

t.afterEach(() => {
  Reflect.deleteProperty(process.env, variable)
})

async function configured (options: QuotaOptions = {}): Promise<number> {
  const app = Fastify()
  await app.register(quotaPlugin, options)
  return app.quotaConfig[variable]
}

t.test(
  'the environment variable, then the option perMinute, then 10 is the configured limit',
  async (t) => {
    t.equal(await configured(), 10)
    t.equal(await configured({ perMinute: 7 }), 7)
    for (const value of [25, 0, -5]) {
      process.env[variable] = String(value)
      t.equal(await configured({ perMinute: 7 }), value)
    }
  }
)

t.test('the variable is read from a dotenv file if the option dotenv is set', async (t) => {
  const path = join(mkdtempSync(join(tmpdir(), 'quota-')), 'service.env')
  writeFileSync(path, `${variable}=3\nOTHER=unread\n`)
  t.equal(await configured({ dotenv: { path }, perMinute: 7 }), 3)
})

t.test(
  'start-up fails with the name and the value of the variable if it is not an integer',
  async (t) => {
    for (const value of [
      '',
      ' ',
      'ten',
      '1.5',
      '1e1',
      '0x10',
      'Infinity',
      'NaN',
      'true',
      '10 ',
      '9007199254740993'
    ]) {
      process.env[variable] = value
      await t.rejects(configured(), {
        code: 'FST_ERR_LLM_QUOTA_ENVIRONMENT',
        message:
          `fastify-llm-quota: the environment variable ${variable} must be an integer; it ` +
          `got "${value}"`
      })
    }
  }
)

const large = Number.MAX_SAFE_INTEGER
// What a reader returns, and the limit that then applies; undefined if the preference is
// unavailable, and 7, which is configured, applies.
const preferred: [value: unknown, limit: number | undefined][] = [
  ...[undefined, null, '', '  ', '\t\n'].map((value): [unknown, number] => [value, 7]),
  [5, 5],
  ['5', 5],
  ['007', 7],
  [large, large],
  [String(large), large],
  ...[0, -0, '0', '-0', '00'].map((value): [unknown, number] => [value, 0]),
  ...[-1, '-7', -large].map((value): [unknown, number] => [value, 1]),
  ...[
    0.5,
    -0.5,
    1.5,
    NaN,
    Infinity,
    2 ** 53,
    '9007199254740992',
    5n,
    true,
    [5],
    {},
    () => 5,
    Symbol('5'),
    new Date(5)
  ].map((value): [unknown, undefined] => [value, undefined]),
  ...['0.5', '5.0', '1e1', '0x10', '1_0', '+5', ' 5', '5 ', '--5', '-', 'ten', '\u0665'].map(
    (value): [unknown, undefined] => [value, undefined]
  )
]

t.test(
  'the limit is the preference, or the configured limit if that is unset or unavailable; 0 ' +
    'disables, and below 0 it is 1',
  async (t) => {
    let read: () => unknown = () => undefined
    const app = await createService({ perMinute: 7, preferences: { get: () => read() } })
    for (const [value, limit] of preferred) {
      for (read of [() => value, async () => value]) {
        let failures: unknown[] = []
        const [message] = await published(async () => {
          failures = await published(
            () => analyze(app, limit === 0 ? null : alice),
            preferenceFailures.name
          )
        })
        const { limit: used, outcome, count } = message?.decision ?? {}
        t.ok(
          Object.is(used, limit ?? 7) &&
            outcome !== 'unauthenticated' &&
            (count === null) === (limit === 0),
          String(value)
        )
        t.equal(failures.length, limit === undefined ? 1 : 0)
      }
    }
    t.same(await statuses(await createService({ perMinute: 0 }), null, 1), [200])
    t.same(await statuses(await createService({ perMinute: -1 }), alice, 2), [200, 429])
  }
)

t.test(
  'a preference reader gets the key and the request, can return a promise, and is called ' +
    'only for subject requests',
  async (t) => {
    for (const isAsynchronous of [false, true]) {
      const asked: string[] = []
      const limitOf: PreferenceReader['get'] = (key, { headers }) => {
        asked.push(key)
        return headers['x-plan'] === 'large' ? '2' : 1
      }
      const app = await createService({
        preferences: {
          get: (...of) => (isAsynchronous ? Promise.resolve(limitOf(...of)) : limitOf(...of))
        }
      })
      await app.inject('/health')
      t.same(await statuses(app, alice, 2), [200, 429])
      t.same(await statuses(app, alice, 1, { headers: { 'x-plan': 'large' } }), [200])
      t.same(asked, [key, key, key])
    }
  }
)

const theme = { theme: 'dark' }
const two = new Map([[key, 2]])

// What the host decorates as `preferences`, the option, and how many requests are then admitted; 3
// is the configured limit.
const decorated: [unknown, QuotaOptions['preferences'], number][] = [
  [theme, two, 2],
  [theme, false, 3],
  [two, false, 3],
  [two, undefined, 2],
  [null, undefined, 3]
]

t.test(
  'a reader that the host decorates before or after the plugin is used if the option is ' +
    'not set, and stays decorated',
  async (t) => {
    for (const [host, preferences, admitted] of decorated) {
      for (const order of ['before', 'after']) {
        // The plugin itself decorates a reader that is given while the host has none.
        if (order === 'after' && preferences === two) continue
        const decorate = (app: object) => {
          Reflect.apply(Reflect.get(app, 'decorate'), app, ['preferences', host])
        }
        const app = await createService(
          {
            authentication: asAlice,
            perMinute: 3,
            ...(preferences !== undefined && { preferences })
          },
          {},
          order === 'before' ? { before: decorate } : {}
        )
        if (order === 'after') decorate(app)
        t.equal((await statuses(app, null, 4)).filter((status) => status === 200).length, admitted)
        t.equal(app.getDecorator('preferences'), host)
      }
    }
  }
)

t.test(
  'start-up fails if what the host has decorated is not a reader, and says what to do',
  async (t) => {
    for (const [host, value] of [
      [theme, 'an object'],
      ['ten', 'a string']
    ]) {
      const app = await createService()
      Reflect.apply(app.decorate, app, ['preferences', host])
      await t.rejects(
        async () => {
          await app.ready()
        },
        {
          message: new RegExp(
            'preferences, as the host decorated it \\(set the option preferences to a ' +
              'reader or to false .*must be a preference reader with a function get; it got ' +
              `${value}`
          )
        }
      )
    }
  }
)

t.test(
  'the handler does not wait for a turn of the event loop if the reader and the store are ' +
    'synchronous, timed or not',
  async (t) => {
    const turns: string[] = []
    let passed = false
    const before = (app: FastifyInstance) =>
      app.addHook('preHandler', (_request, _reply, done) => {
        passed = false
        setImmediate(() => turns.push(passed ? 'handler first' : 'turn first'))
        done()
      })
    const app = await createService(
      { preferences: new Map([[key, 5]]), authentication: asAlice },
      {},
      {
        before,
        handler: (_request, reply) => {
          passed = true
          reply.send('ran')
        }
      }
    )
    await analyze(app, null)
    t.equal((await published(() => analyze(app, null), storeDurations.name)).length, 1)
    await new Promise(setImmediate)
    t.same(turns, ['handler first', 'handler first'])
  }
)
