// docs/rules.md, "Several quotas": each has its own operations, limit and counters, and a request passes if each of its quotas admits it.
import Fastify from 'fastify'
import t from 'tap'
import quotaPlugin, { localAuthentication, MemoryQuotaStore, type QuotaDefinition, type RouteMark } from '../../lib/index.js'
import { createHost, fromHeader, fromOrganisation } from '../support/quota-host.js'
import { captureLog, published } from '../support/service.js'

const chat = { method: 'POST', path: '/api/chat' }
const marked = { method: 'POST', path: '/marked' }

t.test('a mark is true, a name, an array of names, or a function that returns one of these; false, null and an empty array are none', async (t) => {
  const marks: [unknown, string[]][] = [
    [true, ['default']], ['chat', ['chat']], ['default', ['default']], [['chat'], ['chat']], [['chat', 'default'], ['default', 'chat']], [['images', 'chat', 'images'], ['chat', 'images']],
    [false, []], [[], []], [undefined, []]
  ]
  const quotas = { chat: { perMinute: 5 }, images: { perMinute: 5 } }
  for (const [mark, names] of [...marks, ...[...marks, [null, []] as const].map(([mark, names]) => [() => mark, names] as const)]) {
    const { ask } = await createHost(mark as RouteMark, { quotas })
    const decisions = (await ask()).json()
    t.match(decisions, names.map((quota) => ({ quota, outcome: 'admitted', count: 1, operation: marked })), `${String(mark)} is ${names}`)
    t.equal(decisions.length, names.length)
  }
})

t.test('the function of a mark gets the request, and is called once for each request', async (t) => {
  let calls = 0
  const mark: RouteMark = ({ headers }) => {
    calls += 1
    return headers['x-premium'] === undefined ? 'basic' : ['premium', 'basic']
  }
  const { app, ask } = await createHost(mark, { quotas: { premium: { perMinute: 2 }, basic: { perMinute: 2 } } })
  app.post('/lost', { config: { quota: mark } }, (_request, reply) => { reply.callNotFound() })
  t.match((await ask()).json(), [{ quota: 'basic' }])
  t.match((await ask({ headers: { 'x-premium': '1' } })).json(), [{ quota: 'premium' }, { quota: 'basic' }], 'in the order of the definitions')
  t.equal(calls, 2)
  t.equal((await ask({ url: '/lost' })).statusCode, 429)
  t.equal(calls, 3)
})

t.test('a function that throws or returns the name of no quota refuses with 503, unless every quota is in shadow mode', async (t) => {
  const marks: (() => unknown)[] = [() => { throw new Error('of the host') }, () => 'chatt', () => ['chat', 'chatt'], () => 5, () => ({})]
  for (const mark of marks) {
    for (const [mode, chatMode, status] of [['enforce', 'enforce', 503], ['shadow', 'enforce', 503], ['shadow', 'shadow', 200]] as const) {
      const log = captureLog()
      const { ask, counts } = await createHost(mark as RouteMark, { mode, quotas: { chat: { mode: chatMode } } }, { logger: log.logger })
      const { statusCode, body, headers } = await ask()
      t.equal(statusCode, status, `${mark} ${mode}`)
      if (status === 503) t.match([body, headers['retry-after'], headers['cache-control']], ['{"error":"The request quota is unavailable. Please try again.","status":503}', '1', 'no-store'])
      t.match(log.lines.filter(({ level }) => level === 50), [{ msg: /quotas of the request could not be determined/, err: { message: /of the host|POST \/marked/ } }])
      t.same(await counts(['default', 'chat']), [0, 0])
    }
  }
})

