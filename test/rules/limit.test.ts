// docs/rules.md, "Limit": the configured limit, the preference, and what a limit means.
import { join } from 'node:path'
import Fastify from 'fastify'
import t from 'tap'
import { preferenceFailures } from '../../lib/channels.js'
import quotaPlugin, {
  anonymousAuthentication,
  localAuthentication,
  type Authentication,
  type CallerLimit,
  type PreferenceReader,
  type QuotaDefinition,
  type QuotaOptions,
  type RouteMark
} from '../../lib/index.js'
import { captureLog } from '../support/log.js'
import { matchExactly } from '../support/match-exactly.js'
import { published } from '../support/published.js'
import { asAlice, createServer, nobody } from '../support/server.js'
import { virtualPerformance } from '../support/time.js'

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

t.test('a variable of 0 disables its quota, whatever the limit in the code', async (t) => {
  const ofChat = 'SERVICE_RATE_LIMIT_CHAT_PER_DAY'
  t.teardown(() => {
    Reflect.deleteProperty(process.env, ofChat)
  })
  process.env[variable] = '0'
  process.env[ofChat] = '0'
  const quotas = { chat: { perDay: 7 } }
  const { ask } = await createServer({ mark: ['default', 'chat'], perMinute: 7, quotas })
  const { statusCode, json } = await ask({ headers: nobody })
  t.equal(statusCode, 200, 'without a caller')
  matchExactly(t, json(), [
    { quota: 'default', outcome: 'disabled', limit: 0 },
    { quota: 'chat', outcome: 'disabled', limit: 0 }
  ])
})

t.test('the variable is read from a dotenv file if the option dotenv is set', async (t) => {
  const path = join(t.testdir({ 'service.env': `${variable}=3\nOTHER=unread\n` }), 'service.env')
  t.equal(await configured({ dotenv: { path }, perMinute: 7 }), 3)
})

