// "Subject" in docs/rules.md: on literal routes, matching agrees with the host's router on every spelling. A target that no route
// matches is subject as well if a handler or a proxy could read it as the operation's path.
import Fastify, { type FastifyServerOptions } from 'fastify'
import t from 'tap'
import quotaPlugin, { type QuotaOptions } from '../../lib/index.js'
import { isReadBroadly, readInFull } from '../support/full-reading.js'
import { listen, sendRaw } from '../support/raw-socket.js'

function combinations () {
  return Array.from({ length: 16 }, (_, bits) => ({
    ignoreTrailingSlash: (bits & 1) !== 0,
    ignoreDuplicateSlashes: (bits & 2) !== 0,
    caseSensitive: (bits & 4) === 0,
    useSemicolonDelimiter: (bits & 8) !== 0
  }))
}

const spellings = (path: string) => [
  path, `${path}/`, path.replace('/', '//'), path.replace('/api', '/api/'), `${path}//`, path.toUpperCase(), path.replace('api', 'aPi'),
  path.replace('a', '%61'), path.replace('/api', '/%61%70%69'), path.replace('api/', 'api%2F'), path.replace('a', '%2561'), path.replace('a', '%6'),
  `${path}?q=1`, `${path}#fragment`, `${path};v=1`, `${path};v=1?q`, `${path}%3Fq`, `${path}%23`, `${path}%3B`, `${path}?q=%zz`, `${path}%zz`,
  `http://any${path}`, `https://any:1${path}/`, `HTTP://any${path}`, `http://any/${path}`, `http://user@any${path}?q`, 'http://any', `ftp://any${path}`, `any${path}`, '*',
  `/.${path}`, `${path}/.`, `/x/..${path}`, `${path}\u00e9`, path.replace('z', '%C5%BC'), `${path}%00`, `${path}%20`, `/${path}?${path}`
]

interface Seen { target: string, status: number | undefined, reached: boolean, subject: boolean }

/** Checks that a target is subject exactly if it reaches the handler, or if no route matches and it can be read as the path. */
function isRightlySubject ({ target, status, reached, subject }: Seen, path: string, options: Parameters<typeof readInFull>[1] & object): boolean {
  const couldBeRead = status === 404 && readInFull(target, options).includes(options.caseSensitive === false ? path.toLowerCase() : path)
  if (subject) return reached || couldBeRead || (status === 404 && isReadBroadly(target))
  return !reached && !couldBeRead
}

// The handler shows how the host's router read the request, and a 401 shows that it was subject.
async function seenOnSocket (server: FastifyServerOptions, options: QuotaOptions, path: string, targets: readonly string[]) {
  const guarded = Fastify(server)
  await guarded.register(quotaPlugin, options)
  const open = Fastify(server)
  for (const app of [guarded, open]) app.get(path, { exposeHeadRoute: false }, async () => 'reached')
  const [guardedAnswers, openAnswers] = await Promise.all([guarded, open].map(async (app) => {
    const port = await listen(app)
    t.teardown(() => app.close())
    const answers = []
    for (const target of targets) answers.push((await sendRaw(port, [{ method: 'GET', target }]))[0])
    return answers
  }))
  return targets.map((target, index): Seen => ({
    target, status: openAnswers?.[index]?.status, reached: openAnswers?.[index]?.body === 'reached', subject: guardedAnswers?.[index]?.status === 401
  }))
}

for (const way of ['new', 'old'] as const) {
  t.test(`every spelling is read as the router reads it, with router options that are set in the ${way} way`, async (t) => {
    process.removeAllListeners('warning')
    for (const options of combinations()) {
      for (const prefix of ['', '/context']) {
        const server = way === 'new' ? { routerOptions: options } : options
        const path = '/api/analyze-node'
        const seen = await seenOnSocket(server, prefix === '' ? {} : { prefix }, prefix + path, spellings(prefix + path))
        t.same(seen.filter((answer) => !isRightlySubject(answer, prefix + path, options)), [], `${JSON.stringify(options)} ${prefix}`)
        t.ok(seen.filter(({ reached }) => reached).length >= 7)
      }
    }
  })
}

