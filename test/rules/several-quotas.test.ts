// docs/rules.md, "Several quotas": a request passes if each of its quotas admits it, and is counted
// by all of them or by none.
import Fastify from 'fastify'
import t from 'tap'
import quotaPlugin, {
  callerKey,
  localAuthentication,
  MemoryQuotaStore,
  type Demand,
  type QuotaDefinition,
  type QuotaInfo,
  type QuotaOptions,
  type QuotaStore
} from '../../lib/index.js'
import { matchExactly } from '../support/match-exactly.js'
import { createHost, fromHeader } from '../support/quota-host.js'
import { captureLog, published } from '../support/service.js'

type Quotas = Record<string, QuotaDefinition>

const failing: QuotaStore = {
  acquire () {
    throw new Error('gone')
  },
  settle () {}
}

/** A memory store whose results are promises. */
function asynchronous (store: MemoryQuotaStore): QuotaStore {
  return {
    acquire: async (demands) => store.acquire(demands),
    settle: async (...given) => {
      store.settle(...given)
    },
    peek: async (demand) => store.peek(demand)
  }
}

t.test(
  'a request is subject once to every quota that lists its operation or that its mark names, ' +
    'default first, then as defined',
  async (t) => {
    const seen: unknown[] = []
    const app = Fastify()
    const chat = { method: 'POST', path: '/api/chat' }
    const quotas: Quotas = {
      z: { operations: [{ ...chat, method: 'post' }] },
      a: {},
      other: { operations: [{ ...chat, method: 'GET' }] },
      m: { operations: [chat, chat] }
    }
    await app.register(quotaPlugin, { authentication: fromHeader, operations: [chat], quotas })
    app.addHook('onSend', async ({ quota, quotaDecisions }) => {
      seen.push([
        quota?.quota,
        quotaDecisions.map(
          ({ quota, operation }) => `${quota} ${operation?.method} ${operation?.path}`
        )
      ])
    })
    app.post(chat.path, { config: { quota: ['a', 'z'] } }, async () => 'ran')
    app.post('/api/*', async () => 'ran')
    for (const url of [chat.path, '/api%2fchat', '/api/other']) {
      await app.inject({ method: 'POST', url })
    }
    t.same(seen, [
      [
        'default',
        ['default POST /api/chat', 'z POST /api/chat', 'a POST /api/chat', 'm POST /api/chat']
      ],
      ['default', ['default POST /api/chat', 'z POST /api/chat', 'm POST /api/chat']],
      [undefined, []]
    ])
  }
)

t.test(
  'a request that one of its quotas rejects is counted by none, in one store or in two',
  async (t) => {
    for (const other of [
      () => undefined,
      () => new MemoryQuotaStore(),
      () => asynchronous(new MemoryQuotaStore())
    ]) {
      const store = other()
      const names = ['default', 'hourly', 'daily', 'tokens', 'streams']
      const quotas: Quotas = {
        hourly: { perHour: 2, ...(store && { store }) },
        daily: { perDay: 5 },
        tokens: { perMinute: { tokens: 50 }, cost: 5, ...(store && { store }) },
        streams: { concurrent: 1 }
      }
      const { statuses, counts, begin, ask } = await createHost(names, { perMinute: 3, quotas })
      t.same(await statuses(4), [200, 200, 429, 429])
      t.same(await counts(names), [2, 2, 2, 10, 0])
      const { end } = await begin({ 'x-caller': 'bob' })
      matchExactly(t, await ask({ headers: { 'x-caller': 'bob' } }), {
        statusCode: 429,
        headers: { 'retry-after': '1' }
      })
      t.same(await counts(names, { 'x-caller': 'bob' }), [1, 1, 1, 5, 1])
      await end()
    }
  }
)

t.test('a rejected request still reaches each counter: it opens the window', async (t) => {
  const quotas: Quotas = { tight: { perMinute: 1 }, wide: { perHour: 9 } }
  const { app, begin, statuses, clock, store } = await createHost(['tight', 'wide'], { quotas })
  const { request } = await begin()
  store.forget(String(request.quota?.callerKey), 'wide.requests.hour')
  clock.advance(30_000)
  t.same(await statuses(1), [429])
  t.match(await app.quotaStanding(request, 'wide'), { count: 0, windowRemaining: 3_600_000 })
})

