// Several quotas in one server: each has its own operations, limit, environment variable, preference and counters.
import Fastify, { type FastifyInstance } from 'fastify'
import t from 'tap'
import quotaPlugin, { localAuthentication, MemoryQuotaStore, type QuotaOptions } from '../../lib/index.js'

const chat = { method: 'POST', path: '/api/chat' }
const images = { method: 'POST', path: '/api/images' }

async function create (options: QuotaOptions = {}): Promise<FastifyInstance> {
  const app: FastifyInstance = Fastify()
  await app.register(quotaPlugin, { authentication: ({ headers }) => localAuthentication(headers['x-caller'] ?? 'alice'), ...options })
  for (const url of ['/api/analyze', chat.path, images.path]) app.post(url, async ({ quota }) => [quota?.quota, quota?.limit])
  return app
}

async function admitted (app: FastifyInstance, url: string, headers = {}): Promise<number> {
  for (let count = 0; ; count++) {
    if ((await app.inject({ method: 'POST', url, headers })).statusCode !== 200) return count
  }
}

function withEnvironment (t: { teardown: (restore: () => void) => void }, variables: Record<string, string>): void {
  Object.assign(process.env, variables)
  t.teardown(() => { for (const name of Object.keys(variables)) Reflect.deleteProperty(process.env, name) })
}

t.test('each quota has its own operations, limit and counters', async (t) => {
  const app = await create({ perMinute: 3, quotas: { chat: { operations: [chat], perMinute: 6 }, images: { operations: [images] } } })
  t.same([await admitted(app, chat.path), await admitted(app, '/api/analyze'), await admitted(app, images.path)], [6, 3, 10])
  t.same([await admitted(app, chat.path), await admitted(app, '/api/analyze', { 'x-caller': 'bob' })], [0, 3])
  t.match(app.quotaStore.inspect(), { trackedCallers: 4 }, 'the quotas share one store')
})

t.test('the quotas share the caller cap and the overflow counter, whose count is compared with the limit of the request\'s quota', async (t) => {
  const store = new MemoryQuotaStore({ maxTrackedCallers: 2 })
  const app = await create({ store, perMinute: 3, quotas: { chat: { operations: [chat], perMinute: 5 } } })
  t.same([await admitted(app, '/api/analyze'), await admitted(app, chat.path)], [3, 5], 'one caller has two counters')
  t.same(store.inspect(), { trackedCallers: 2, sweeps: 0 })
  t.same([await admitted(app, '/api/analyze', { 'x-caller': 'bob' }), await admitted(app, chat.path, { 'x-caller': 'carol' })], [3, 2])
})

t.test('the environment variable of each quota takes precedence over its option', async (t) => {
  withEnvironment(t, { SERVICE_RATE_LIMIT_CHAT_LONG_2_PER_MINUTE: '2', SERVICE_RATE_LIMIT_PER_MINUTE: '4' })
  const app = await create({ perMinute: 3, quotas: { 'chat-long-2': { operations: [chat], perMinute: 6 }, images: { operations: [images], perMinute: 1 } } })
  t.same(app.quotaConfig, { SERVICE_RATE_LIMIT_PER_MINUTE: 4, SERVICE_RATE_LIMIT_CHAT_LONG_2_PER_MINUTE: 2, SERVICE_RATE_LIMIT_IMAGES_PER_MINUTE: 1 })
  t.ok(Object.isFrozen(app.quotaConfig))
  t.same([await admitted(app, chat.path), await admitted(app, '/api/analyze'), await admitted(app, images.path)], [2, 4, 1])
})

t.test('start-up fails if the environment variable of a quota is not an integer', async (t) => {
  withEnvironment(t, { SERVICE_RATE_LIMIT_CHAT_PER_MINUTE: 'many' })
  await t.rejects(create({ quotas: { chat: {} } }), { code: 'FST_ERR_LLM_QUOTA_ENVIRONMENT', message: /variable SERVICE_RATE_LIMIT_CHAT_PER_MINUTE must be an integer; it got 'many'/ })
  t.ok(await create({ quotas: { images: {} } }), 'a variable that belongs to no quota is not read')
})

t.test('each quota has its own preference', async (t) => {
  const preferences = new Map([['rate-limit.chat-2.per-minute', 2], ['rate-limit.per-minute', 1]])
  const app = await create({ preferences, quotas: { 'chat-2': { operations: [chat], perMinute: 6 }, images: { operations: [images], perMinute: 4 } } })
  t.same([await admitted(app, chat.path), await admitted(app, '/api/analyze'), await admitted(app, images.path)], [2, 1, 4])
})

t.test('a limit of 0 disables only its own quota', async (t) => {
  const app = await create({ perMinute: 1, quotas: { chat: { operations: [chat], perMinute: 0 } }, authentication: () => null })
  t.equal((await app.inject({ method: 'POST', url: chat.path })).json()[1], 0)
  t.equal((await app.inject({ method: 'POST', url: '/api/analyze' })).statusCode, 401)
})

t.test('the default quota can have no operations', async (t) => {
  const app = await create({ operations: [], quotas: { chat: { operations: [chat], perMinute: 1 } } })
  t.same((await app.inject({ method: 'POST', url: '/api/analyze' })).json(), [null, null])
  t.equal(await admitted(app, chat.path), 1)
})

