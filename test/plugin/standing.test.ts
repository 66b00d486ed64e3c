// fastify.quotaStanding, fastify.quotas and fastify.quotaForget.
import t from 'tap'
import {
  callerKey,
  localAuthentication,
  MemoryQuotaStore,
  type Demand,
  type QuotaOptions
} from '../../lib/index.js'
import { VirtualClock } from '../../lib/testing.js'
import { matchExactly } from '../support/match-exactly.js'
import { RemoteStore } from '../support/remote-store.js'
import { createServer } from '../support/server.js'
import { setWallClock } from '../support/time.js'

async function service (options: QuotaOptions = {}) {
  const clock = new VirtualClock()
  const { app, ask, log } = await createServer({
    mark: 'default',
    perMinute: 2,
    store: new MemoryQuotaStore({ clock: clock.now, maxTrackedCallers: 1 }),
    ...options
  })
  app.get<{ Querystring: { name?: string } }>('/api/quota', async (request) => ({
    standing: await app.quotaStanding(request, request.query.name)
  }))
  const standing = async (caller = 'alice', query = '') => {
    const headers = { 'x-caller': caller }
    const response = await app.inject({ url: `/api/quota${query}`, headers })
    return response.statusCode === 200 ? response.json().standing : response.json()
  }
  return { app, ask, clock, log, standing }
}

t.test(
  'quotaStanding returns the standing of the caller, and does not count the request',
  async (t) => {
    const now = setWallClock(t)('2026-11-25T12:00Z')
    const { app, ask, clock, standing } = await service()
    t.same(await standing(), {
      quota: 'default',
      unit: 'requests',
      period: 'minute',
      window: 60_000,
      limit: 2,
      count: 0,
      held: 0,
      remaining: 2,
      windowRemaining: null,
      resetsAt: null,
      overflow: false
    })
    t.same(app.quotaStore.inspect?.('default'), { trackedCallers: 0, sweeps: 0 })
    await ask()
    clock.advance(1_000)
    for (let time = 0; time < 3; time++) {
      t.same(await standing(), {
        quota: 'default',
        unit: 'requests',
        period: 'minute',
        window: 60_000,
        limit: 2,
        count: 1,
        held: 0,
        remaining: 1,
        windowRemaining: 59_000,
        resetsAt: now + 59_000,
        overflow: false
      })
    }
    await ask({ headers: { 'x-caller': 'bob' } })
    t.match(await standing('bob'), { count: 1, overflow: true })
  }
)

t.test('resetsAt is a whole number of milliseconds, whatever the clock of the store', async (t) => {
  const { ask, clock, standing } = await service()
  await ask()
  clock.advance(0.25)
  const { windowRemaining, resetsAt } = await standing()
  t.equal(windowRemaining, 59_999.75)
  t.ok(Number.isInteger(resetsAt), String(resetsAt))
})

t.test('remaining is never negative, and null if the limit is 0', async (t) => {
  const preferences = new Map<string, unknown>()
  const { ask, standing } = await service({
    preferences: { get: async (key) => preferences.get(key) }
  })
  await ask()
  await ask()
  for (const [value, limit, remaining] of [[1, 1, 0], [-5, 1, 0], [0, 0, null], [9, 9, 7]]) {
    preferences.set('rate-limit.per-minute', value)
    t.match(await standing(), { limit, count: 2, remaining })
  }
})

t.test('quotaStanding returns null if there is no caller', async (t) => {
  t.equal(await (await service()).standing(''), null)
  const { standing, log } = await service({
    authentication: async () => {
      throw Object.assign(new Error('expired'), { statusCode: 401 })
    }
  })
  t.equal(await standing(), null)
  matchExactly(t, log.problems(), [
    { level: 50, msg: /authentication of the request could not be read/ }
  ])
})

t.test('quotaStanding rejects if the quota does not exist', async (t) => {
  const { standing } = await service({ quotas: { chat: {} } })
  for (const name of ['search', '__proto__', 'constructor']) {
    matchExactly(t, await standing('alice', `?name=${name}`), {
      code: 'FST_ERR_LLM_QUOTA_UNKNOWN_QUOTA',
      message:
        'fastify-llm-quota: quotaStanding must name an existing quota (default, chat); it ' +
        `got "${name}"`
    })
  }
})

