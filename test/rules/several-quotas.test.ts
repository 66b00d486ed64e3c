// docs/rules.md, "Several quotas": the limits of quotas, with their windows, messages, counters,
// preferences and variables, and definitions that are not possible.
import Fastify from 'fastify'
import t from 'tap'
import quotaPlugin, {
  callerKey,
  localAuthentication,
  MemoryQuotaStore,
  type Demand,
  type QuotaDefinition,
  type QuotaInfo,
  type QuotaOptions
} from '../../lib/index.js'
import { assertQuotaOptions } from '../../lib/start/plugin-checks.js'
import { matchExactly } from '../support/match-exactly.js'
import { published } from '../support/published.js'
import { createServer } from '../support/server.js'

type Quotas = Record<string, QuotaDefinition>

const dayMs = 86_400_000
const cost = 1

// The definition of a limit of 2, the words in the message of a rejection, the period, the length
// of the window (null for what begins with the calendar), and the name of the counters.
const limits: [
  definition: QuotaDefinition,
  text: string,
  period: QuotaInfo['period'],
  window: number | null,
  counters: string
][] = [
  [{ perMinute: 2 }, 'requests per minute', 'minute', 60_000, 'requests.minute'],
  [{ perHour: 2 }, 'requests per hour', 'hour', 3_600_000, 'requests.hour'],
  [{ perDay: 2 }, 'requests per day', 'day', dayMs, 'requests.day'],
  [{ perWeek: 2 }, 'requests per week', 'week', 7 * dayMs, 'requests.week'],
  [
    { perWeek: { tokens: 2 }, cost, timeZone: () => 'Asia/Tokyo' },
    'tokens per week',
    'week',
    null,
    'tokens.week.zone'
  ],
  [{ perMonth: 2 }, 'requests per month', 'month', null, 'requests.month.UTC'],
  [{ perMinute: { tokens: 2 }, cost }, 'tokens per minute', 'minute', 60_000, 'tokens.minute'],
  [
    { perHour: { 'micro-dollars': 2 }, cost },
    'micro-dollars per hour',
    'hour',
    3_600_000,
    'micro-dollars.hour'
  ],
  [
    { limit: 2, window: 18_000_000 },
    'requests per 18000 seconds',
    null,
    18_000_000,
    'requests.18000000'
  ],
  [
    { limit: { tokens: 2 }, cost, window: 366 * dayMs },
    'tokens per 31622400 seconds',
    null,
    366 * dayMs,
    'tokens.31622400000'
  ],
  [{ concurrent: 2 }, 'concurrent LLM requests', null, null, 'concurrent']
]

/** A server with a quota for each limit, `chat-0` and so on, which a header names. */
function createServerOfLimits (options: QuotaOptions = {}) {
  const quotas = Object.fromEntries(
    limits.map(([definition], index) => [`chat-${index}`, definition])
  )
  return createServer({ mark: ({ headers }) => String(headers['x-quota']), quotas, ...options })
}

t.test('a limit has its window and its counters', async (t) => {
  const { app, store, ask, begin, clock } = await createServerOfLimits()
  for (const [index, [, text, period, window, ofQuota]] of limits.entries()) {
    const name = `chat-${index}`
    const headers = { 'x-quota': name }
    const running = [await begin(headers), await begin(headers)]
    const unit = unitOf(text)
    const counters = `${name}.${ofQuota}`
    const quota = app.quotas.find((each) => each.name === name)
    matchExactly(t, quota, { unit, period, window, counters, store }, counters)
    t.equal(store.list(counters).callers[0]?.count, 2, counters)
    for (const { request } of running) {
      matchExactly(t, request.quota.decisions, [{ unit, period, window, limit: 2 }])
      matchExactly(t, await app.quotaStanding(request, name), { unit, period, window })
    }
    if (window === null) continue
    clock.advance(window - 1)
    t.equal((await ask({ headers })).statusCode, 429, counters)
    clock.advance(1)
    t.equal((await ask({ headers })).statusCode, 200, counters)
  }
})