t.test('a request is subject to every quota that lists its operation or that its mark names, in the order default, then as defined', async (t) => {
  const seen: unknown[] = []
  const app = Fastify()
  const listed = { method: 'post', path: chat.path }
  await app.register(quotaPlugin, { authentication: fromHeader, operations: [chat], quotas: { z: { operations: [listed] }, a: {}, other: { operations: [{ method: 'GET', path: chat.path }] }, m: { operations: [chat, chat] } } })
  app.addHook('onSend', async ({ quota, quotaDecisions }) => { seen.push([quota?.quota, quotaDecisions.map(({ quota, operation }) => `${quota} ${operation.method} ${operation.path}`)]) })
  app.post(chat.path, { config: { quota: ['a', 'z'] } }, async () => 'ran')
  app.post('/api/*', async () => 'ran')
  for (const url of [chat.path, '/api%2fchat', '/api/other']) await app.inject({ method: 'POST', url })
  t.same(seen, [
    ['default', ['default POST /api/chat', 'z POST /api/chat', 'a POST /api/chat', 'm POST /api/chat']],
    ['default', ['default POST /api/chat', 'z POST /api/chat', 'm POST /api/chat']],
    [undefined, []]
  ])
})

t.test('a request that one of its quotas rejects is counted by none', async (t) => {
  const names = ['default', 'hourly', 'daily', 'tokens', 'streams']
  const quotas = { hourly: { perHour: 2 }, daily: { perDay: 5 }, tokens: { tokensPerMinute: 5 }, streams: { inFlight: 1 } }
  const { clock, statuses, counts } = await createHost(names, { perMinute: 3, quotas })
  t.same(await statuses(4), [200, 200, 429, 429])
  t.same(await counts(names), [2, 2, 2, 0, 0])
  clock.advance(60_000)
  t.same(await statuses(1), [429], 'the window of an hour is still open')
  t.same(await counts(names), [0, 2, 2, 0, 0])
  clock.advance(3_540_000)
  t.same(await statuses(3), [200, 200, 429])
  t.same(await counts(names), [2, 2, 4, 0, 0])
})

const periods = { perMinute: ['requests per minute', 60], perHour: ['requests per hour', 3_600], perDay: ['requests per day', 86_400], tokensPerMinute: ['tokens per minute', 60], tokensPerHour: ['tokens per hour', 3_600], tokensPerDay: ['tokens per day', 86_400] } as const

for (const [limit, [text, seconds]] of Object.entries(periods)) {
  t.test(`a quota with the limit ${limit} has its window, and says so in its message`, async (t) => {
    const { app, ask, clock, counts } = await createHost('named', { quotas: { named: { [limit]: 2 } } })
    app.addHook('onSend', async (request) => { if (limit.startsWith('tokens')) await app.quotaCharge(request, 1) })
    for (const count of [1, 2]) {
      t.equal((await ask()).statusCode, 200)
      t.same(await counts(['named']), [count])
    }
    clock.advance(seconds * 1000 - 1500)
    const rejected = await ask()
    t.equal(rejected.statusCode, 429)
    t.equal(rejected.body, `{"error":"Rate limit exceeded. Maximum 2 LLM ${text}. Please wait.","status":429}`)
    t.equal(rejected.headers['retry-after'], '2')
    clock.advance(1500)
    t.equal((await ask()).statusCode, 200)
  })
}

t.test('quotas that share an authentication ask for it once for each request', async (t) => {
  const asked: string[] = []
  const readerOf = (username: string) => () => { asked.push(username); return localAuthentication(username) }
  const [authentication, another] = [readerOf('alice'), readerOf('bob')]
  const quotas = { one: {}, two: { authentication }, three: { authentication: another }, four: { authentication: another } }
  const { ask } = await createHost(['default', ...Object.keys(quotas)], { authentication, quotas })
  t.equal((await ask()).statusCode, 200)
  t.same(asked, ['alice', 'bob'])
})

t.test('the mode of the plugin is the default of its quotas, and each decision is published', async (t) => {
  const { ask } = await createHost(['default', 'chat', 'enforced'], { mode: 'shadow', quotas: { chat: {}, enforced: { mode: 'enforce' } } })
  const messages = await published(ask)
  t.match(messages.map(({ decision }) => decision), [{ enforced: false }, { quota: 'chat', enforced: false }, { quota: 'enforced', enforced: true }])
})