t.test(
  'quotaStanding rejects if the store fails or has no peek, if the function of the limit fails, ' +
    'or while the authentication is down',
  async (t) => {
    const memory = new MemoryQuotaStore()
    const fail = (): never => {
      throw new Error('gone')
    }
    const values = ['{}', '{"count":1,"windowRemaining":0}', '5']
    const peeks = [
      undefined,
      fail,
      async () => fail(),
      async () => JSON.parse('{}').count,
      ...values.map((value) => () => JSON.parse(value))
    ]
    const failing: QuotaOptions[] = [
      ...peeks.map((peek) => ({
        store: {
          acquire: (demands: readonly Demand[]) => memory.acquire(demands),
          ...(peek && { peek })
        }
      })),
      {
        authentication () {
          throw Object.assign(new Error('the session store failed'), { statusCode: 503 })
        }
      },
      { quotas: { planned: { perDay: fail } } }
    ]
    for (const options of failing) {
      const { standing, log } = await service(options)
      const query = options.quotas === undefined ? '' : '?name=planned'
      matchExactly(t, await standing('alice', query), {
        statusCode: 503,
        code: 'FST_ERR_LLM_QUOTA_STANDING',
        message: 'fastify-llm-quota: the standing of the caller could not be determined'
      })
      if (options === failing[0]) {
        matchExactly(t, log.problems(), [
          { quota: 'default', err: { message: 'the quota store has no function peek' } },
          { msg: /^fastify-llm-quota: the standing of the caller could not be determined/ }
        ])
      }
    }
  }
)

t.test(
  'fastify.quotas lists the quotas, whose stores list the callers; quotaForget forgets a ' +
    'caller in each of them',
  async (t) => {
    const budgets = new MemoryQuotaStore()
    const tokens = { perDay: { tokens: 100 }, cost: 30, timeZone: 'Europe/Berlin', store: budgets }
    const { app, store, ask, counts } = await createServer({
      mark: ['default', 'tokens', 'hours'],
      perMinute: 10,
      quotas: { tokens, hours: { perHour: 5 } }
    })
    t.same(app.quotas, [
      {
        name: 'default',
        unit: 'requests',
        period: 'minute',
        window: 60_000,
        store,
        counters: 'default'
      },
      {
        name: 'tokens',
        unit: 'tokens',
        period: 'day',
        window: null,
        store: budgets,
        counters: 'tokens.tokens.day.Europe/Berlin'
      },
      {
        name: 'hours',
        unit: 'requests',
        period: 'hour',
        window: 3_600_000,
        store,
        counters: 'hours.requests.hour'
      }
    ])
    await ask()
    await ask({ headers: { 'x-caller': 'bob' } })
    const key = String(callerKey(localAuthentication('alice')))
    matchExactly(t, budgets.list('tokens.tokens.day.Europe/Berlin').callers, [
      { callerKey: key, count: 30, held: 0, end: Number },
      { count: 30, held: 0, end: Number }
    ])
    await app.quotaForget(key)
    t.same(await counts(['default', 'tokens', 'hours']), [0, 0, 0])
    t.same(await counts(['default', 'tokens', 'hours'], { 'x-caller': 'bob' }), [1, 30, 1])
  }
)

t.test('quotaForget rejects what is no caller key, and repeats no text', async (t) => {
  const { app } = await createServer({ mark: [] })
  const key = String(callerKey(localAuthentication('alice')))
  const texts = [key.toUpperCase(), key.slice(1), `${key}0`, ` ${key}`, `${key}\n`, 'alice', '']
  const others: [caller: unknown, got: string][] = [
    ...texts.map((text): [string, string] => [text, 'a string']),
    [null, 'null'],
    [undefined, 'undefined'],
    [5, '5'],
    [[key], 'an array']
  ]
  for (const [other, got] of others) {
    await t.rejects(
      Reflect.apply(app.quotaForget, app, [other]),
      new TypeError(
        'fastify-llm-quota: the caller of quotaForget must be a caller key, as callerKey() ' +
          `returns it, or an authentication; it got ${got}`
      )
    )
  }
})