t.test('a rejection names the limit, its unit and its window', async (t) => {
  const { ask, begin, clock } = await createServerOfLimits({ rateLimitHeaders: 'draft-10' })
  for (const [index, [, text, , window]] of limits.entries()) {
    const name = `chat-${index}`
    const headers = { 'x-quota': name }
    const unit = unitOf(text)
    const isConcurrent = unit === 'concurrent-requests'
    const running = [await begin(headers), await begin(headers)]
    // What is held is waited for instead of the window.
    if (!isConcurrent) for (const { end } of running) await end()
    if (window !== null) clock.advance(window - 1_500)
    const lasting = window === null ? '' : `;w=${window / 1000}`
    const ofUnit = unit === 'requests' ? '' : `;qu="${unit}"`
    const words = isConcurrent ? text : `LLM ${text}`
    matchExactly(t, await ask({ headers }), {
      body: `{"error":"Rate limit exceeded. Maximum 2 ${words}. Please wait.","status":429}`,
      headers: {
        'retry-after': window === null ? /^\d+$/ : '2',
        'ratelimit-policy': `"${name}";q=2${lasting}${ofUnit}`
      }
    })
  }
})

/** Returns the unit of which the message of a rejection speaks. */
function unitOf (text: string): string {
  const [unit] = text.split(' ')
  return unit === 'concurrent' ? 'concurrent-requests' : String(unit)
}

// For each limit, the ends of the names of its preference and its variable.
const settings: [limit: string, more: object, key: string, variable: string][] = [
  ['perMinute', {}, 'per-minute', 'PER_MINUTE'],
  ['perHour', {}, 'per-hour', 'PER_HOUR'],
  ['perDay', { timeZone: 'Asia/Tokyo' }, 'per-day', 'PER_DAY'],
  ['perWeek', {}, 'per-week', 'PER_WEEK'],
  ['perMonth', {}, 'per-month', 'PER_MONTH'],
  ['limit', { window: 5_000 }, 'limit', 'LIMIT'],
  ['concurrent', {}, 'concurrent', 'CONCURRENT']
]

t.test('each limit has a preference and a variable, named after its quota', async (t) => {
  const variables = settings.map(([, , , end], index) => `SERVICE_RATE_LIMIT_CHAT_${index}_${end}`)
  t.teardown(() => {
    for (const variable of variables) Reflect.deleteProperty(process.env, variable)
  })
  const preferences = new Map<string, unknown>()
  const quotas = Object.fromEntries(
    settings.map(([limit, more], index) => [`chat-${index}`, { [limit]: 20 + index, ...more }])
  )
  const limitsFrom = async (first: number): Promise<void> => {
    const { app, begin } = await createServer({ preferences, quotas })
    t.same(Object.keys(app.quotaConfig), ['SERVICE_RATE_LIMIT_PER_MINUTE', ...variables])
    const { request } = await begin()
    t.same(
      request.quota.decisions.map(({ limit }) => limit),
      settings.map((_, index) => first + index)
    )
  }
  await limitsFrom(20)
  for (const [index, variable] of variables.entries()) process.env[variable] = String(70 + index)
  await limitsFrom(70)
  preferences.set('rate-limit.per-minute', '9')
  await limitsFrom(70)
  for (const [index, [, , key]] of settings.entries()) {
    preferences.set(`rate-limit.chat-${index}.${key}`, String(80 + index))
  }
  await limitsFrom(80)
  const variable = 'SERVICE_RATE_LIMIT_CHAT_6_CONCURRENT'
  process.env[variable] = 'many'
  await t.rejects(limitsFrom(80), {
    code: 'FST_ERR_LLM_QUOTA_ENVIRONMENT',
    message:
      `fastify-llm-quota: the environment variable ${variable} must be an integer; it got "many"`
  })
})

t.test('a quota without a limit has one of 10 requests per minute, with a cost of 1', async (t) => {
  const { app, ask } = await createServer({ quotas: { chat: {} } })
  t.match(app.quotaConfig, { SERVICE_RATE_LIMIT_CHAT_PER_MINUTE: 10 })
  t.ok(Object.isFrozen(app.quotaConfig))
  const names = app.quotas.map((quota) => quota.name)
  t.same(names, ['chat'], 'without a default quota that protects nothing')
  matchExactly(t, (await ask()).json(), [
    { quota: 'chat', limit: 10, unit: 'requests', window: 60_000, granted: 1 }
  ])
})