const full = { perMinute: 1, cost: 1 }
const nobody = { authentication: () => null }
const outage = {
  authentication: () => {
    throw Object.assign(new Error('gone'), { statusCode: 503 })
  }
}
const costly: QuotaDefinition = { cost: () => -1 }

// The quotas of a request that is sent while another one of its caller runs, in their order, and
// the quota that refuses it.
const refusals: [
  what: string,
  quotas: Quotas,
  status: number,
  refusing: string,
  reason: string | null
][] = [
  ['no caller comes before a failed cost', { costly, nobody }, 401, 'nobody', 'no-authentication'],
  [
    'no caller comes before a failed authentication',
    { outage, nobody },
    401,
    'nobody',
    'no-authentication'
  ],
  ['no caller comes before a rejection', { full, nobody }, 401, 'nobody', 'no-authentication'],
  ['a failed cost comes before a rejection', { full, costly }, 503, 'costly', 'cost'],
  [
    'a failed authentication comes before a rejection',
    { full, outage },
    503,
    'outage',
    'authentication'
  ],
  [
    'concurrent requests come before a window',
    { full: { perDay: 1 }, streams: { concurrent: 1 } },
    429,
    'streams',
    null
  ],
  [
    'of two windows, the one with the longest wait',
    { full, hourly: { perHour: 1 }, another: { perMinute: 1 } },
    429,
    'hourly',
    null
  ],
  ['of equals, the first', { two: { perHour: 1 }, one: { perHour: 1 } }, 429, 'two', null],
  [
    'a rejection comes before a failed store',
    { broken: { store: failing }, full },
    429,
    'full',
    null
  ],
  ['a failed store', { wide: {}, broken: { store: failing } }, 503, 'broken', 'store']
]

for (const [what, quotas, statusCode, refusing, reason] of refusals) {
  t.test(`the response to a request that several quotas refuse: ${what}`, async (t) => {
    const { app, begin, ask } = await createHost(
      ({ url }) =>
        url === '/held'
          ? Object.keys(quotas).filter((name) => !/costly|nobody|outage|broken/.test(name))
          : Object.keys(quotas),
      { quotas }
    )
    await begin()
    const messages = await published(async () => {
      t.match(await ask(), { statusCode })
    })
    matchExactly(
      t,
      messages.map(({ decision }) => decision),
      [
        {
          quota: refusing,
          reason,
          outcome:
            statusCode === 401 ? 'unauthenticated' : statusCode === 429 ? 'rejected' : 'unavailable'
        }
      ]
    )
    t.equal(messages.length, 1, 'the refusing decision alone is published')
    t.same(
      messages.map(({ request }) => [request?.quota, request?.quotaDecisions]),
      messages.map(({ decision }) => [decision, [decision]])
    )
    await app.close()
  })
}

t.test('what one store has counted is settled with 0 if another one fails', async (t) => {
  const quotas: Quotas = { tokens: { perDay: { tokens: 9 }, cost: 4 }, broken: { store: failing } }
  const { app, ask, counts } = await createHost(['default', 'tokens', 'broken'], {
    rateLimitHeaders: 'draft-10',
    quotas
  })
  for (const { statusCode, headers } of [await ask(), await ask()]) {
    t.same([statusCode, headers.ratelimit], [503, undefined])
  }
  t.same(await counts(['default', 'tokens']), [0, 0])
  await app.close()
})

