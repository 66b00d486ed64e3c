// docs/rules.md, "Subject": the spellings of a path. The pattern decides on a literal route; on any other, a plain spelling is compared, and an
// odd one is subject if one of its segments is the last one of the operation.
import Fastify, { type FastifyInstance, type FastifyServerOptions } from 'fastify'
import t, { type Test } from 'tap'
import quotaPlugin, { type QuotaOptions } from '../../lib/index.js'
import { listen, sendRaw, type RawRequest } from '../support/raw-socket.js'

const ran = async () => 'ran'

interface Layout {
  options?: QuotaOptions
  server?: FastifyServerOptions
  prefix?: string
  /** Declares what serves the requests. Default: a route for every path. */
  declare?: (app: FastifyInstance) => void
}

/** Returns a function that tells the status for a target: 401 if the request is subject to the quota. */
async function serve (t: Test, { options = {}, server = {}, prefix = '', declare = (app) => { app.post('/*', ran) } }: Layout = {}) {
  const app = Fastify(server)
  await app.register(async (scope) => {
    await scope.register(quotaPlugin, options)
    declare(scope)
  }, prefix === '' ? {} : { prefix })
  t.teardown(() => app.close())
  const port = await listen(app)
  return async (target: string, request: Partial<RawRequest> = {}): Promise<unknown> => (await sendRaw(port, [{ method: 'POST', target, ...request }]))[0]?.status
}

const layouts: Record<string, (app: FastifyInstance) => void> = {
  'the route /*': (app) => { app.post('/*', ran) },
  'the route *': (app) => { app.post('*', ran) },
  'a not-found handler': (app) => { app.setNotFoundHandler(ran) }
}

// Each is the path of the operation /api/analyze for some handler, proxy, or chain of two.
const reaching = [
  '/api/analyze', '/api/analyze?x', '/api/%61nalyze', '/%61pi/analyze',
  '/api//analyze', '//api/analyze', '/api/analyze/', '/api/analyze//', '/./api/analyze', '/api/./analyze', '/api/%2e/analyze', '/api/analyze/.', '/x/../api/analyze', '/api/x/%2E%2e/analyze',
  '/api%2fanalyze', '/api%2Fanalyze', '/api%252fanalyze', '/api%25252fanalyze', '/api%%32%66analyze', '/api\\analyze', '/api%5canalyze', '/api/%2561nalyze', '/api/%25%36%31nalyze',
  '/api/analyze#x', '/api/analyze%23x', '/api/analyze%3fx', '/api/analyze%20', '/api/%20analyze', '/api/analyze%09', '/api/ana%09lyze', '/api/ana%00lyze', '/api/ana%c2%85lyze', '/api/%2%0061nalyze',
  '/api/analyze;x', '/api;x/analyze', '/x;/../api/analyze', '/api/%3b/analyze', '/api/ANALYZE/', '/api%2FAnalyze',
  'http://any/api/analyze', 'HTTP://any/api/analyze?x', 'https://user@any:8/api/%61nalyze', 'foo://any/api/analyze', 'file:///api/analyze', 'ws:/api/analyze',
  '//any/api/analyze', '///any/api/analyze', '/\\any/api/analyze', '/%2fany/api/analyze', '/%09/any/api/analyze', '//a//b/api/analyze', '//a%2f%2fb/api/analyze', '*/api/analyze', '*analyze/../analyze'
]

const others = [
  '/', '/api', '/analyze', '/API/analyze', '/api/Analyze', '/api/analyzer', '/api/analyze/x', '/x/api/analyze', '/api/other?/analyze', '/api/%6fther', '/analyze.', '/api/analyze..', '/api-analyze',
  '/api%2fanalyzer', '/api//other', '/./other', '/api/other/', '/api/other%20', '/api/other;x', '//any/api', 'http://any/api/other', '/api/an%2falyze', '/api//other?/analyze'
]

for (const [layout, declare] of Object.entries(layouts)) {
  t.test(`every spelling that could reach the operation through ${layout} is subject, and no other`, async (t) => {
    const statusFor = await serve(t, { declare })
    const isMalformed = (status: unknown) => status === 400 || (layout === 'the route /*' && status === 404)
    for (const target of reaching) {
      const status = await statusFor(target)
      t.ok(status === 401 || isMalformed(status), `${target}: ${status}`)
    }
    for (const target of others) t.not(await statusFor(target), 401, target)
  })
}

// A handler that joins an empty Host and /any/api/analyze gets http:///any/api/analyze, whose host is "any".
const hosts: [host: string, target: string, status: number][] = [
  ['h/api', '/analyze', 401], ['h/api/analyze?', '/x', 401], ['h\\api\\analyze#', '/x', 401], ['h/%61nalyze', '/x', 401], ['h/api', '/x/../analyze', 401], ['', '/any/api/analyze', 401],
  ['analyze', '/x', 200], ['h/api', '/other', 200], ['h', '/api', 200], ['', '/api/other', 200]
]