for (const [mode, other] of [['enforce', 'shadow'], ['shadow', 'enforce']] as const) {
  t.test(`a quota has the mode of the plugin, ${mode}, unless it has its own`, async (t) => {
    const { ask } = await createServer({
      mark: ['default', 'chat', 'own'],
      mode,
      quotas: { chat: {}, own: { mode: other } }
    })
    const isEnforced = mode === 'enforce'
    matchExactly(t, (await ask()).json(), [
      { quota: 'default', enforced: isEnforced },
      { quota: 'chat', enforced: isEnforced },
      { quota: 'own', enforced: !isEnforced }
    ])
  })
}

t.test('a quota counts in the store of the plugin, unless it has its own', async (t) => {
  const own = new MemoryQuotaStore()
  const { store, ask } = await createServer({
    quotas: { chat: { perHour: 5 }, own: { perHour: 5, store: own } }
  })
  t.equal((await ask()).statusCode, 200)
  const callersIn = (each: MemoryQuotaStore) =>
    ['chat', 'own'].map((name) => each.inspect(`${name}.requests.hour`).trackedCallers)
  t.same(callersIn(store), [1, 0])
  t.same(callersIn(own), [0, 1])
})

t.test(
  "a quota's own authentication precedes the plugin's; quotas that share one ask for it once",
  async (t) => {
    const asked: string[] = []
    const readerOf = (username: string) => () => {
      asked.push(username)
      return localAuthentication(username)
    }
    const [authentication, another] = [readerOf('alice'), readerOf('bob')]
    const quotas: Quotas = {
      one: { authentication: another },
      two: { authentication },
      three: { authentication: another },
      four: {}
    }
    const names = ['default', ...Object.keys(quotas)]
    const { ask } = await createServer({ mark: names, authentication, quotas })
    const messages = await published(async () => {
      t.equal((await ask()).statusCode, 200)
    })
    t.same(asked, ['alice', 'bob'])
    const alice = callerKey(localAuthentication('alice'))
    const bob = callerKey(localAuthentication('bob'))
    t.same(messages.map(({ decision }) => decision.callerKey), [alice, bob, alice, bob, alice])
  }
)

t.test(
  'rateLimitHeaders has an item for each enforced quota that was asked, with its unit',
  async (t) => {
    const quotas: Quotas = {
      tokens: { perDay: { tokens: 500 }, cost: 300 },
      streams: { concurrent: 2 },
      off: { perHour: 0 },
      tried: { perHour: 1, mode: 'shadow' }
    }
    const { ask, clock } = await createServer({
      mark: ['default', ...Object.keys(quotas)],
      rateLimitHeaders: 'draft-10',
      perMinute: 2,
      quotas
    })
    const policy =
      '"default";q=2;w=60, "tokens";q=500;w=86400;qu="tokens", ' +
      '"streams";q=2;qu="concurrent-requests"'
    matchExactly(t, (await ask()).headers, {
      'ratelimit-policy': policy,
      ratelimit: '"default";r=1;t=60, "tokens";r=200;t=86400, "streams";r=1'
    })
    clock.advance(1_000)
    matchExactly(
      t,
      (await ask()).headers,
      {
        'retry-after': '86399',
        'ratelimit-policy': policy,
        ratelimit: '"default";r=1;t=59, "tokens";r=200;t=86399, "streams";r=2'
      },
      'no quota has counted it'
    )
  }
)

const range = { least: 500, most: 1500 }
const tokens = { perMinute: { tokens: 5 } }
const aCost =
  'must be a safe integer of at least 0, or { least, most } of two of them, least not above ' +
  'most, or a function'
const aRange = 'must be a range only with a limit in a unit, such as { tokens: 20000 }'
const aLimit = 'must be an integer, or a function that returns that of a caller'
const aUnit = 'must have one unit, such as { tokens: 20000 }'
const aUnitName = 'must have a unit of at most 32'
const aWindow = 'must be an integer of milliseconds from 1000 to 31622400000'
const aZone = 'must be the name of an IANA time zone'
const aZoned = 'must be set only with perDay, perWeek or perMonth'

