// Decisions in request.quota, on the diagnostics channel and in the log, and shadow mode.
import { channel } from 'node:diagnostics_channel'
import Fastify from 'fastify'
import t from 'tap'
import quotaPlugin, {
  callerKey,
  MemoryQuotaStore,
  quotaDecisions,
  localAuthentication,
  type QuotaDefinition,
  type QuotaOptions
} from '../../lib/index.js'
import { matchExactly } from '../support/match-exactly.js'
import { published } from '../support/published.js'
import { asAlice, createServer, nobody } from '../support/server.js'
import { setWallClock } from '../support/time.js'

const operation = { method: 'POST', path: '/run' }
const aliceKey = callerKey(localAuthentication('alice'))
const away = Object.assign(new Error('away'), { statusCode: 500 })

t.test('quotaDecisions is the channel fastify-llm-quota:decision', async (t) => {
  t.equal(quotaDecisions, channel('fastify-llm-quota:decision'))
  t.equal(quotaDecisions.hasSubscribers, false)
})

const reasons: Record<string, string> = {
  unauthenticated: 'no-authentication',
  unavailable: 'store'
}
const uncounted = {
  count: null,
  held: null,
  granted: null,
  windowRemaining: null,
  retryAfter: null,
  overflow: false
}
const counted = { callerKey: aliceKey, count: 1, held: 0, windowRemaining: 60_000, overflow: false }
const outcomes: [string, QuotaOptions, caller: string, object, number][] = [
  [
    'admitted',
    { perMinute: 2 },
    'alice',
    { limit: 2, ...counted, granted: 1, retryAfter: null },
    200
  ],
  [
    'rejected',
    { perMinute: -1 },
    'alice',
    { limit: 1, ...counted, granted: 0, retryAfter: 60 },
    429
  ],
  ['unauthenticated', {}, '', { limit: 10, callerKey: null, ...uncounted }, 401],
  ['disabled', { perMinute: 0 }, 'alice', { limit: 0, callerKey: null, ...uncounted }, 200],
  [
    'unavailable',
    {
      store: {
        async acquire () {
          throw new Error('the counters are gone')
        }
      }
    },
    'alice',
    { limit: 10, callerKey: aliceKey, ...uncounted, retryAfter: 1 },
    503
  ]
]

t.test(
  'one message is published for each protected request, with each of the five outcomes',
  async (t) => {
    for (const mode of ['enforce', 'shadow'] as const) {
      for (const [outcome, options, caller, fields, status] of outcomes) {
        const { ask } = await createServer({ mode, ...options })
        const headers = { 'x-caller': caller }
        if (outcome === 'rejected') await ask({ headers })
        let response: Awaited<ReturnType<typeof ask>> | undefined
        const messages = await published(async () => {
          response = await ask({ headers })
        })
        t.equal(response?.statusCode, mode === 'shadow' ? 200 : status, `${mode}: ${outcome}`)
        t.equal(messages.length, 1)
        const { request, decision } = messages[0] ?? {}
        const { retryAfter } = decision ?? {}
        t.equal(
          response?.headers['retry-after'],
          mode === 'shadow' || retryAfter == null ? undefined : String(retryAfter),
          'retryAfter is the header of the refusal'
        )
        matchExactly(t, decision, {
          outcome,
          quota: 'default',
          unit: 'requests',
          period: 'minute',
          window: 60_000,
          reason: reasons[outcome] ?? null,
          operation,
          enforced: mode === 'enforce',
          waited: 0,
          ...fields
        })
        t.same(Object.keys(decision ?? {}).sort(), [
          'callerKey',
          'count',
          'enforced',
          'granted',
          'held',
          'limit',
          'operation',
          'outcome',
          'overflow',
          'period',
          'quota',
          'reason',
          'reference',
          'retryAfter',
          'unit',
          'waited',
          'window',
          'windowRemaining'
        ])
        t.equal(decision?.reference, request?.id)
        t.equal(request?.quota.decisions[0], decision, 'request.quota has the same object')
        t.equal(request?.quota.decisions.length, 1)
        const isRefused = mode === 'enforce' && status !== 200
        t.equal(request?.quota.refusal, isRefused ? decision : null)
        t.equal(request?.quota.decisions, request?.quota.decisions, 'the list is one array')
        t.notMatch(JSON.stringify(decision), 'alice', 'the decision contains no identity')
      }
    }
  }
)

t.test("an unavailable decision has the caller's key if the caller is known", async (t) => {
  const fails = (): never => {
    throw new Error('away')
  }
  const failing: [reason: string, definition: QuotaDefinition, callerKey: unknown][] = [
    ['store', { store: { acquire: fails, settle () {} } }, aliceKey],
    ['limit', { perDay: fails }, aliceKey],
    ['cost', { cost: fails }, aliceKey],
    ['time-zone', { perDay: 1, timeZone: fails }, aliceKey],
    ['authentication', { authentication: () => Promise.reject(away) }, null]
  ]
  for (const [reason, definition, callerKey] of failing) {
    const { ask } = await createServer({ quotas: { chat: definition } })
    const messages = await published(ask)
    matchExactly(t, messages, [{ decision: { outcome: 'unavailable', reason, callerKey } }])
  }
})