t.test('a Host that contains a part of the path is part of the spelling', async (t) => {
  const statusFor = await serve(t)
  for (const [host, target, status] of hosts) t.equal(await statusFor(target, { host }), status, `${host} ${target}`)
  // To such a handler, all of the target is a part of the query or the fragment.
  const statusForRoot = await serve(t, { options: { operations: [{ method: 'POST', path: '/' }] } })
  for (const host of ['h?', 'h#']) t.equal(await statusForRoot('/api/other', { host }), 401, host)
})

t.test('the pattern alone decides on a literal route', async (t) => {
  const statusFor = await serve(t, { declare: (app) => { for (const url of ['/api/analyze', '/api/other', '/x/analyze']) app.post(url, ran) } })
  for (const target of ['/api/analyze', '/api/%61nalyze', '/api/analyze?x', '/api/analyze#x', 'http://any/api/analyze']) t.equal(await statusFor(target), 401, target)
  for (const target of ['/api/other#/analyze', 'http://analyze/api/other', '/x/%61nalyze', '/x/analyze#']) t.equal(await statusFor(target), 200, target)
})

t.test('paths are compared as the router of the host compares them, in whichever way its options are set', async (t) => {
  process.removeAllListeners('warning')
  const targets = ['/api/analyze', '/API/ANALYZE', '/api/analyze/', '/api//analyze', '/api/analyze;v=1', '/api/other']
  for (const [pattern, name, expected] of [
    ['/API/Analyze', 'caseSensitive', [401, 401, 404, 404, 404, 404]],
    ['/api/analyze/', 'ignoreTrailingSlash', [401, 404, 401, 404, 404, 404]],
    ['//api/analyze', 'ignoreDuplicateSlashes', [401, 404, 404, 401, 404, 404]],
    ['/api/:operation', 'useSemicolonDelimiter', [401, 404, 404, 404, 401, 200]]
  ] as const) {
    for (const server of [{ [name]: name !== 'caseSensitive' }, { routerOptions: { [name]: name !== 'caseSensitive' } }]) {
      const statusFor = await serve(t, { server, declare: (app) => { app.post(pattern, ran) } })
      const statuses = []
      for (const target of targets) statuses.push(await statusFor(target))
      t.same(statuses, expected, `${pattern} ${JSON.stringify(server)}`)
    }
  }
})

t.test('the default prefix is that of the instance, and the option prefix takes precedence', async (t) => {
  const declare = (app: FastifyInstance) => { app.post('/api/analyze', ran); app.post('/*', ran) }
  const cases: [Layout, string, number][] = [
    [{ prefix: '/context' }, '/context/api/analyze', 401], [{ prefix: '/context' }, '/context/api/./analyze', 401], [{ prefix: '/context' }, '/context/x/api/analyze', 200],
    [{ prefix: '/:tenant' }, '/acme/api/analyze', 401], [{ prefix: '/:tenant' }, `/${'a'.repeat(100)}/api/%61nalyze`, 401], [{ prefix: '/:tenant' }, '/a/b/api/analyze', 200],
    [{ prefix: '/context', options: { prefix: '/' } }, '/context/api/analyze', 200], [{ prefix: '/context', options: { prefix: '/context/' } }, '/context/api/analyze', 401]
  ]
  for (const [layout, target, status] of cases) t.equal(await (await serve(t, { declare, ...layout }))(target), status, `${JSON.stringify(layout)} ${target}`)
  // Behind a wildcard, a parameter of the prefix can have any length.
  t.equal(await (await serve(t, { options: { prefix: '/:tenant' } }))(`/${'a'.repeat(1000)}/api/analyze`), 401)
})

t.test('what is empty without the prefix is the path /', async (t) => {
  const operations = [{ method: 'POST', path: '/' }]
  for (const [prefixTrailingSlash, expected] of [['both', [401, 401, 401]], ['slash', [404, 401, 404]], ['no-slash', [401, 404, 401]]] as const) {
    const declare = (app: FastifyInstance) => { app.route({ method: 'POST', url: '/', prefixTrailingSlash, handler: ran }) }
    const statusFor = await serve(t, { options: { operations }, prefix: '/ctx', declare })
    t.same([await statusFor('/ctx'), await statusFor('/ctx/'), await statusFor('/ctx?x')], expected, prefixTrailingSlash)
  }
  const statusFor = await serve(t, { options: { operations, prefix: '/ctx' } })
  for (const target of ['/ctx', '/ctx/', '/ctx?x', '/ctx/.', '/ctx/x/..', '/anything//odd']) t.equal(await statusFor(target), 401, target)
  for (const target of ['/ctx/x', '/other']) t.equal(await statusFor(target), 200, target)
})