// Definitions of a quota that are not possible: what is wrong, the beginning of what it must be,
// and what it got.
type Impossible = [definition: unknown, option: string, rule: string, got: string]
const impossible: Impossible[] = [
  [null, '', 'must be a plain object', 'null'],
  [new Map([['perDay', 5]]), '', 'must be a plain object', 'an object'],
  [Object.create({ perDay: 5 }), '', 'must be a plain object', 'an object'],
  [{ perSecond: 5 }, '.perSecond', 'does not exist', '5'],
  [{ perMinute: 5, perDay: { tokens: 0 } }, '', 'must have one limit', '"perMinute and perDay"'],
  [{ limit: 5, window: 5000, concurrent: 2 }, '', 'must have one limit', '"limit and concurrent"'],
  ...['perHour', 'perWeek', 'concurrent'].map(
    (name): Impossible => [{ [name]: 1.5 }, `.${name}`, aLimit, '1.5']
  ),
  [{ perHour: { tokens: '5' } }, '.perHour.tokens', aLimit, '"5"'],
  [{ concurrent: { tokens: 5 } }, '.concurrent', aLimit, 'an object'],
  [{ perHour: { tokens: 5, images: 5 } }, '.perHour', aUnit, 'tokens and images'],
  [{ perHour: {} }, '.perHour', aUnit, 'no unit'],
  ...['requests', 'concurrent-requests', 'Tokens', '-x', 'x1', 'x'.repeat(33)].map(
    (unit): Impossible => [{ perDay: { [unit]: 5 } }, '.perDay', aUnitName, `"${unit}"`]
  ),
  [{ limit: { requests: 5 }, window: 5000 }, '.limit', aUnitName, '"requests"'],
  [{ limit: 5 }, '.limit', 'must be set together with window', '5'],
  [{ window: 5000 }, '.window', 'must be set only with limit', '5000'],
  [{ perDay: 5, window: 5000 }, '.window', 'must be set only with limit', '5000'],
  ...[999, 0, -1000, 366 * dayMs + 1, 1000.5, NaN].map(
    (window): Impossible => [{ limit: 5, window }, '.window', aWindow, String(window)]
  ),
  [{ limit: 5, window: '5000' }, '.window', aWindow, '"5000"'],
  [{ perMinute: 5, cost: -1 }, '.cost', aCost, '-1'],
  [{ ...tokens, cost: { least: 2, most: 1 } }, '.cost', aCost, '{ least: 2, most: 1 }'],
  [{ ...tokens, cost: { least: -1, most: 1 } }, '.cost', aCost, '{ least: -1, most: 1 }'],
  [{ ...tokens, cost: { least: 0.5, most: 1 } }, '.cost', aCost, '{ least: 0.5, most: 1 }'],
  [
    { ...tokens, cost: { least: 0, most: 2 ** 53 } },
    '.cost',
    aCost,
    '{ least: 0, most: 9007199254740992 }'
  ],
  [{ ...tokens, cost: { least: '1', most: 2 } }, '.cost', aCost, '{ least: "1", most: 2 }'],
  [{ ...tokens, cost: { most: 2 } }, '.cost', aCost, 'an object'],
  [{ ...tokens, cost: [1, 2] }, '.cost', aCost, 'an array'],
  [{ perMinute: 5, cost: range }, '.cost', aRange, '{ least: 500, most: 1500 }'],
  [{ cost: range }, '.cost', aRange, '{ least: 500, most: 1500 }'],
  [{ concurrent: 5, cost: 1 }, '.cost', 'must not be set with concurrent', '1'],
  [{ concurrent: 5, cost: range }, '.cost', 'must not be set with concurrent', 'an object'],
  [{ perMinute: 5, unreported: 5 }, '.unreported', 'must be set only with a limit in a unit', '5'],
  ...[1.5, -1].map((unreported): Impossible => [
    { ...tokens, unreported },
    '.unreported',
    'must be an integer of at least 0 or a function',
    String(unreported)
  ]),
  [{ perDay: 5, timeZone: 'Europe/Bärlin' }, '.timeZone', aZone, '"Europe/Bärlin"'],
  [{ perDay: 5, timeZone: '+01:00' }, '.timeZone', aZone, '"+01:00"'],
  [{ perDay: 5, timeZone: ['UTC'] }, '.timeZone', aZone, 'an array'],
  [{ perHour: 5, timeZone: 'UTC' }, '.timeZone', aZoned, '"UTC"'],
  [{ limit: 5, window: 5000, timeZone: 'UTC' }, '.timeZone', aZoned, '"UTC"'],
  [{ ...tokens, timeZone: () => 'UTC' }, '.timeZone', aZoned, 'a function'],
  [
    { operations: [{ method: 'POST', path: '/:x' }] },
    '.operations[0].path',
    'must start with',
    '"/:x"'
  ]
]