t.test('each limit has a preference and an environment variable of its own', async (t) => {
  const limits = { perMinute: 'per-minute', perHour: 'per-hour', perDay: 'per-day', tokensPerMinute: 'tokens-per-minute', tokensPerHour: 'tokens-per-hour', tokensPerDay: 'tokens-per-day', inFlight: 'in-flight' }
  for (const [limit, key] of Object.entries(limits)) {
    const variable = `SERVICE_RATE_LIMIT_CHAT_2_${key.toUpperCase().replaceAll('-', '_')}`
    const limitNow = async (preferences?: Map<string, unknown>) => {
      const { ask, app } = await createHost('chat-2', { perMinute: 1, quotas: { 'chat-2': { [limit]: 6 } }, ...(preferences && { preferences }) })
      t.same(Object.keys(app.quotaConfig), ['SERVICE_RATE_LIMIT_PER_MINUTE', variable])
      return (await ask()).json()[0].limit
    }
    t.equal(await limitNow(), 6)
    process.env[variable] = '7'
    try {
      t.equal(await limitNow(), 7)
      t.equal(await limitNow(new Map([[`rate-limit.chat-2.${key}`, '8'], ['rate-limit.per-minute', '9']])), 8)
      process.env[variable] = 'many'
      await t.rejects(limitNow(), { code: 'FST_ERR_LLM_QUOTA_ENVIRONMENT', message: `fastify-llm-quota: the environment variable ${variable} must be an integer; it got "many"` })
    } finally {
      Reflect.deleteProperty(process.env, variable)
    }
  }
  const { app, ask } = await createHost('chat', { quotas: { chat: {} } })
  t.same(app.quotaConfig, { SERVICE_RATE_LIMIT_PER_MINUTE: 10, SERVICE_RATE_LIMIT_CHAT_PER_MINUTE: 10 })
  t.ok(Object.isFrozen(app.quotaConfig))
  t.match((await ask()).json(), [{ limit: 10, unit: 'requests', window: 60_000 }], 'a quota without a limit admits 10 requests per minute')
})

t.test('rateLimitHeaders has an item for each quota, with its unit', async (t) => {
  const quotas: Record<string, QuotaDefinition> = { 'tokens-a-day': { tokensPerDay: 500 }, streams: { inFlight: 2 }, off: { perHour: 0 }, tried: { perHour: 1, mode: 'shadow' } }
  const { app, ask, clock } = await createHost(['default', ...Object.keys(quotas)], { rateLimitHeaders: 'draft-10', perMinute: 2, quotas })
  app.addHook('onSend', async (request) => { await app.quotaCharge(request, 499) })
  const { headers } = await ask()
  t.equal(headers['ratelimit-policy'], '"default";q=2;w=60, "tokens-a-day";q=500;w=86400;qu="tokens", "streams";q=2;qu="concurrent-requests"')
  t.equal(headers.ratelimit, '"default";r=1;t=60, "tokens-a-day";r=500;t=86400, "streams";r=1')
  clock.advance(1_000)
  t.match((await ask()).headers.ratelimit, '"default";r=0;t=59, "tokens-a-day";r=1;t=86399, "streams";r=1')
  const rejected = await ask()
  t.match(rejected.headers, { 'retry-after': '86399', ratelimit: /"tokens-a-day";r=0;t=86399/ }, 'the charges overshoot the limit')
})

t.test('quotaStanding tells the unit, the window and the count of each quota', async (t) => {
  const { app, ask, clock } = await createHost(['default', 'tokens', 'streams'], { perMinute: 2, quotas: { tokens: { tokensPerHour: 10 }, streams: { inFlight: 3 }, organisation: { authentication: fromOrganisation } } })
  const standings: unknown[] = []
  app.addHook('onSend', async (request) => {
    if (request.url !== '/marked') return
    await app.quotaCharge(request, 12)
    clock.advance(1_000)
    for (const name of ['default', 'tokens', 'streams', 'organisation']) standings.push(await app.quotaStanding(request, name))
  })
  await ask()
  t.same(standings, [
    { quota: 'default', unit: 'requests', window: 60_000, limit: 2, count: 1, remaining: 1, windowRemaining: 59_000, overflow: false },
    { quota: 'tokens', unit: 'tokens', window: 3_600_000, limit: 10, count: 12, remaining: 0, windowRemaining: 3_599_000, overflow: false },
    { quota: 'streams', unit: 'requests-in-flight', window: null, limit: 3, count: 1, remaining: 2, windowRemaining: null, overflow: false },
    null
  ])
})