t.test(
  'a shadow quota is asked after the enforced ones have admitted, on its own, and refuses nothing',
  async (t) => {
    const shadows: Quotas = {
      full: { perHour: 0 },
      tried: { perHour: 1 },
      wide: { perHour: 9 },
      costly,
      nobody,
      broken: { store: failing }
    }
    const quotas: Quotas = { ...shadows, enforced: { perMinute: 2, mode: 'enforce' } }
    const { ask, counts } = await createHost(Object.keys(quotas), { mode: 'shadow', quotas })
    const outcomes = (
      await published(async () => {
        for (const status of [200, 200, 429]) t.equal((await ask()).statusCode, status)
      })
    ).map(
      ({ decision: { quota, outcome, enforced } }) =>
        `${quota} ${outcome}${enforced ? ', enforced' : ''}`
    )
    const others = [
      'wide admitted',
      'costly unavailable',
      'nobody unauthenticated',
      'broken unavailable',
      'enforced admitted, enforced'
    ]
    t.same(outcomes, [
      'full disabled',
      'tried admitted',
      ...others,
      'full disabled',
      'tried rejected',
      ...others,
      'enforced rejected, enforced'
    ])
    t.same(await counts(['tried', 'wide', 'enforced']), [1, 2, 2])
  }
)

t.test(
  'a limit of 0 disables that quota alone; if all are disabled, the request passes without ' +
    'authentication',
  async (t) => {
    const preferences = new Map([['rate-limit.one.per-minute', 0]])
    const { ask } = await createHost(['one', 'two'], { preferences, quotas: { one: {}, two: {} } })
    matchExactly(t, (await ask()).json(), [
      { quota: 'one', outcome: 'disabled', limit: 0, count: null, callerKey: null },
      { quota: 'two', outcome: 'admitted' }
    ])
    t.equal((await ask({ headers: { 'x-caller': '' } })).statusCode, 401)
    preferences.set('rate-limit.two.per-minute', 0)
    matchExactly(t, (await ask({ headers: { 'x-caller': '' } })).json(), [
      { quota: 'one', outcome: 'disabled' },
      { quota: 'two', outcome: 'disabled' }
    ])
  }
)

interface LimitCase {
  readonly definition: QuotaDefinition
  /** The words in the message of a rejection. */
  readonly text: string
  readonly unit: string
  readonly period: QuotaInfo['period']
  /** The length of the window; null for what begins with the calendar. */
  readonly window: number | null
  /** The end of the preference's name. */
  readonly key: string
  readonly counters: string
}

const dayMs = 86_400_000

const limits: readonly LimitCase[] = [
  {
    definition: { perMinute: 2 },
    text: '2 LLM requests per minute',
    unit: 'requests',
    period: 'minute',
    window: 60_000,
    key: 'per-minute',
    counters: 'chat-2.requests.minute'
  },
  {
    definition: { perHour: 2 },
    text: '2 LLM requests per hour',
    unit: 'requests',
    period: 'hour',
    window: 3_600_000,
    key: 'per-hour',
    counters: 'chat-2.requests.hour'
  },
  {
    definition: { perDay: 2 },
    text: '2 LLM requests per day',
    unit: 'requests',
    period: 'day',
    window: dayMs,
    key: 'per-day',
    counters: 'chat-2.requests.day'
  },
  {
    definition: { perDay: 2, timeZone: 'Europe/Berlin' },
    text: '2 LLM requests per day',
    unit: 'requests',
    period: 'day',
    window: null,
    key: 'per-day',
    counters: 'chat-2.requests.day.Europe/Berlin'
  },
  {
    definition: { perWeek: 2 },
    text: '2 LLM requests per week',
    unit: 'requests',
    period: 'week',
    window: 7 * dayMs,
    key: 'per-week',
    counters: 'chat-2.requests.week'
  },
  {
    definition: { perWeek: { tokens: 2 }, cost: 1, timeZone: () => 'Asia/Tokyo' },
    text: '2 LLM tokens per week',
    unit: 'tokens',
    period: 'week',
    window: null,
    key: 'per-week',
    counters: 'chat-2.tokens.week.zone'
  },
  {
    definition: { perMonth: 2 },
    text: '2 LLM requests per month',
    unit: 'requests',
    period: 'month',
    window: null,
    key: 'per-month',
    counters: 'chat-2.requests.month.UTC'
  },
  {
    definition: { perMinute: { tokens: 2 }, cost: 1 },
    text: '2 LLM tokens per minute',
    unit: 'tokens',
    period: 'minute',
    window: 60_000,
    key: 'per-minute',
    counters: 'chat-2.tokens.minute'
  },
  {
    definition: { perHour: { 'micro-dollars': 2 }, cost: 1 },
    text: '2 LLM micro-dollars per hour',
    unit: 'micro-dollars',
    period: 'hour',
    window: 3_600_000,
    key: 'per-hour',
    counters: 'chat-2.micro-dollars.hour'
  },
  {
    definition: { perMonth: { tokens: 2 }, cost: 1, timeZone: 'Asia/Tokyo' },
    text: '2 LLM tokens per month',
    unit: 'tokens',
    period: 'month',
    window: null,
    key: 'per-month',
    counters: 'chat-2.tokens.month.Asia/Tokyo'
  },
  {
    definition: { limit: 2, window: 18_000_000 },
    text: '2 LLM requests per 18000 seconds',
    unit: 'requests',
    period: null,
    window: 18_000_000,
    key: 'limit',
    counters: 'chat-2.requests.18000000'
  },
  {
    definition: { limit: { tokens: 2 }, cost: 1, window: 366 * dayMs },
    text: '2 LLM tokens per 31622400 seconds',
    unit: 'tokens',
    period: null,
    window: 366 * dayMs,
    key: 'limit',
    counters: 'chat-2.tokens.31622400000'
  },
  {
    definition: { concurrent: 2 },
    text: '2 concurrent LLM requests',
    unit: 'concurrent-requests',
    period: null,
    window: null,
    key: 'concurrent',
    counters: 'chat-2.concurrent'
  }
]