t.test('router options that are set in both ways have the same precedence as in Fastify', async (t) => {
  process.removeAllListeners('warning')
  const path = '/api/analyze-node'
  for (const server of [
    { caseSensitive: false, routerOptions: { ignoreTrailingSlash: true } },
    { ignoreTrailingSlash: true, useSemicolonDelimiter: true, routerOptions: { caseSensitive: false } },
    { ignoreDuplicateSlashes: true, routerOptions: {} }
  ]) {
    const seen = await seenOnSocket(server, {}, path, spellings(path))
    const { routerOptions, ...given } = server
    t.same(seen.filter((answer) => !isRightlySubject(answer, path, { ...given, ...routerOptions })), [], JSON.stringify(server))
  }
})

async function statuses (options: QuotaOptions, server: FastifyServerOptions, pattern: string, targets: string[], prefix?: string) {
  const app = Fastify(server)
  await app.register(async (scope) => {
    await scope.register(quotaPlugin, options)
    scope.post(pattern, async () => 'ran')
  }, prefix === undefined ? {} : { prefix })
  const port = await listen(app)
  t.teardown(() => app.close())
  const answers = []
  for (const target of targets) answers.push((await sendRaw(port, [{ method: 'POST', target }]))[0]?.status)
  return answers
}

t.test('the path of the request decides on a parametric route', async (t) => {
  t.same(await statuses({}, {}, '/api/:operation', ['/api/analyze', '/api/%61nalyze', '/api/analyze?x', 'http://h/api/analyze', '/api/other', '/api/analyze%2F', '/api/justify-leaf']),
    [401, 401, 401, 401, 200, 401, 401])
})

t.test('the path of the request is read according to each router option on a parametric route, in whichever way the option is set', async (t) => {
  process.removeAllListeners('warning')
  const targets = ['/api/analyze', '/API/ANALYZE', '/api//analyze', '/api/analyze;v=1', '/api/other']
  for (const [name, value, expected] of [
    ['caseSensitive', false, [401, 401, 404, 200, 200]],
    ['ignoreDuplicateSlashes', true, [401, 404, 401, 200, 200]],
    ['useSemicolonDelimiter', true, [401, 404, 404, 401, 200]],
    ['useSemicolonDelimiter', false, [401, 404, 404, 200, 200]]
  ] as const) {
    for (const server of [{ [name]: value }, { routerOptions: { [name]: value } }]) t.same(await statuses({}, server, '/api/:operation', targets), expected, JSON.stringify(server))
  }
  for (const server of [{ ignoreTrailingSlash: true }, { routerOptions: { ignoreTrailingSlash: true } }]) {
    t.same(await statuses({}, server, '/api/:operation', ['/api/analyze', '/api/analyze/', '/api/other/']), [401, 401, 200], JSON.stringify(server))
  }
})

t.test('the path of the request decides on a wildcard route', async (t) => {
  t.same(await statuses({}, { routerOptions: { ignoreDuplicateSlashes: true } }, '/*', ['/api/analyze', '/api//analyze', '/API/analyze', '/api/analyze/x', '/']), [401, 401, 200, 200, 200])
})

t.test('a route whose pattern differs from the path of the operation is subject to the quota if the router ignores the difference', async (t) => {
  t.same(await statuses({}, { routerOptions: { caseSensitive: false } }, '/API/Analyze', ['/api/analyze', '/API/ANALYZE']), [401, 401])
  t.same(await statuses({}, { routerOptions: { ignoreTrailingSlash: true } }, '/api/analyze/', ['/api/analyze', '/api/analyze/']), [401, 401])
})

t.test('the default prefix is that of the instance', async (t) => {
  t.same(await statuses({}, {}, '/api/analyze', ['/context/api/analyze', '/api/analyze'], '/context'), [401, 404])
  t.same(await statuses({}, {}, '/api/analyze', ['/acme/api/analyze', '/other/api/%61nalyze', '/a/b/api/analyze'], '/:tenant'), [401, 401, 404])
  t.same(await statuses({ prefix: '/' }, {}, '/api/analyze', ['/context/api/analyze'], '/context'), [200], 'the option prefix takes precedence')
  t.same(await statuses({ prefix: '/context/' }, {}, '/api/analyze', ['/context/api/analyze'], '/context'), [401])
})

t.test('every reading of the path is compared without the prefix on a wildcard route', async (t) => {
  t.same(await statuses({}, {}, '/*', ['/acme/api%2Fanalyze', '/acme/x/../api/analyze', '/./acme/./api/analyze', '/a/b/api%2Fanalyze', '/api/./analyze'], '/:tenant'), [401, 401, 401, 200, 200])
  const root = { operations: [{ method: 'POST', path: '/' }], prefix: '/context' }
  t.same(await statuses(root, {}, '/*', ['/context/x/..', '/context/.', '/context%2F', '/./', '/context/x/', '/contexts/.']), [401, 401, 401, 200, 200, 200])
})