t.test('every spelling of a path is counted in the quota of its operation', async (t) => {
  const app = Fastify()
  await app.register(quotaPlugin, { authentication: () => localAuthentication('alice'), quotas: { chat: { operations: [chat] } } })
  app.post('/*', async ({ quota }) => quota?.quota ?? 'none')
  for (const [url, expected] of [['/api/%61nalyze', 'default'], ['/api%2Fanalyze', 'default'], ['/api%2Fchat', 'chat'], ['/api/./chat', 'chat'], ['/api/cha', 'none']] as const) {
    t.equal((await app.inject({ method: 'POST', url })).body, expected, url)
  }
})

t.test('start-up fails if the option quotas is invalid, with an error that contains the option and its value', async (t) => {
  const invalid: [unknown, RegExp][] = [
    ['chat', /option quotas must be an object .* it got 'chat'/],
    [[], /option quotas must be an object .* it got \[\]/],
    [null, /option quotas must be an object .* it got null/],
    ...['Chat', '1chat', '-chat', 'cha_t', 'chat ', '', 'default', 'x'.repeat(33), 'café'].map((name): [unknown, RegExp] => [{ [name]: {} }, new RegExp(`option quotas must have names of at most 32 .* it got '${name}'`)]),
    [{ chat: null }, /option quotas\.chat must be an object of options; it got null/],
    [{ chat: 5 }, /option quotas\.chat must be an object of options; it got 5/],
    [{ chat: { limit: 5 } }, /option quotas\.chat\.limit does not exist; it got 5/],
    [{ chat: { logLevel: 'warn' } }, /option quotas\.chat\.logLevel does not exist/],
    [{ chat: { perMinute: 1.5 } }, /option quotas\.chat\.perMinute must be an integer; it got 1.5/],
    [{ chat: { operations: {} } }, /option quotas\.chat\.operations must be an array .* it got {}/],
    [{ chat: { operations: [{ method: 'POST', path: '/:x' }] } }, /option quotas\.chat\.operations\[0\]\.path must start .* it got '\/:x'/],
    [{ chat: { operations: [chat, chat] } }, /option quotas\.chat\.operations contains an operation that is already listed, for this quota or for another; it got '\/api\/chat'/],
    [{ chat: { operations: [chat] }, images: { operations: [{ method: 'post', path: '/api/chat' }] } }, /option quotas\.images\.operations contains an operation that is already listed, for this quota or for another; it got '\/api\/chat'/],
    [{ chat: { operations: [{ method: 'POST', path: '/api/analyze' }] } }, /option quotas\.chat\.operations contains an operation that is already listed, for this quota or for another; it got '\/api\/analyze'/]
  ]
  for (const [quotas, message] of invalid) {
    await t.rejects(async () => { await Fastify().register(quotaPlugin, Object({ quotas })) }, { code: 'FST_ERR_LLM_QUOTA_OPTION', message }, String(message))
  }
  await t.rejects(async () => {
    await Fastify({ routerOptions: { caseSensitive: false } }).register(quotaPlugin, { quotas: { chat: { operations: [{ method: 'POST', path: '/API/Analyze' }] } } })
  }, /option quotas\.chat\.operations contains an operation that is already listed/, 'paths are compared as the router of the host reads them')
  await t.rejects(async () => {
    await Fastify().register(quotaPlugin, { prefix: '/*/x', operations: [], quotas: { chat: { operations: [chat] } } })
  }, { code: 'FST_ERR_LLM_QUOTA_OPTION', message: /option quotas\.chat\.operations results in a path that the router does not accept \(.+\); it got '\/\*\/x\/api\/chat'/ })
})

t.test('operations with the same path and different methods can belong to different quotas', async (t) => {
  const app = Fastify()
  await app.register(quotaPlugin, { quotas: { chat: { operations: [{ method: 'POST', path: '/api/x' }] }, models: { operations: [{ method: 'GET', path: '/api/x' }] } } })
  app.addHook('onSend', async ({ quota }, reply) => { reply.header('counted-in', quota?.quota) })
  app.route({ method: ['GET', 'POST'], url: '/api/x', exposeHeadRoute: false, handler: async () => 'ran' })
  for (const [method, quota] of [['POST', 'chat'], ['GET', 'models']] as const) {
    t.match(await app.inject({ method, url: '/api/x' }), { statusCode: 401, headers: { 'counted-in': quota } })
  }
})

t.test('the name of a quota can have 1 to 32 characters, and can be that of an inherited property', async (t) => {
  for (const name of ['a', 'a-', 'x'.repeat(32), 'constructor', 'chat-2']) {
    const app = await create({ quotas: { [name]: { operations: [chat], perMinute: 1 } } })
    t.equal(await admitted(app, chat.path), 1, name)
  }
})

t.test('the error for a second registration recommends the option quotas', async (t) => {
  const app = await create()
  await t.rejects(async () => { await app.register(quotaPlugin) }, { code: 'FST_ERR_LLM_QUOTA_SECOND_REGISTRATION', message: /use the option quotas for several quotas/ })
})
