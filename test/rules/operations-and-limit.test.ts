// docs/rules.md, "Subject" and "Limit": the four protected operations, and the limit of a request.
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import Fastify from 'fastify'
import t from 'tap'
import quotaPlugin, { localAuthentication, protectedOperations, quotaDecisions, type PreferenceReader, type QuotaDecision, type QuotaDecisionMessage } from '../../lib/index.js'
import { alice, analyze, bearer, captureLog, createService } from '../support/service.js'

t.test('the quota applies to exactly the four operations', async (t) => {
  t.same(protectedOperations, [
    { method: 'POST', path: '/api/analyze' },
    { method: 'POST', path: '/api/justify-leaf' },
    { method: 'GET', path: '/api/analyze-stream' },
    { method: 'GET', path: '/api/analyze-node' }
  ])
  t.ok(Object.isFrozen(protectedOperations) && protectedOperations.every(Object.isFrozen))
  const app = await createService()
  for (const { method, path } of protectedOperations) {
    t.equal((await app.inject({ method, url: path })).statusCode, 401, `${method} ${path}`)
  }
})

t.test('a different method on a protected path is not subject to the quota', async (t) => {
  const app = Fastify()
  await app.register(quotaPlugin)
  const others = protectedOperations.flatMap(({ method, path }) => (['GET', 'POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS', 'HEAD'] as const)
    .filter((other) => other !== method).map((other) => ({ method: other, url: path })))
  for (const other of others) app.route({ ...other, exposeHeadRoute: false, handler: async () => 'ran' })
  for (const other of others) {
    t.equal((await app.inject(other)).statusCode, 200, `${other.method} ${other.url}`)
  }
})

t.test('any other path is not subject to the quota', async (t) => {
  const app = Fastify({ routerOptions: { caseSensitive: true } })
  await app.register(quotaPlugin)
  const others = ['/', '/api', '/api/analyze/', '/api/analyze/x', '/api/analyz', '/api/analyzer', '/API/ANALYZE', '/x/api/analyze', '/api/analyze-tree']
  for (const path of others) app.post(path, async () => 'ran')
  for (const path of others) {
    t.equal((await app.inject({ method: 'POST', url: path })).statusCode, 200, path)
  }
})

t.test('the case of the method of a configured operation does not matter', async (t) => {
  const app = Fastify()
  await app.register(quotaPlugin, { operations: [{ method: 'post', path: '/lower' }, { method: 'Get', path: '/mixed' }] })
  app.post('/lower', async () => 'ran')
  app.get('/mixed', { exposeHeadRoute: false }, async () => 'ran')
  t.equal((await app.inject({ method: 'POST', url: '/lower' })).statusCode, 401)
  t.equal((await app.inject({ method: 'GET', url: '/mixed' })).statusCode, 401)
})

t.test('a protected operation without a route is also subject to the quota', async (t) => {
  const app = Fastify()
  await app.register(quotaPlugin)
  t.equal((await app.inject({ method: 'POST', url: '/api/analyze?x=1' })).statusCode, 401)
  t.equal((await app.inject({ method: 'POST', url: '/api/analyse' })).statusCode, 404)
})

async function limitFor (value: unknown, perMinute = 4) {
  const log = captureLog()
  const preferences: PreferenceReader = { get: () => value }
  const app = await createService({ preferences, perMinute }, { logger: log.logger })
  let decision: QuotaDecision | null = null
  app.addHook('onResponse', async (request) => { decision = request.quota })
  await analyze(app, alice)
  return { decision: decision as QuotaDecision | null, warnings: log.warnings() }
}

t.test('a preference that is an integer, or a decimal string of one, is the limit', async (t) => {
  for (const [value, limit] of [[1, 1], [25, 25], ['25', 25], ['007', 7], [Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER]] as const) {
    const { decision, warnings } = await limitFor(value)
    t.match(decision, { limit, outcome: 'admitted' }, String(value))
    t.same(warnings, [])
  }
})

t.test('a preference that is undefined, null or blank counts as not set', async (t) => {
  for (const value of [undefined, null, '', '  ', '\t\n']) {
    const { decision, warnings } = await limitFor(value)
    t.match(decision, { limit: 4 }, JSON.stringify(value))
    t.same(warnings, [])
  }
})

t.test('any other value is unavailable: the configured limit applies, with a warning', async (t) => {
  const unusable: unknown[] = [0.5, -0.5, 1.5, NaN, Infinity, -Infinity, 2 ** 53, '0.5', '0.0', '5 ', '+5', 'ten', '1e3', '0x10', '99999999999999999999', true, false, 5n, [], [5], {}, { valueOf: () => 0 }, () => 5, Symbol('five')]
  for (const value of unusable) {
    const { decision, warnings } = await limitFor(value)
    t.match(decision, { limit: 4, outcome: 'admitted' }, String(value))
    t.match(warnings, [/preference is unavailable/], String(value))
  }
})