for (const { definition, text, unit, period, window, key, counters } of limits) {
  t.test(
    `a limit of ${text} has its message, window, counters, preference and environment ` +
      `variable: ${counters}`,
    async (t) => {
      const variable = `SERVICE_RATE_LIMIT_CHAT_2_${key.toUpperCase().replaceAll('-', '_')}`
      t.teardown(() => {
        Reflect.deleteProperty(process.env, variable)
      })
      const start = (preferences = new Map<string, unknown>()) =>
        createHost('chat-2', {
          preferences,
          rateLimitHeaders: 'draft-10',
          quotas: { 'chat-2': definition }
        })
      const { app, store, ask, begin, clock } = await start()
      t.same(Object.keys(app.quotaConfig), ['SERVICE_RATE_LIMIT_PER_MINUTE', variable])
      const running = { first: await begin(), second: await begin() }
      const { request } = running.first
      matchExactly(t, request.quotaDecisions, [{ unit, period, window, limit: 2 }])
      matchExactly(
        t,
        app.quotas,
        [{ name: 'chat-2', unit, period, window, counters, store }],
        'without a default quota that protects nothing'
      )
      matchExactly(t, await app.quotaStanding(request, 'chat-2'), { unit, period, window })
      t.equal(store.list(counters).callers[0]?.count, 2)
      // What is held is waited for instead of the window.
      if (key !== 'concurrent') for (const { end } of Object.values(running)) await end()
      if (window !== null) clock.advance(window - 1_500)
      const lasting = window === null ? '' : `;w=${window / 1000}`
      const ofUnit = unit === 'requests' ? '' : `;qu="${unit}"`
      matchExactly(t, await ask(), {
        body: `{"error":"Rate limit exceeded. Maximum ${text}. Please wait.","status":429}`,
        headers: {
          'retry-after': window === null ? /^\d+$/ : '2',
          'ratelimit-policy': `"chat-2";q=2${lasting}${ofUnit}`
        }
      })
      if (window !== null) clock.advance(1_500)
      if (window !== null) t.equal((await ask()).statusCode, 200)
      process.env[variable] = '7'
      t.equal((await (await start()).begin()).request.quota?.limit, 7)
      const preferences = new Map([
        [`rate-limit.chat-2.${key}`, '8'],
        ['rate-limit.per-minute', '9']
      ])
      t.equal((await (await start(preferences)).begin()).request.quota?.limit, 8)
      process.env[variable] = 'many'
      await t.rejects(start(), {
        code: 'FST_ERR_LLM_QUOTA_ENVIRONMENT',
        message:
          `fastify-llm-quota: the environment variable ${variable} must be an integer; it ` +
          'got "many"'
      })
    }
  )
}

