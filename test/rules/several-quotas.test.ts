// docs/rules.md, "Several quotas": a request passes if each of its quotas admits it, and is counted
// by all of them or by none.
import Fastify from 'fastify'
import t from 'tap'
import quotaPlugin, {
  localAuthentication,
  MemoryQuotaStore,
  type Demand,
  type QuotaDefinition,
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
  'a request is subject to every quota that lists its operation or that its mark names, ' +
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

t.test('what one store has counted is taken back if another one fails', async (t) => {
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

// For each limit: the message of a rejection and the length of the window; null for what begins
// with the calendar.
const limits: [
  definition: QuotaDefinition,
  text: string,
  window: number | null,
  key: string,
  counters: string
][] = [
  [{ perMinute: 2 }, '2 LLM requests per minute', 60_000, 'per-minute', 'chat-2.requests.minute'],
  [{ perHour: 2 }, '2 LLM requests per hour', 3_600_000, 'per-hour', 'chat-2.requests.hour'],
  [{ perDay: 2 }, '2 LLM requests per day', 86_400_000, 'per-day', 'chat-2.requests.day'],
  [
    { perDay: 2, timeZone: 'Europe/Berlin' },
    '2 LLM requests per day',
    null,
    'per-day',
    'chat-2.requests.day.Europe/Berlin'
  ],
  [{ perMonth: 2 }, '2 LLM requests per month', null, 'per-month', 'chat-2.requests.month.UTC'],
  [
    { perMinute: { tokens: 2 }, cost: 1 },
    '2 LLM tokens per minute',
    60_000,
    'per-minute',
    'chat-2.tokens.minute'
  ],
  [
    { perHour: { 'micro-dollars': 2 }, cost: 1 },
    '2 LLM micro-dollars per hour',
    3_600_000,
    'per-hour',
    'chat-2.micro-dollars.hour'
  ],
  [
    { perMonth: { tokens: 2 }, cost: 1, timeZone: 'Asia/Tokyo' },
    '2 LLM tokens per month',
    null,
    'per-month',
    'chat-2.tokens.month.Asia/Tokyo'
  ],
  [{ concurrent: 2 }, '2 LLM requests at once', null, 'concurrent', 'chat-2.concurrent']
]

for (const [definition, text, window, key, counters] of limits) {
  t.test(
    `a limit of ${text} has its message, window, counters, preference and environment ` +
      `variable: ${counters}`,
    async (t) => {
      const variable = `SERVICE_RATE_LIMIT_CHAT_2_${key.toUpperCase().replaceAll('-', '_')}`
      t.teardown(() => {
        Reflect.deleteProperty(process.env, variable)
      })
      const start = (preferences = new Map<string, unknown>()) =>
        createHost('chat-2', { preferences, quotas: { 'chat-2': definition } })
      const { app, store, ask, begin, clock } = await start()
      t.same(Object.keys(app.quotaConfig), ['SERVICE_RATE_LIMIT_PER_MINUTE', variable])
      const running = { first: await begin(), second: await begin() }
      const { request } = running.first
      const { unit = '' } = request.quota ?? {}
      t.ok(text.includes(unit.replace('-concurrent', '')))
      matchExactly(
        t,
        app.quotas,
        [{ name: 'chat-2', unit, window, counters, store }],
        'without a default quota that protects nothing'
      )
      t.equal(store.list(counters).callers[0]?.count, 2)
      // What is held is waited for instead of the window.
      if (key !== 'concurrent') for (const { end } of Object.values(running)) await end()
      if (window !== null) clock.advance(window - 1_500)
      matchExactly(t, await ask(), {
        body: `{"error":"Rate limit exceeded. Maximum ${text}. Please wait.","status":429}`,
        headers: { 'retry-after': window === null ? /^\d+$/ : '2' }
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

t.test('quotas that share an authentication ask for it once for each request', async (t) => {
  const asked: string[] = []
  const readerOf = (username: string) => () => {
    asked.push(username)
    return localAuthentication(username)
  }
  const [authentication, another] = [readerOf('alice'), readerOf('bob')]
  const quotas: Quotas = {
    one: {},
    two: { authentication },
    three: { authentication: another },
    four: { authentication: another }
  }
  const { ask } = await createHost(['default', ...Object.keys(quotas)], { authentication, quotas })
  t.equal((await ask()).statusCode, 200)
  t.same(asked, ['alice', 'bob'])
})

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
      [{ chat: { limit: 5 } }, /option quotas\.chat\.limit does not exist; it got 5/],
      [{ chat: { perHour: 1.5 } }, /option quotas\.chat\.perHour must be an integer; it got 1\.5$/],
      [
        { chat: { perHour: { tokens: '5' } } },
        /option quotas\.chat\.perHour\.tokens must be an integer; it got "5"/
      ],
      [
        { chat: { perHour: { tokens: 5, images: 5 } } },
        /option quotas\.chat\.perHour must be an integer, or an object with one.*tokens and images/
      ],
      [
        { chat: { perHour: {} } },
        /option quotas\.chat\.perHour must be an integer, or an object with one unit.*no unit/
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
        /option quotas\.chat\.timeZone must be set only with perDay or perMonth/
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