t.test('the route / of a scope with a prefix also serves the path that ends with a slash', async (t) => {
  const declare = (app: FastifyInstance) => { app.register(async (scope) => { scope.post('/', ran) }, { prefix: '/x' }) }
  for (const [path, expected] of [['/x/', [200, 401]], ['/x', [401, 401]]] as const) {
    const statusFor = await serve(t, { options: { operations: [{ method: 'POST', path }] }, declare })
    t.same([await statusFor('/x'), await statusFor('/x/')], expected, path)
  }
})

t.test('the path of an operation can contain what a plain spelling cannot, and characters outside ASCII', async (t) => {
  for (const [path, targets] of [
    ['/café au lait', ['/caf%C3%A9%20au%20lait', '/./caf%25C3%25A9%20au%20lait']],
    ['/100%25', ['/100%2525', '/./100%2525', '/100%252525']],
    ['/a;b', ['/a;b', '/a%3Bb', '/./a;b']],
    ['/a\\b', ['/a\\b', '/a%5Cb']],
    ['/slashed/', ['/slashed/', '/./slashed']]
  ] as const) {
    const statusFor = await serve(t, { options: { operations: [{ method: 'POST', path }] } })
    for (const target of targets) t.equal(await statusFor(target), 401, `${path}: ${target}`)
    t.equal(await statusFor('/other'), 200)
  }
})

t.test('an odd spelling is subject to each quota whose last segment it contains, even if two of them differ only in letter case', async (t) => {
  const quotas = { chat: { operations: [{ method: 'POST', path: '/b/report' }] } }
  const statusFor = await serve(t, { options: { perMinute: 0, operations: [{ method: 'POST', path: '/a/Report' }], quotas } })
  t.same([await statusFor('/b/report'), await statusFor('//b/report')], [401, 401])
})

t.test('letters of any case are those of Unicode, as for a router that ignores case', async (t) => {
  for (const [path, target] of [['/api/task', '/api/tas%E2%84%AA'], ['/api/straße', '/api/STRA%E1%BA%9EE'], ['/api/ὀδός', '/api/%E1%BD%88%CE%94%CE%8C%CF%82']] as const) {
    const server = { routerOptions: { caseSensitive: false, ignoreDuplicateSlashes: true } }
    const statusFor = await serve(t, { server, options: { operations: [{ method: 'POST', path }] }, declare: (app) => { app.post('/api/:name', ran) } })
    t.same([await statusFor(target), await statusFor(`/${target}`), await statusFor('/api//tas')], [401, 401, 200], path)
  }
})

t.test('a long target takes little time, however many operations are listed', async (t) => {
  const operations = Array.from({ length: 5000 }, (_, index) => ({ method: 'POST', path: `/api/operation-${index}` }))
  const statusFor = await serve(t, { server: Object({ http: { maxHeaderSize: 2 ** 22 } }), options: { operations } })
  // Otherwise this would not end within the time limit of the test.
  for (const end of ['/other', '/operation-4999']) t.equal(await statusFor(''.padEnd(2 ** 18, '/') + end), end === '/other' ? 200 : 401, end)
})

t.test('the target is read after rewriteUrl, which can decode it', async (t) => {
  const statusFor = await serve(t, { server: { rewriteUrl: ({ url = '' }) => decodeURI(url).replace('/v1/', '/api/') } })
  for (const target of ['/v1/analyze', '/api/ana%09lyze', '/api/analyze%20', '/api/analyze%0a', '/%09/any/api/analyze']) t.equal(await statusFor(target), 401, target)
  t.equal(await statusFor('/v1/other%20'), 200)
})

t.test('a malformed target is answered, and its length in bytes bounds the work', async (t) => {
  const statusFor = await serve(t, { server: Object({ http: { maxHeaderSize: 2 ** 22 } }) })
  for (const target of ['/%', '/%2', '/%zz', '/api/%ff', '/api/%c3%28/analyze', '//[', 'http://[/api/analyze', '//any:99999/', '/%ed%a0%80', '*', '//', '/..', 'x', '?', '#', ';']) {
    t.ok([200, 400, 401, 404].includes(Number(await statusFor(target))), target)
  }
  // Work that grew with the square of the length would not end within the time limit of the test.
  const size = 2 ** 20
  for (const target of ['/'.padEnd(size, 'a'), '/'.padEnd(size, '/a'), '/%'.padEnd(size, '25'), '/'.padEnd(size, '%25'), '//'.padEnd(size, '%2525'), '/.'.padEnd(size, '%32%35')]) {
    t.ok([200, 400, 404, 414].includes(Number(await statusFor(target))), target.slice(0, 10))
    t.equal(await statusFor(`${target}//analyze`) === 200, false, target.slice(0, 10))
  }
})