t.test(
  'quotaForget rejects if a store fails or has no forget, after the others have forgotten ' +
    'the caller',
  async (t) => {
    const key = String(callerKey(localAuthentication('alice')))
    const acquire = () => {
      throw new Error('unused')
    }
    const later = new RemoteStore()
    for (const [forget, message] of [
      [undefined, /no function forget/],
      [
        async () => {
          throw new Error('gone')
        },
        /gone/
      ]
    ] as const) {
      const store = { acquire, settle () {}, ...(forget && { forget }) }
      const { app, ask } = await createServer({
        mark: 'default',
        store: later,
        quotas: { broken: { store } }
      })
      await ask()
      await t.rejects(app.quotaForget(key), { message })
      t.same(later.memory.list('default').callers, [])
    }
  }
)

t.test('the standing of anything but a request or an authentication is an error', async (t) => {
  const { app } = await createServer()
  for (const [value, shown] of [
    [null, 'null'],
    [undefined, 'undefined'],
    ['alice', 'a string'],
    [{}, 'an object'],
    [{ kind: 'local', authenticated: true, username: 'alice' }, 'an object']
  ] as const) {
    await t.rejects(Reflect.apply(app.quotaStanding, app, [value]), {
      code: 'FST_ERR_LLM_QUOTA_OPTION',
      message: new RegExp(`source of quotaStanding must be a request, .*; it got ${shown}$`)
    })
  }
})

t.test('the standing of an authentication is that of the caller whom it names', async (t) => {
  const asked: unknown[] = []
  const preferences = {
    get: (name: string, request: unknown) => {
      asked.push([name, request])
      return undefined
    }
  }
  const { app, ask } = await createServer({
    mark: ['default', 'acme'],
    preferences,
    quotas: { acme: { perDay: 5, authentication: () => localAuthentication('acme') } }
  })
  await ask({ headers: { 'x-caller': 'bob' } })
  asked.length = 0
  matchExactly(t, await app.quotaStanding(localAuthentication('bob')), { count: 1, remaining: 9 })
  t.same(asked, [['rate-limit.per-minute', null]])
  matchExactly(t, await app.quotaStanding(localAuthentication('bob'), 'acme'), { count: 0 })
  matchExactly(t, await app.quotaStanding(localAuthentication('acme'), 'acme'), { count: 1 })
  t.equal(await app.quotaStanding(localAuthentication(' ')), null)
})

t.test('what a function of a limit returns is told as what remains', async (t) => {
  const { app, ask } = await createServer({
    mark: ['all', 'none'],
    quotas: {
      all: { perDay: { tokens: () => Infinity }, cost: 5 },
      none: { perDay: () => 0, mode: 'shadow' },
      off: { perDay: 0 }
    }
  })
  await ask()
  const standingOf = async (name: string) => app.quotaStanding(localAuthentication('alice'), name)
  matchExactly(t, await standingOf('all'), { limit: Infinity, count: 5, remaining: null })
  matchExactly(t, await standingOf('none'), { limit: 0, count: 0, remaining: 0 })
  matchExactly(t, await standingOf('off'), { limit: 0, count: 0, remaining: null })
})

t.test('quotaForget takes an authentication, and the name of one quota', async (t) => {
  const { app, ask, counts } = await createServer({
    mark: ['default', 'chat'],
    quotas: { chat: {} }
  })
  await ask()
  await app.quotaForget(localAuthentication('alice'), 'chat')
  t.same(await counts(['default', 'chat']), [1, 0])
  await app.quotaForget(localAuthentication('alice'))
  t.same(await counts(['default', 'chat']), [0, 0])
  await t.rejects(app.quotaForget(localAuthentication('alice'), 'chatt'), {
    code: 'FST_ERR_LLM_QUOTA_UNKNOWN_QUOTA'
  })
  await t.rejects(app.quotaForget(localAuthentication(' ')), {
    name: 'TypeError',
    message: /identifies no caller/
  })
})