// Quotas that a caller has used up, how long to wait for each, and the `t` of its header.
const waits: [what: string, definition: QuotaDefinition, isRunning: boolean, number][] = [
  ['a window', { perHour: { tokens: 5 }, cost: 5 }, false, 3600],
  ['what others hold', { perHour: { tokens: 5 }, cost: 5 }, true, 1],
  ['a place', { concurrent: 1 }, true, 1],
  ['a window of the own length', { limit: 1, window: 90_500 }, false, 91],
  ['a month', { perMonth: 1 }, false, 5.5 * 86_400]
]

for (const [what, definition, isRunning, seconds] of waits) {
  t.test(`retryAfter, Retry-After and t are the same number, and tell when: ${what}`, async (t) => {
    setWallClock(t)('2026-11-25T12:00Z')
    const { ask, begin } = await createServer({
      quotas: { quota: definition },
      rateLimitHeaders: 'draft-10'
    })
    const { end } = await begin()
    if (!isRunning) await end()
    const [message] = await published(async () => {
      matchExactly(t, await ask(), {
        statusCode: 429,
        headers: { 'retry-after': String(seconds), ratelimit: new RegExp(`;t=${seconds}$`) }
      })
    })
    t.equal(message?.decision.retryAfter, seconds)
  })
}

t.test('the path of the operation has the prefix of its scope', async (t) => {
  const app = Fastify()
  const seen: unknown[] = []
  for (const [prefix, options] of [
    ['/tenant-a', {}],
    ['/tenant-b', { prefix: '/tenant-b/' }],
    ['/tenant-c', { operations: [{ method: 'POST', path: '/' }] }],
    ['', { operations: [{ method: 'POST', path: '/' }] }]
  ] as const) {
    await app.register(
      async (scope) => {
        await scope.register(quotaPlugin, { authentication: asAlice, ...options })
        scope.post('/', async () => 'ran')
        scope.post('/chat/:id', { config: { quota: true } }, async () => 'ran')
        scope.post('/api/*', async () => 'ran')
        scope.addHook('onSend', async (request) => {
          seen.push(request.quota.decisions[0]?.operation?.path)
        })
      },
      { prefix }
    )
  }
  for (const url of [
    '/tenant-a/chat/5',
    '/tenant-b/chat/5',
    '/tenant-b/api/analyze',
    '/tenant-c',
    '/'
  ]) {
    t.equal((await app.inject({ method: 'POST', url })).statusCode, 200)
  }
  t.same(seen, [
    '/tenant-a/chat/:id',
    '/tenant-b/chat/:id',
    '/tenant-b/api/analyze',
    '/tenant-c',
    '/'
  ])
})

for (const mode of ['enforce', 'shadow'] as const) {
  t.test(
    `a refusal in the mode ${mode} is logged at debug with its decision and a short caller key`,
    async (t) => {
      const { statuses, log } = await createServer({ mode, perMinute: 1, logged: 'debug' })
      await statuses(2)
      await statuses(1, nobody)
      const enforced = mode === 'enforce'
      const lines = log.lines.filter(({ outcome }) => outcome !== undefined)
      const msg = enforced ? 'the quota refuses the request' : 'the quota would refuse the request'
      matchExactly(t, lines, [
        {
          level: 20,
          msg,
          quota: 'default',
          outcome: 'rejected',
          caller: /^[0-9a-f]{8}$/,
          limit: 1,
          count: 1,
          held: 0,
          retryAfter: 60,
          overflow: false,
          enforced
        },
        {
          level: 20,
          msg,
          outcome: 'unauthenticated',
          reason: 'no-authentication',
          caller: undefined
        }
      ])
      t.equal(lines.length, 2, 'an admitted request leaves no line')
      t.notMatch(JSON.stringify(log.lines), 'alice')
    }
  )
}

t.test(
  'a decision by the overflow counter says so, and the first one of each quota causes one warning',
  async (t) => {
    const { statuses, log } = await createServer({
      mark: ['default', 'chat'],
      store: new MemoryQuotaStore({ maxTrackedCallers: 1 }),
      quotas: { chat: {} }
    })
    const messages = await published(async () => {
      for (const caller of ['alice', 'bob', 'alice', 'carol', 'bob']) {
        await statuses(1, { 'x-caller': caller })
      }
    })
    matchExactly(
      t,
      messages.filter(({ decision }) => decision.quota === 'chat'),
      [false, true, false, true, true].map((overflow) => ({
        decision: { outcome: 'admitted', overflow }
      }))
    )
    const msg = /maxTrackedCallers.*this warning is not repeated$/
    matchExactly(t, log.problems(), [
      { level: 40, quota: 'default', msg },
      { level: 40, quota: 'chat', msg }
    ])
  }
)

t.test(
  'a request with credentials that nobody has verified causes one warning, and one without ' +
    'credentials none',
  async (t) => {
    for (const [headers, count] of [
      [{ 'x-token': 'a' }, 0],
      [{ cookie: 'session=1' }, 1],
      [{ authorization: 'Basic YTpi' }, 1]
    ] as const) {
      const { statuses, log } = await createServer({ authentication: () => null })
      t.same(await statuses(2, headers), [401, 401])
      const warning = {
        level: 40,
        reason: 'no-authentication',
        quota: 'default',
        operation: { path: '/run' },
        msg: /carries credentials.*verify them in onRequest or preValidation/
      }
      matchExactly(t, log.problems(), Array(count).fill(warning), JSON.stringify(headers))
    }
  }
)