t.test(
  'a quota without a limit admits 10 requests per minute, and has the mode of the plugin',
  async (t) => {
    const { app, ask } = await createHost(['default', 'chat', 'strict'], {
      mode: 'shadow',
      quotas: { chat: {}, strict: { mode: 'enforce' } }
    })
    t.match(app.quotaConfig, {
      SERVICE_RATE_LIMIT_CHAT_PER_MINUTE: 10,
      SERVICE_RATE_LIMIT_STRICT_PER_MINUTE: 10
    })
    t.ok(Object.isFrozen(app.quotaConfig))
    matchExactly(t, (await ask()).json(), [
      { enforced: false },
      { quota: 'chat', enforced: false, limit: 10, unit: 'requests', window: 60_000 },
      { quota: 'strict', enforced: true }
    ])
  }
)

t.test(
  'quotas that share an authentication ask for it once for each request, and others for their own',
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
    const { ask } = await createHost(names, { authentication, quotas })
    const messages = await published(async () => {
      t.equal((await ask()).statusCode, 200)
    })
    t.same(asked, ['alice', 'bob'])
    const alice = callerKey(localAuthentication('alice'))
    const bob = callerKey(localAuthentication('bob'))
    t.same(
      messages.map(({ decision }) => decision.callerKey),
      [alice, bob, alice, bob, alice]
    )
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
    const { ask, clock } = await createHost(['default', ...Object.keys(quotas)], {
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

t.test(
  'start-up fails if the option quotas is invalid, with an error that contains the option ' +
    'and its value',
  async (t) => {
    const names = ['Chat', '1chat', 'cha_t', 'chat ', '', 'default', 'x'.repeat(33), 'café']
    const units = [
      'requests',
      'concurrent-requests',
      'Tokens',
      '-x',
      'x1',
      'x'.repeat(33)
    ]
    const invalid: [unknown, RegExp][] = [
      [new Map([['chat', {}]]), /option quotas must be a plain object .* it got an object/],
      [{ chat: new Map([['perDay', 5]]) }, /option quotas\.chat must be a plain object; it got/],
      [{ chat: Object.create({ perDay: 5 }) }, /option quotas\.chat must be a plain object;/],
      ['chat', /option quotas must be a plain object .* it got "chat"/],
      ...names.map((name): [unknown, RegExp] => [
        { [name]: {} },
        new RegExp(`option quotas must have names of at most 32 .* it got "${name}"`)
      ]),
      ...units.map((unit): [unknown, RegExp] => [
        { chat: { perDay: { [unit]: 5 } } },
        new RegExp(
          `option quotas\\.chat\\.perDay must have a unit of at most 32 .* it got "${unit}"`
        )
      ]),
      [{ chat: null }, /option quotas\.chat must be a plain object; it got null/],
      [
        { chat: { perSecond: 5 } },
        /option quotas\.chat\.perSecond does not exist; it got 5; .* limit, window, concurrent,/
      ],
      [
        { chat: { limit: 5 } },
        /option quotas\.chat\.limit must be set together with window, .* it got 5$/
      ],
      [
        { chat: { window: 5000 } },
        /option quotas\.chat\.window must be set only with limit; it got 5000$/
      ],
      [
        { chat: { perDay: 5, window: 5000 } },
        /option quotas\.chat\.window must be set only with limit; it got 5000$/
      ],
      ...[999, 0, -1000, 366 * dayMs + 1, 1000.5, NaN, '5000'].map((window): [unknown, RegExp] => [
        { chat: { limit: 5, window } },
        new RegExp(
          'option quotas\\.chat\\.window must be an integer of milliseconds from 1000 to ' +
            `31622400000; it got ${JSON.stringify(window).replace('null', 'NaN')}$`
        )
      ]),
      [
        { chat: { limit: 5, window: 5000, timeZone: 'UTC' } },
        /option quotas\.chat\.timeZone must be set only with perDay, perWeek or perMonth; it got "/
      ],
      [
        { chat: { limit: 5, window: 5000, concurrent: 2 } },
        /option quotas\.chat must have one limit; it got "limit and concurrent"$/
      ],
      [
        { chat: { limit: { requests: 5 }, window: 5000 } },
        /option quotas\.chat\.limit must have a unit .* it got "requests"$/
      ],
      ...['perHour', 'perWeek', 'concurrent'].map((name): [unknown, RegExp] => [
        { chat: { [name]: 1.5 } },
        new RegExp(
          `option quotas\\.chat\\.${name} must be an integer, or a function that returns that of ` +
            'a caller; it got 1\\.5$'
        )
      ]),
      [
        { chat: { perHour: { tokens: '5' } } },
        /option quotas\.chat\.perHour\.tokens must be an integer, or a function .*; it got "5"/
      ],
      [
        { chat: { concurrent: { tokens: 5 } } },
        /option quotas\.chat\.concurrent must be an integer, or a function .*; it got an object/
      ],
      [
        { chat: { perHour: { tokens: 5, images: 5 } } },
        /option quotas\.chat\.perHour must have one unit, such as .* it got tokens and images$/
      ],
      [
        { chat: { perHour: {} } },
        /option quotas\.chat\.perHour must have one unit, such as .* it got no unit$/
      ],
      [
        { chat: { perMinute: 5, perDay: { tokens: 0 } } },
        /option quotas\.chat must have one limit; it got "perMinute and perDay"/
      ],
      [
        { chat: { concurrent: 5, cost: 1 } },
        /option quotas\.chat\.cost must not be set with concurrent/
      ],
      [{ chat: { perMinute: 5, cost: -1 } }, /option quotas\.chat\.cost must be .*; it got -1/],
      [
        { chat: { perMinute: 5, unreported: 5 } },
        /option quotas\.chat\.unreported must be set only with a limit in a unit.*; it got 5/
      ],
      [
        { chat: { perDay: { tokens: 5 }, unreported: 1.5 } },
        /option quotas\.chat\.unreported must be .*; it got 1.5/
      ],
      [
        { chat: { perDay: 5, timeZone: 'Europe/Bärlin' } },
        /option quotas\.chat\.timeZone must be .* IANA time zone.*; it got "Europe\/Bärlin"/
      ],
      [
        { chat: { perDay: 5, timeZone: '+01:00' } },
        /option quotas\.chat\.timeZone must be the name of an IANA time zone/
      ],
      [
        { chat: { perHour: 5, timeZone: 'UTC' } },
        /option quotas\.chat\.timeZone must be set only with perDay, perWeek or perMonth/
      ],
      [
        { chat: { operations: [{ method: 'POST', path: '/:x' }] } },
        /option quotas\.chat\.operations\[0\]\.path must start .* it got "\/:x"/
      ]
    ]
    for (const [quotas, message] of invalid) {
      await t.rejects(
        async () => {
          await Fastify().register(quotaPlugin, Object({ quotas }))
        },
        { code: 'FST_ERR_LLM_QUOTA_OPTION', message },
        String(message)
      )
    }
    for (const name of ['a', 'a-', 'x'.repeat(32), 'constructor']) {
      matchExactly(
        t,
        (await (await createHost(name, { quotas: { [name]: { perMinute: 1 } } })).ask()).json(),
        [{ quota: name }]
      )
    }
  }
)

t.test('start-up fails if a store lacks a function that one of its quotas needs', async (t) => {
  const acquire = (demands: readonly Demand[]) => new MemoryQuotaStore().acquire(demands)
  const plain = { acquire }
  const settling = { acquire, settle () {} }
  const log = captureLog()
  const { app } = await createHost(
    ['default', 'chat'],
    { store: { acquire }, quotas: { chat: { perMinute: 1, store: settling } } },
    { logger: log.logger }
  )
  const permit = await app.quotaAcquire(localAuthentication('a'), ['default', 'chat'])
  t.match(permit.refusal, { outcome: 'unavailable', reason: 'store' }, 'the default quota, marked')
  matchExactly(t, log.errors(), ['the quota store failed; the request is not counted'])
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