t.test('start-up fails if the option quotas is invalid, with an error that contains the option and its value', async (t) => {
  const names = ['Chat', '1chat', '-chat', 'cha_t', 'chat ', '', 'default', 'x'.repeat(33), 'café']
  const invalid: [unknown, RegExp][] = [
    ['chat', /option quotas must be an object .* it got "chat"/],
    [[], /option quotas must be an object .* it got an array/],
    ...names.map((name): [unknown, RegExp] => [{ [name]: {} }, new RegExp(`option quotas must have names of at most 32 .* it got "${name}"`)]),
    [{ chat: null }, /option quotas\.chat must be an object; it got null/],
    [{ chat: { limit: 5 } }, /option quotas\.chat\.limit does not exist; it got 5/],
    [{ chat: { logLevel: 'warn' } }, /option quotas\.chat\.logLevel does not exist/],
    [{ chat: { perHour: 1.5 } }, /option quotas\.chat\.perHour must be an integer; it got 1.5/],
    [{ chat: { inFlight: '2' } }, /option quotas\.chat\.inFlight must be an integer; it got "2"/],
    [{ chat: { perMinute: 5, tokensPerDay: 0 } }, /option quotas\.chat must have one limit; it got "perMinute and tokensPerDay"/],
    [{ chat: { perMinute: 5, unreportedTokens: 5 } }, /option quotas\.chat\.unreportedTokens must be set only with a limit of tokens; it got 5/],
    [{ chat: { tokensPerDay: 5, unreportedTokens: -1 } }, /option quotas\.chat\.unreportedTokens must be .*; it got -1/],
    [{ chat: { mode: 'off' } }, /option quotas\.chat\.mode must be 'enforce' or 'shadow'; it got "off"/],
    [{ chat: { authentication: {} } }, /option quotas\.chat\.authentication must be a function; it got an object/],
    [{ chat: { tokensPerDay: 5 }, 'chat-tokens': { perDay: 5 } }, /option quotas must have names .* "chat-tokens" also has SERVICE_RATE_LIMIT_CHAT_TOKENS_PER_DAY; it got "chat"/],
    [{ chat: { operations: [{ method: 'POST', path: '/:x' }] } }, /option quotas\.chat\.operations\[0\]\.path must start .* it got "\/:x"/]
  ]
  for (const [quotas, message] of invalid) {
    await t.rejects(async () => { await Fastify().register(quotaPlugin, Object({ quotas })) }, { code: 'FST_ERR_LLM_QUOTA_OPTION', message }, String(message))
  }
  for (const name of ['a', 'a-', 'x'.repeat(32), 'constructor', 'chat-2']) t.match((await (await createHost(name, { quotas: { [name]: { perMinute: 1 } } })).ask()).json(), [{ quota: name }])
})

t.test('start-up fails if the store lacks a function that one of the quotas needs', async (t) => {
  const memory = new MemoryQuotaStore()
  const acquire = memory.acquire.bind(memory)
  const register = async (store: unknown, quotas?: object) => { await Fastify().register(quotaPlugin, Object({ store, quotas })) }
  await t.resolves(register({ acquire }))
  await t.rejects(register({ acquire }, { chat: {} }), { code: 'FST_ERR_LLM_QUOTA_OPTION', message: /option store must be a store with a function quota; it got an object/ })
  await t.resolves(register({ acquire, quota: () => ({ acquire }) }, { chat: {} }))
  for (const quota of [() => ({}), () => undefined]) await t.rejects(register({ acquire, quota }, { chat: {} }), { code: 'FST_ERR_LLM_QUOTA_OPTION', message: /option store, in its quota chat, must be a store with a function acquire/ })
  await t.rejects(register({ acquire, quota: () => ({ acquire }) }, { chat: { inFlight: 1 } }), { code: 'FST_ERR_LLM_QUOTA_OPTION', message: /must be a store with a function enter; it got an object/ })
})