t.test('start-up fails if the definition of a quota is not possible, and says why', (t) => {
  for (const [chat, option, rule, got] of impossible) {
    const beginning = `fastify-llm-quota: the option quotas.chat${option} ${rule}`
    const check = () => {
      assertQuotaOptions({ quotas: { chat } })
    }
    const found = t.throws(check, { code: 'FST_ERR_LLM_QUOTA_OPTION' }, beginning)
    const message = found instanceof Error ? found.message : ''
    t.ok(message.startsWith(beginning) && message.includes(`; it got ${got}`), message)
  }
  t.end()
})

t.test('start-up fails if the name of a quota is not possible', async (t) => {
  const names = ['Chat', '1chat', 'cha_t', 'chat ', '', 'default', 'x'.repeat(33), 'café']
  const check = (quotas: unknown) => () => {
    assertQuotaOptions({ quotas })
  }
  for (const name of names) {
    t.throws(check({ [name]: {} }), {
      code: 'FST_ERR_LLM_QUOTA_OPTION',
      message: new RegExp(`option quotas must have names of at most 32 .* it got "${name}"`)
    })
  }
  for (const quotas of [new Map([['chat', {}]]), 'chat']) {
    t.throws(check(quotas), { message: /option quotas must be a plain object/ })
  }
  const possible = ['a', 'a-', 'x'.repeat(32), 'constructor']
  const quotas = Object.fromEntries(possible.map((name) => [name, {}]))
  const { ask } = await createServer({ quotas })
  matchExactly(t, (await ask()).json(), possible.map((quota) => ({ quota })))
})

t.test('definitions at their bounds are possible', async (t) => {
  const definitions: QuotaDefinition[] = [
    { ...tokens, cost: { least: 0, most: 0 } },
    { ...tokens, cost: { least: 7, most: Number.MAX_SAFE_INTEGER } },
    { ...tokens, cost: () => range },
    { perMonth: 5, timeZone: () => 'UTC' },
    { perWeek: 5, timeZone: 'UTC' },
    { limit: 5, window: 1000 },
    { limit: { tokens: () => 5 }, window: 366 * dayMs },
    { concurrent: () => 5 }
  ]
  const quotas = Object.fromEntries(definitions.map((chat, index) => [`chat-${index}`, chat]))
  await t.resolves(createServer({ quotas }))
})

t.test('start-up fails if a store lacks a function that one of its quotas needs', async (t) => {
  const acquire = (demands: readonly Demand[]) => new MemoryQuotaStore().acquire(demands)
  const plain = { acquire }
  const settling = { acquire, settle () {} }
  const { app, log } = await createServer({
    mark: ['default', 'chat'],
    store: { acquire },
    quotas: { chat: { perMinute: 1, store: settling } }
  })
  const permit = await app.quotaAcquire(localAuthentication('a'), ['default', 'chat'])
  t.match(permit.refusal, { outcome: 'unavailable', reason: 'store' }, 'the default quota, marked')
  matchExactly(t, log.errors(), [
    'the quota store failed; it may have counted the request all the same'
  ])
  const register = async (options: object) => {
    await Fastify().register(quotaPlugin, options as QuotaOptions)
  }
  for (const options of [
    { store: plain, quotas: { chat: { perDay: 5, cost: 2 } } },
    { store: settling, quotas: { chat: { concurrent: 5 }, other: { store: settling } } }
  ]) {
    await t.resolves(register(options))
  }
  const needing: object[] = [{ concurrent: 1 }, { perDay: { tokens: 5 } }, { store: settling }]
  for (const chat of needing) {
    await t.rejects(register({ store: plain, quotas: { chat } }), {
      code: 'FST_ERR_LLM_QUOTA_OPTION',
      message: /store of the quota (chat|default) must be a store with a function settle/
    })
  }
  await t.rejects(register({ store: settling, quotas: { chat: { store: {} } } }), {
    message: /quotas.chat.store must be a store with a function acquire; it got an object/
  })
})

t.test('the store of a default quota that is not used is not one of several', async (t) => {
  const store = { acquire: (demands: readonly Demand[]) => new MemoryQuotaStore().acquire(demands) }
  const options = { operations: [], quotas: { chat: { perMinute: 1, store } } }
  await t.resolves(async () => Fastify().register(quotaPlugin, options))
})