t.test(
  'start-up fails with the name and the value of the variable if it is not an integer',
  async (t) => {
    for (const value of ['', ' ', 'ten', '1.5', '0x10', '9007199254740993']) {
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
const preferred: Record<string, [value: unknown, limit: number | undefined][]> = {
  'an integer or a decimal text of one is the limit': [
    [5, 5],
    ['5', 5],
    ['007', 7],
    [large, large],
    [String(large), large]
  ],
  'the configured limit applies if it is unset: undefined, null or blank': [
    undefined,
    null,
    '',
    '  ',
    '\t\n'
  ].map((value) => [value, 7]),
  '0 disables the quota': [0, -0, '0', '-0', '00'].map((value) => [value, 0]),
  'below 0, the limit is 1': [-1, '-7', -large].map((value) => [value, 1]),
  'a number that is no safe integer is unavailable and never rounded': [
    0.5,
    -0.5,
    1.5,
    NaN,
    Infinity,
    2 ** 53,
    '9007199254740992'
  ].map((value) => [value, undefined]),
  'every other value is unavailable': [
    ...[5n, true, [5], {}, () => 5, Symbol('5'), new Date(5)],
    ...['0.5', '5.0', '1e1', '0x10', '1_0', '+5', ' 5', '5 ', '--5', '-', 'ten', '\u0665']
  ].map((value) => [value, undefined])
}

for (const [rule, rows] of Object.entries(preferred)) {
  t.test(`of a preference, ${rule}`, async (t) => {
    let read: () => unknown = () => undefined
    const { ask } = await createServer({ perMinute: 7, preferences: { get: () => read() } })
    for (const [value, limit] of rows) {
      for (read of [() => value, async () => value]) {
        let failures: unknown[] = []
        const [message] = await published(async () => {
          const headers = limit === 0 ? nobody : {}
          failures = await published(async () => ask({ headers }), preferenceFailures.name)
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
  })
}

t.test('a configured limit of 0 disables the quota, and below 0 it is 1', async (t) => {
  const disabled = await createServer({ perMinute: 0 })
  t.same(await disabled.statuses(1, nobody), [200])
  const negative = await createServer({ perMinute: -1 })
  t.same(await negative.statuses(2), [200, 429])
})

t.test(
  'a preference reader gets the key and the request, can return a promise, and is called ' +
    'only for subject requests',
  async (t) => {
    for (const isAsynchronous of [false, true]) {
      const asked: string[] = []
      const limitOf: PreferenceReader['get'] = (key, request) => {
        asked.push(key)
        return request?.headers['x-plan'] === 'large' ? '2' : 1
      }
      const { ask, statuses } = await createServer({
        preferences: {
          get: (...of) => (isAsynchronous ? Promise.resolve(limitOf(...of)) : limitOf(...of))
        }
      })
      await ask({ url: '/health' })
      t.same(await statuses(2), [200, 429])
      t.same(await statuses(1, { 'x-plan': 'large' }), [200])
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
        const { app, statuses } = await createServer({
          perMinute: 3,
          preferences,
          ...(order === 'before' && { before: decorate })
        })
        if (order === 'after') decorate(app)
        t.equal((await statuses(4)).filter((status) => status === 200).length, admitted)
        t.equal(app.getDecorator('preferences'), host)
      }
    }
  }
)

t.test(
  'start-up fails if what the host has decorated is not a reader, and says what to do',
  async (t) => {
    for (const [host, value] of [[theme, 'an object'], ['ten', 'a string']]) {
      const { app } = await createServer()
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

t.test('a preference reader gets null for a permit without a request', async (t) => {
  const requests: unknown[] = []
  const get: PreferenceReader['get'] = (_key, request) => {
    requests.push(request)
    return 5
  }
  const { app } = await createServer({ preferences: { get } })
  await app.ready()
  const { decisions } = await app.quotaAcquire(localAuthentication('bob'), 'default')
  matchExactly(t, decisions, [{ limit: 5 }])
  t.same(requests, [null])
})

/** The limit of each user. */
const plans: Readonly<Record<string, number>> = { alice: 2, bob: 1 }

const ofPlan: CallerLimit = (authentication) =>
  authentication.kind === 'local' ? plans[String(authentication.username)] ?? 0 : 0
const ofPlanLater: CallerLimit = async (authentication) => ofPlan(authentication)

for (const limit of [ofPlan, ofPlanLater]) {
  const definitions: readonly QuotaDefinition[] = [
    { perMinute: limit },
    { perHour: limit },
    { perDay: limit, timeZone: 'Asia/Tokyo' },
    { perWeek: { tokens: limit }, cost: 1 },
    { perMonth: { tokens: limit }, cost: 1 },
    { limit, window: 5000 },
    { limit: { tokens: limit }, window: 5000, cost: 1 },
    { concurrent: limit }
  ]
  t.test(`a limit can be ${limit.name}, a function of the caller`, async (t) => {
    const quotas = Object.fromEntries(
      definitions.map((definition, index) => [`chat-${index}`, definition])
    )
    const mark: RouteMark = ({ headers }) => String(headers['x-quota'])
    const { app, begin, ask } = await createServer({ quotas, mark })
    for (const name of Object.keys(quotas)) {
      const headers = { 'x-quota': name }
      const first = await begin(headers)
      const bob = await begin({ ...headers, 'x-caller': 'bob' })
      const limits = [first, await begin(headers), bob].map(
        ({ request }) => request.quota.decisions[0]?.limit
      )
      t.same(limits, [2, 2, 1], name)
      t.equal((await ask({ headers })).statusCode, 429, name)
      matchExactly(t, await app.quotaStanding(first.request, name), { limit: 2, remaining: 0 })
      const permit = await app.quotaAcquire(localAuthentication('bob'), name)
      matchExactly(t, permit.refusal, { outcome: 'rejected', limit: 1 }, name)
    }
    t.same(app.quotaConfig, { SERVICE_RATE_LIMIT_PER_MINUTE: 10 })
  })
}

t.test('a function that is a limit gets the authentication, for every decision', async (t) => {
  const asked: Authentication[] = []
  const account = { plan: 'large' }
  let limit = 1
  const chat: QuotaDefinition = {
    perMinute: (authentication) => {
      asked.push(authentication)
      return limit
    }
  }
  const alice = localAuthentication('alice', { account })
  const { statuses } = await createServer({
    authentication: ({ headers }) => (headers['x-caller'] === '' ? null : alice),
    quotas: { chat }
  })
  t.same(await statuses(2), [200, 429])
  limit = 2
  t.same(await statuses(1), [200])
  t.same(await statuses(1, nobody), [401])
  matchExactly(t, asked, Array(3).fill({ kind: 'local', username: 'alice', account }))
})

/** Throws, as a function that is a limit. */
function failing (): never {
  throw new Error('no directory')
}

// What a function that is a limit returns, and what it leaves a caller.
const returned: [limit: () => unknown, effective: number][] = [
  [() => 5, 5],
  [() => large, large],
  [() => Infinity, Infinity],
  [() => 0, 0],
  [() => -0, 0],
  [() => -1, 0],
  [() => -large, 0]
]
// And what it does where there is no limit, with the message of the error in the log, which holds
// nothing that it returned but a number.
const rule = 'a limit must be a safe integer or Infinity; it got'
const failures: [limit: () => unknown, message: string][] = [
  [failing, 'no directory'],
  [() => 1.5, `${rule} 1.5`],
  [() => NaN, `${rule} NaN`],
  [() => -Infinity, `${rule} -Infinity`],
  [() => 2 ** 53, `${rule} 9007199254740992`],
  [() => '5', `${rule} a string`],
  [() => 'alice@example.com', `${rule} a string`],
  [() => Symbol('alice'), `${rule} a symbol`],
  [() => 5n, `${rule} 5n`],
  [() => undefined, `${rule} undefined`],
  [() => null, `${rule} null`],
  [() => ({ tokens: 5 }), `${rule} an object`]
]

/** A server with a quota whose limit is whatever `read` of the returned state returns. */
async function createServerReading () {
  const state = { read: (): unknown => 1 }
  const perMinute = (): unknown => state.read()
  const server = await createServer({ quotas: { chat: Object({ perMinute }) } })
  await server.app.ready()
  return { state, ...server }
}

t.test(
  'what a function returns is what a caller may use: nothing at 0 or below, anything at Infinity',
  async (t) => {
    const { app, state, store } = await createServerReading()
    for (const [limit, effective] of returned) {
      for (state.read of [limit, async () => limit()]) {
        const what = `${limit}`
        store.clearCounters()
        const { decisions } = await app.quotaAcquire(asAlice(), 'chat')
        const admitted = { outcome: 'admitted', limit: effective, count: 1, granted: 1 }
        const rejected = { outcome: 'rejected', limit: 0, count: 0, granted: 0, retryAfter: null }
        matchExactly(t, decisions, [effective === 0 ? rejected : admitted], what)
        const { refusal } = await app.quotaAcquire(anonymousAuthentication(), 'chat')
        matchExactly(t, refusal, { outcome: 'unauthenticated' }, what)
        t.equal(store.inspect('chat.requests.minute').trackedCallers, 1)
      }
    }
  }
)

t.test('nothing is left of a unit either, also for a request that could use nothing', async (t) => {
  for (const cost of [0, 1, { least: 0, most: 9 }]) {
    const { app, ask } = await createServer({
      quotas: { chat: { perDay: { tokens: () => 0 }, cost } }
    })
    t.equal((await ask()).statusCode, 429)
    const { refusal } = await app.quotaAcquire(localAuthentication('bob'), 'chat')
    matchExactly(t, refusal, { outcome: 'rejected', limit: 0, granted: 0, retryAfter: null })
  }
})

t.test(
  'a limit of Infinity counts all that is asked for; remaining is null, and no header has an item',
  async (t) => {
    const { ask, app, standings } = await createServer({
      rateLimitHeaders: 'draft-10',
      quotas: { chat: { perDay: { tokens: () => Infinity }, cost: { least: 1, most: large } } }
    })
    const { statusCode, headers } = await ask()
    t.same([statusCode, headers.ratelimit], [200, undefined])
    const { decisions } = await app.quotaAcquire(localAuthentication('bob'), 'chat')
    matchExactly(t, decisions, [{ outcome: 'admitted', limit: Infinity, granted: large }])
    const of = { 'x-caller': 'bob' }
    matchExactly(t, await standings(['chat'], of), [{ count: large, remaining: null }])
  }
)

t.test('a function that fails as a limit is a logged 503 that counts nothing', async (t) => {
  const time = virtualPerformance(t)
  const { ask, state, store, log } = await createServerReading()
  for (const [limit, message] of failures) {
    for (state.read of [limit, async () => limit()]) {
      time.advance(60_000)
      log.lines.length = 0
      const messages = await published(async () => {
        const { statusCode, headers } = await ask()
        t.same([statusCode, headers['retry-after']], [503, '1'], message)
      })
      const callerKey = /^\w{64}$/
      const decision = { outcome: 'unavailable', reason: 'limit', callerKey, count: null }
      matchExactly(t, messages, [{ decision }])
      t.equal(store.inspect('chat.requests.minute').trackedCallers, 0)
      matchExactly(t, log.problems(), [
        {
          level: 50,
          quota: 'chat',
          err: { message },
          msg: /^the limit of the caller could not be determined; .* at most once a minute$/
        }
      ])
    }
  }
})

t.test('a function that is a limit has as much time as a preference reader', async (t) => {
  const { ask, log } = await createServer({
    preferenceTimeout: 1,
    quotas: { chat: { perMinute: async () => new Promise(() => {}) } }
  })
  t.equal((await ask()).statusCode, 503)
  matchExactly(t, log.problems(), [{ level: 50, err: { message: 'no response within 1 ms' } }])
})

t.test('a preference that is set precedes a function, which is then not asked', async (t) => {
  const preferences = new Map<string, unknown>()
  let asked = 0
  const perDay: CallerLimit = () => {
    asked += 1
    return 7
  }
  const { ask, log } = await createServer({ preferences, quotas: { chat: { perDay } } })
  const values: [value: unknown, limit: number, asked: number][] = [
    [undefined, 7, 1],
    [5, 5, 1],
    ['', 7, 2],
    ['many', 7, 3],
    [async () => 5, 7, 4]
  ]
  for (const [value, limit, expected] of values) {
    preferences.set('rate-limit.chat.per-day', value)
    matchExactly(t, (await ask()).json(), [{ limit }])
    t.equal(asked, expected, String(value))
  }
  preferences.set('rate-limit.chat.per-day', Promise.resolve('6'))
  matchExactly(t, (await ask()).json(), [{ limit: 6 }])
  matchExactly(t, log.problems(), [
    {
      level: 40,
      preference: 'rate-limit.chat.per-day',
      configured: 'a function',
      value: 'a string'
    }
  ])
})

t.test('start-up fails if the variable of a limit is set beside a function', async (t) => {
  const name = 'SERVICE_RATE_LIMIT_CHAT_PER_DAY'
  t.teardown(() => {
    Reflect.deleteProperty(process.env, name)
  })
  const quotas = { chat: { perDay: { tokens: ofPlan } } }
  const path = join(t.testdir({ 'service.env': `${name}=3\n` }), 'service.env')
  const failure = (value: string) => ({
    code: 'FST_ERR_LLM_QUOTA_ENVIRONMENT',
    message:
      `fastify-llm-quota: the environment variable ${name} must not be set, because the limit in ` +
      `the definition of the quota is a function; it got "${value}"`
  })
  await t.rejects(configured({ dotenv: { path }, quotas }), failure('3'))
  for (const value of ['7', '', 'many']) {
    process.env[name] = value
    await t.rejects(configured({ quotas }), failure(value))
  }
})

t.test('a variable of a limit that no quota reads is warned of once, at the start', async (t) => {
  const names = ['CHAT_PER_DYA', 'CHAT_PER_MINUTE', 'CHAT_PER_DAY', 'SEARCH_PER_DAY']
  const [misspelt, otherLimit, ...read] = names.map((name) => `SERVICE_RATE_LIMIT_${name}`)
  t.teardown(() => {
    for (const name of read) Reflect.deleteProperty(process.env, name)
  })
  for (const name of read) process.env[name] = '5'
  const variables = `${misspelt}=3\n${otherLimit}=3\nSERVICE_NAME=chat\n`
  const path = join(t.testdir({ 'service.env': variables }), 'service.env')
  const log = captureLog()
  const app = Fastify({ logger: log.logger })
  // Each scope has quotas of its own.
  for (const name of ['chat', 'search']) {
    await app.register(
      async (scope) => {
        await scope.register(quotaPlugin, {
          operations: [],
          dotenv: { path },
          quotas: { [name]: { perDay: 1 } }
        })
        t.equal(scope.quotaConfig[`SERVICE_RATE_LIMIT_${name.toUpperCase()}_PER_DAY`], 5)
      },
      { prefix: `/${name}` }
    )
  }
  await app.ready()
  matchExactly(t, log.problems(), [
    {
      level: 40,
      variables: [misspelt, otherLimit],
      msg:
        `no quota reads the environment variable ${misspelt}, ${otherLimit}; the variables of ` +
        `the quotas are ${variable}, ${read.join(', ')}`
    }
  ])
})

t.test('variables that quotas read, or others, are not warned of', async (t) => {
  process.env[variable] = '5'
  process.env.SERVICE_RATE_LIMITS = '5'
  t.teardown(() => {
    Reflect.deleteProperty(process.env, 'SERVICE_RATE_LIMITS')
  })
  const { app, log } = await createServer()
  await app.ready()
  t.same(log.problems(), [])
})