t.test('a path that can be read as operations of several quotas is counted in the first quota', async (t) => {
  const twice = [{ method: 'POST', path: '/b' }]
  const once = [{ method: 'POST', path: '/a/%2e%2e/b' }]
  const targets = ['/./a/%252e%252e/b']
  t.same(await statuses({ operations: once, perMinute: 0, quotas: { other: { operations: twice } } }, {}, '/*', targets), [200])
  t.same(await statuses({ operations: twice, perMinute: 0, quotas: { other: { operations: once } } }, {}, '/*', targets), [200])
})

t.test('a route at the prefix of its scope is protected with and without a trailing slash, unless the operation requires one', async (t) => {
  const app = Fastify()
  await app.register(quotaPlugin, { operations: [{ method: 'POST', path: '/api/analyze' }, { method: 'POST', path: '/api/slashed/' }] })
  await app.register(async (scope) => { scope.post('/', async () => 'ran') }, { prefix: '/api/analyze' })
  await app.register(async (scope) => { scope.post('/', async () => 'ran') }, { prefix: '/api/slashed' })
  const ask = async (url: string) => (await app.inject({ method: 'POST', url })).statusCode
  t.same([await ask('/api/analyze'), await ask('/api/analyze/')], [401, 401], 'both have the path of the operation as their pattern')
  t.same([await ask('/api/slashed'), await ask('/api/slashed/')], [200, 401])
})

t.test('the path is compared after rewriteUrl', async (t) => {
  const rewriteUrl = ({ url = '' }) => url.replace('/v1/', '/api/').replace('/hidden', '/api/analyze')
  t.same(await statuses({}, { rewriteUrl }, '/api/analyze', ['/v1/analyze', '/hidden', '/v1/%61nalyze', '/api/analyze']), [401, 401, 401, 401])
})

t.test('the path of an operation can contain spaces, percent signs and characters outside ASCII', async (t) => {
  const operations = [{ method: 'POST', path: '/caf\u00e9 au lait' }, { method: 'POST', path: '/100%25' }]
  t.same(await statuses({ operations }, {}, '/*', ['/caf%C3%A9%20au%20lait', '/100%2525', '/./100%2525', '/%63af%25C3%25A9/./%20au%2520lait/../', '/100%25', '/cafe']), [401, 401, 401, 200, 200, 200])
})

t.test('routes and scopes that are declared before the plugin are protected', async (t) => {
  const app = Fastify()
  app.post('/api/analyze', async () => 'ran')
  await app.register(async (scope) => {
    scope.decorateRequest('ofTheScope', true)
    scope.post('/api/justify-leaf', async (request) => ({ quota: request.quota }))
    scope.post('/api/other', async (request) => ({ quota: request.quota }))
  })
  await app.register(quotaPlugin)
  for (const url of ['/api/analyze', '/api/justify-leaf']) t.equal((await app.inject({ method: 'POST', url })).statusCode, 401, url)
  t.same((await app.inject({ method: 'POST', url: '/api/other' })).json(), { quota: null })
})

t.test('a request whose handler calls reply.callNotFound is counted once', async (t) => {
  const app = Fastify()
  await app.register(quotaPlugin, { authentication: () => ({ kind: 'local', authenticated: true, username: 'alice' }), perMinute: 2 })
  app.post('/api/analyze', (_request, reply) => { reply.callNotFound() })
  const answers = []
  for (let request = 0; request < 3; request++) answers.push((await app.inject({ method: 'POST', url: '/api/analyze' })).statusCode)
  t.same(answers, [404, 404, 429])
})

t.test('an operation is protected whatever constraints its routes have', async (t) => {
  const app = Fastify()
  await app.register(quotaPlugin)
  app.post('/api/analyze', { constraints: { host: 'one.example' } }, async () => 'one')
  app.post('/api/analyze', { constraints: { version: '2.0.0' } }, async () => 'two')
  for (const headers of [{ host: 'one.example' }, { 'accept-version': '2.x' }, { host: 'three.example' }]) {
    t.equal((await app.inject({ method: 'POST', url: '/api/analyze', headers })).statusCode, 401)
  }
})