t.test('a request passes without quota and authentication checks if the limit is 0', async (t) => {
  for (const value of [0, -0, '0', '-0', '00']) {
    const app = await createService({ preferences: new Map([['rate-limit.per-minute', value]]), perMinute: 1 })
    const limits: unknown[] = []
    const note = (message: unknown): void => { limits.push((message as QuotaDecisionMessage).decision.limit) }
    subscribe(quotaDecisions.name, note)
    for (let request = 0; request < 3; request++) t.equal((await analyze(app, null)).statusCode, 200)
    unsubscribe(quotaDecisions.name, note)
    t.ok(limits.length === 3 && limits.every((limit) => Object.is(limit, 0)), 'the limit is 0, not -0')
    t.same(app.quotaStore.inspect?.(), { trackedCallers: 0, sweeps: 0 })
  }
})

t.test('a negative value results in a limit of 1', async (t) => {
  for (const value of [-1, '-7', Number.MIN_SAFE_INTEGER]) {
    const app = await createService({ preferences: new Map([['rate-limit.per-minute', value]]) })
    t.equal((await analyze(app, alice)).statusCode, 200)
    t.equal((await analyze(app, alice)).json().error, 'Rate limit exceeded. Maximum 1 LLM requests per minute. Please wait.')
  }
})

t.test('the caller is determined before the request is counted', async (t) => {
  const app = await createService({ perMinute: 1 })
  t.equal((await analyze(app, null)).statusCode, 401)
  t.equal((await analyze(app, alice)).statusCode, 200)
  t.equal((await analyze(app, null)).statusCode, 401, 'the answer is 401, not 429')
  t.equal((await analyze(app, alice)).statusCode, 429)
})

t.test('the preference reader returns the limit', async (t) => {
  t.test('a preference reader can return a promise', async (t) => {
    const app = await createService({ preferences: { get: async () => '1' } })
    t.equal((await analyze(app, alice)).statusCode, 200)
    t.equal((await analyze(app, alice)).statusCode, 429)
  })

  t.test('a preference reader gets the key and the request, so that callers can have different limits', async (t) => {
    const preferences: PreferenceReader = {
      get: (key, request) => key === 'rate-limit.per-minute' && request.headers['x-plan'] === 'large' ? 2 : 1
    }
    const app = await createService({ preferences })
    t.equal((await analyze(app, alice)).statusCode, 200)
    t.equal((await analyze(app, alice)).statusCode, 429)
    t.equal((await analyze(app, alice, { headers: { 'x-plan': 'large' } })).statusCode, 200)
  })

  t.test('a preference reader is not called for requests that are not subject to the quota', async (t) => {
    let asked = 0
    const app = await createService({ preferences: { get () { asked += 1 } } })
    app.get('/health', async () => 'well')
    await app.inject('/health')
    t.equal(asked, 0)
    await analyze(app, alice)
    t.equal(asked, 1)
  })

  t.test('a preference reader that the host decorates after the plugin is used', async (t) => {
    const app = await createService()
    app.decorate('preferences', new Map([['rate-limit.per-minute', 1]]))
    await analyze(app, alice)
    t.equal((await analyze(app, alice)).statusCode, 429)
  })

  const failure = new Error('the preferences are down')
  const failing: [string, PreferenceReader][] = [
    ['throws', { get () { throw failure } }],
    ['rejects', { async get () { throw failure } }],
    ['returns a promise of nonsense', { get: async () => 'many' }],
    ['returns a promise whose then throws', { get: () => ({ then () { throw failure } }) }]
  ]
  for (const [what, reader] of failing) {
    t.test(`the configured limit applies, with one warning, if the preference reader ${what}`, async (t) => {
      const log = captureLog()
      const app = await createService({ preferences: reader, perMinute: 2 }, { logger: log.logger })
      const answers = []
      for (let request = 0; request < 4; request++) answers.push((await analyze(app, alice)).statusCode)
      t.same(answers, [200, 200, 429, 429])
      t.equal(log.warnings().length, 1)
      const [line] = log.lines.filter(({ level }) => level === 40)
      t.match(line, { preference: 'rate-limit.per-minute', configured: 2 })
      t.ok(/nonsense/.test(what) ? line?.['value'] === '"many"' : Reflect.get(Object(line?.['err']), 'message') === failure.message, 'the warning contains the value or the error')
    })
  }
})

t.test('the handler does not wait for a microtask if the reader and the store are synchronous', async (t) => {
  const app = Fastify()
  const turns: string[] = []
  let passed = false
  app.decorateRequest('user')
  app.addHook('preValidation', async (request) => { Object.assign(request, { user: localAuthentication('alice') }) })
  app.addHook('preHandler', (_request, _reply, done) => {
    passed = false
    queueMicrotask(() => turns.push(passed ? 'handler first' : 'turn first'))
    done()
  })
  await app.register(quotaPlugin, { preferences: new Map([['rate-limit.per-minute', 5]]) })
  app.post('/api/analyze', (_request, reply) => {
    passed = true
    reply.send('ran')
  })
  await app.inject({ method: 'POST', url: '/api/analyze', headers: bearer(await createService(), alice) })
  t.same(turns, ['handler first'])
})
