// docs/rules.md, "Subject": the spellings of a path. The pattern decides on a literal route; on any
// other, a plain spelling is compared, and an odd one is subject if one of its segments is the last
// one of the operation.
import { once } from 'node:events'
import { connect, type OutgoingHttpHeaders } from 'node:http2'
import { createRequire } from 'node:module'
import Fastify, { type FastifyInstance, type FastifyServerOptions } from 'fastify'
import t, { type Test } from 'tap'
import quotaPlugin, { type QuotaOptions } from '../../lib/index.js'
import { listen, sendRaw, type RawRequest } from '../support/raw-socket.js'

const ran = async () => 'ran'
const lowest: typeof Fastify = createRequire(import.meta.url)('fastify-lowest')

interface Layout {
  options?: QuotaOptions
  server?: FastifyServerOptions
  /** Creates the server. Default: the version of Fastify that is under test. */
  create?: typeof Fastify
  prefix?: string
  /** Declares what serves the requests. Default: a route for every path. */
  declare?: (app: FastifyInstance) => void
}

/**
 * Returns a function that tells the statuses for targets: 401 if the request is subject to the
 * quota. A target can follow its `Host`, after a space.
 */
async function serve (
  t: Test,
  {
    options = {},
    server = {},
    create = Fastify,
    prefix = '',
    declare = (app) => {
      app.post('/*', ran)
    }
  }: Layout = {}
) {
  const app = create(server)
  await app.register(
    async (scope) => {
      await scope.register(quotaPlugin, options)
      declare(scope)
    },
    prefix === '' ? {} : { prefix }
  )
  t.teardown(() => app.close())
  const port = await listen(app)
  return async (targets: readonly string[]): Promise<number[]> => {
    const requests = targets.map((spelled): RawRequest => {
      const [target = '', host] = spelled.split(' ').reverse()
      return { method: 'POST', target, ...(host !== undefined && { host }) }
    })
    return (await sendRaw(port, requests)).map(({ status }) => status)
  }
}

const layouts: Record<string, (app: FastifyInstance) => void> = {
  'the route /*': (app) => {
    app.post('/*', ran)
  },
  'the route *': (app) => {
    app.post('*', ran)
  },
  'a not-found handler': (app) => {
    app.setNotFoundHandler(ran)
  }
}

// Each is the path of the operation /api/analyze for some handler, proxy, or chain of two.
const reaching = [
  '/api/analyze',
  '/api/analyze?x',
  '/api/%61nalyze',
  '/%61pi/analyze',
  '/api//analyze',
  '//api/analyze',
  '/api/analyze/',
  '/api/analyze//',
  '/./api/analyze',
  '/api/./analyze',
  '/api/%2e/analyze',
  '/api/analyze/.',
  '/x/../api/analyze',
  '/api/x/%2E%2e/analyze',
  '/api%2fanalyze',
  '/api%2Fanalyze',
  '/api%252fanalyze',
  '/api%25252fanalyze',
  '/api%%32%66analyze',
  '/api\\analyze',
  '/api%5canalyze',
  '/api/%2561nalyze',
  '/api/%25%36%31nalyze',
  '/api/analyze#x',
  '/api/analyze%23x',
  '/api/analyze%3fx',
  '/api/analyze%20',
  '/api/%20analyze',
  '/api/analyze%09',
  '/api/ana%09lyze',
  '/api/ana%00lyze',
  '/api/ana%c2%85lyze',
  '/api/%2%0061nalyze',
  '/api/analyze;x',
  '/api;x/analyze',
  '/x;/../api/analyze',
  '/api/%3b/analyze',
  '/api/ANALYZE/',
  '/api%2FAnalyze',
  'http://any/api/analyze',
  'HTTP://any/api/analyze?x',
  'http://any?/api/analyze',
  'https://user@any:8/api/%61nalyze',
  'foo://any/api/analyze',
  'file:///api/analyze',
  'ws:/api/analyze',
  '//any/api/analyze',
  '///any/api/analyze',
  '/\\any/api/analyze',
  '/%2fany/api/analyze',
  '/%09/any/api/analyze',
  '//a//b/api/analyze',
  '//a%2f%2fb/api/analyze',
  '*/api/analyze',
  '*analyze/../analyze'
]

const others = [
  '/',
  '/api',
  '/analyze',
  '/API/analyze',
  '/api/Analyze',
  '/api/analyzer',
  '/api/analyze/x',
  '/x/api/analyze',
  '/api/other?/analyze',
  '/api/%6fther',
  '/analyze.',
  '/api/analyze..',
  '/api-analyze',
  '/api%2fanalyzer',
  '/api//other',
  '/./other',
  '/api/other/',
  '/api/other%20',
  '/api/other;x',
  '//any/api',
  'http://any/api/other',
  '/api/an%2falyze',
  '/api//other?/analyze'
]

for (const [layout, declare] of Object.entries(layouts)) {
  t.test(
    `every spelling that could reach the operation through ${layout} is subject, and no other`,
    async (t) => {
      const statusesFor = await serve(t, { declare })
      const malformed = layout === 'the route /*' ? [400, 404] : [400]
      const statuses = await statusesFor(reaching)
      const passed = reaching.filter((_, index) =>
        ![401, ...malformed].includes(Number(statuses[index]))
      )
      t.same(passed, [])
      const statusesOfOthers = await statusesFor(others)
      t.same(others.filter((_, index) => statusesOfOthers[index] === 401), [])
    }
  )
}

t.test('an encoded slash is not plain, in letters of either case', async (t) => {
  const statusesFor = await serve(t)
  const targets = ['%2f', '%2F'].flatMap((slash) => [`/api/analyze${slash}x`, `/x${slash}analyze`])
  t.same(await statusesFor(targets), [401, 401, 401, 401])
})

const post =
  (...paths: readonly string[]) =>
    (app: FastifyInstance) => {
      for (const path of paths) app.post(path, ran)
    }
const operation = (path: string): QuotaOptions => ({ operations: [{ method: 'POST', path }] })
const slashed = (prefixTrailingSlash: 'both' | 'slash' | 'no-slash'): Layout => ({
  options: operation('/'),
  prefix: '/ctx',
  declare: (app) => {
    app.route({ method: 'POST', url: '/', prefixTrailingSlash, handler: ran })
  }
})
const scope = (path: string): Layout => ({
  options: operation(path),
  declare: (app) => {
    app.register(
      async (scope) => {
        scope.post('/', ran)
      },
      { prefix: '/x' }
    )
  }
})
const byPrefix = (layout: Layout): Layout => ({ declare: post('/api/analyze', '/*'), ...layout })
const decoded: FastifyServerOptions = {
  rewriteUrl: ({ url = '' }) => decodeURI(url).replace('/v1/', '/api/')
}

// The layout of a service, the targets that are subject, and those that are not. A target can
// follow its `Host`.
const cases: [
  rule: string,
  layout: Layout,
  subject: readonly string[],
  others: readonly string[]
][] = [
  [
    'a Host that contains a part of the path is part of the spelling',
    {},
    [
      'h/api /analyze',
      'h/api/analyze? /x',
      'h\\api\\analyze# /x',
      'h/%61nalyze /x',
      'h/api /x/../analyze'
    ],
    ['analyze /x', 'h/api /other', 'h /api']
  ],
  ['a target under an empty Host is not plain', {}, [' /any/api/analyze'], [' /api/other']],
  [
    'all of a target can be a query or a fragment',
    { options: operation('/') },
    ['h? /api/other', 'h# /api/other'],
    ['/api/other']
  ],
  [
    'the pattern alone decides on a literal route',
    { declare: post('/api/analyze', '/api/other', '/x/analyze') },
    [
      '/api/analyze',
      '/api/%61nalyze',
      '/api/analyze?x',
      '/api/analyze#x',
      'http://any/api/analyze'
    ],
    ['/api/other#/analyze', 'http://analyze/api/other', '/x/%61nalyze', '/x/analyze#']
  ],
  [
    'a target that is malformed where the router reads no path is not plain',
    {},
    ['/api/analyze#%ff', '/x/analyze#%'],
    ['/api/other#%ff']
  ],
  [
    'the prefix of the instance',
    byPrefix({ prefix: '/ctx' }),
    ['/ctx/api/analyze', '/ctx/api/./analyze'],
    ['/ctx/x/api/analyze']
  ],
  [
    'a prefix with a parameter',
    byPrefix({ prefix: '/:tenant' }),
    ['/acme/api/analyze', '/b/api/%61nalyze'],
    ['/a/b/api/analyze']
  ],
  [
    'a prefix in letters of any case, for a router that ignores case',
    byPrefix({ prefix: '/Ctx', server: { routerOptions: { caseSensitive: false } } }),
    ['/ctx/api/analyze', '/CTX/API/%41nalyze'],
    ['/x/api/analyze']
  ],
  [
    'a prefix in letters of any case and with a parameter, for a router that ignores case',
    byPrefix({ prefix: '/:tenant/V1', server: { routerOptions: { caseSensitive: false } } }),
    ['/Acme/v1/api/analyze', '/acme/V1/api/%41nalyze'],
    ['/acme/v2/api/analyze']
  ],
  [
    'options of the router that the host sets beside its other options, as Fastify 5.0 has them',
    {
      create: lowest,
      server: { caseSensitive: false, ignoreTrailingSlash: true, ignoreDuplicateSlashes: true },
      declare: post('//api//analyze', '/*')
    },
    ['/api/analyze', '/API/analyze', '/api/analyze/'],
    ['/x/analyze/']
  ],
  [
    'a path that ends before the parameter of the prefix',
    { options: { ...operation('/'), prefix: '/v1/:tenant' } },
    ['/v1/acme', '/v1/acme/'],
    ['/v1']
  ],
  [
    'a colon in the prefix, which the pattern of a route has twice',
    byPrefix({ prefix: '/::v1' }),
    ['/:v1/api/analyze'],
    ['/x/api/analyze']
  ],
  ...['//ctx', '/ctx//', '/ctx//v1'].map((prefix): (typeof cases)[number] => [
    `duplicate slashes that the router ignores, in the prefix ${prefix}`,
    byPrefix({ prefix, server: { routerOptions: { ignoreDuplicateSlashes: true } } }),
    [`${prefix}/api/analyze`, `${prefix.replaceAll('//', '/')}/api/analyze`],
    []
  ]),
  ...[
    '/:tenant([^/]+)',
    '/:tenant(^[a-z/]+$)',
    '/:tenant(^(?:a|b/)+$)',
    '/:tenant(^(?:a|\\)/)+)'
  ].map((prefix): (typeof cases)[number] => [
    `a regular expression that contains a slash, in the prefix ${prefix}`,
    byPrefix({ prefix }),
    ['/a/api/analyze', '/a/api/%61nalyze'],
    ['/a/b/api/analyze']
  ]),
  [
    'parentheses that are text, in the prefix /a(b/c)/::d(e/f)',
    byPrefix({ prefix: '/a(b/c)/::d(e/f)' }),
    ['/a(b/c)/:d(e/f)/api/analyze'],
    ['/a()/:d()/api/analyze']
  ],
  [
    'a parameter of the prefix of any length',
    { options: { prefix: '/:tenant' } },
    [`/${'a'.repeat(1000)}/api/analyze`],
    []
  ],
  [
    'the option prefix takes precedence: none',
    byPrefix({ prefix: '/context', options: { prefix: '/' } }),
    [],
    ['/context/api/analyze']
  ],
  [
    'the option prefix takes precedence',
    byPrefix({ prefix: '/context', options: { prefix: '/context/' } }),
    ['/context/api/analyze'],
    []
  ],
  [
    'what is empty without the prefix is the path /',
    { options: { ...operation('/'), prefix: '/ctx' } },
    ['/ctx', '/ctx/', '/ctx?x', '/ctx/.', '/ctx/x/..', '/anything//odd'],
    ['/ctx/x', '/other']
  ],
  ['the route / with both forms', slashed('both'), ['/ctx', '/ctx/', '/ctx?x'], []],
  ['the route / with a slash', slashed('slash'), ['/ctx/'], ['/ctx', '/ctx?x']],
  ['the route / without a slash', slashed('no-slash'), ['/ctx', '/ctx?x'], ['/ctx/']],
  [
    'the route / of a scope also serves the path that ends with a slash',
    scope('/x/'),
    ['/x/'],
    ['/x']
  ],
  ['the route / of a scope serves both', scope('/x'), ['/x', '/x/'], []],
  [
    'an operation with characters outside ASCII',
    { options: operation('/café au lait') },
    ['/caf%C3%A9%20au%20lait', '/./caf%25C3%25A9%20au%20lait'],
    ['/other']
  ],
  [
    'a spelling that is not ASCII when it is decoded is not plain',
    { options: operation('/api/analyze') },
    ['/api%E2%80%8B/analyze', '/%C3%A9/Analyze'],
    ['/api/%C3%A9', '/other/analyze']
  ],
  [
    'an operation with a percent sign',
    { options: operation('/100%25') },
    ['/100%2525', '/./100%2525', '/100%252525'],
    ['/other']
  ],
  [
    'an operation with a semicolon',
    { options: operation('/a;b') },
    ['/a;b', '/a%3Bb', '/./a;b'],
    ['/other']
  ],
  [
    'an operation with a backslash',
    { options: operation('/a\\b') },
    ['/a\\b', '/a%5Cb'],
    ['/other']
  ],
  [
    'an operation that ends with a slash',
    { options: operation('/slashed/') },
    ['/slashed/', '/./slashed'],
    ['/other']
  ],
  [
    'an odd spelling is subject to each quota whose last segment it contains',
    {
      options: {
        perMinute: 0,
        ...operation('/a/Report'),
        quotas: { chat: { operations: [{ method: 'POST', path: '/b/report' }] } }
      }
    },
    ['/b/report', '//b/report'],
    []
  ],
  [
    'a target that still changes when it is decoded the eighth time is subject to each operation',
    {},
    [`/api%${'25'.repeat(7)}2fother`, `//%${'25'.repeat(7)}61`],
    [`/api%${'25'.repeat(6)}2fother`, `//%${'25'.repeat(6)}61`]
  ],
  [
    'the last segment of an operation can be one of the others, too',
    { options: operation('/report/of/report') },
    ['/report/of/report', '//report', '//of/report'],
    ['//of', '/report']
  ],
  [
    'the target is read after rewriteUrl, which can decode it',
    { server: decoded },
    [
      '/v1/analyze',
      '/api/ana%09lyze',
      '/api/analyze%20',
      '/api/analyze%0a',
      '/%09/any/api/analyze'
    ],
    ['/v1/other%20']
  ]
]

for (const [rule, layout, subject, others] of cases) {
  t.test(`which targets are subject: ${rule}`, async (t) => {
    const statusesFor = await serve(t, layout)
    const targets = [...subject, ...others]
    const statuses = await statusesFor(targets)
    t.same(targets.filter((_, index) => statuses[index] === 401), subject)
  })
}

// The options of a server over HTTP/2, and the headers of requests, each with its status.
const http2: [rule: string, QuotaOptions, [headers: OutgoingHttpHeaders, status: number][]][] = [
  [
    'the authority of an HTTP/2 request is its Host',
    {},
    [
      [{ ':path': '/api/%61nalyze?x' }, 401],
      [{ ':path': '/other/analyze' }, 200],
      [{ ':path': '/api%2Fanalyze' }, 401]
    ]
  ],
  [
    'an HTTP/2 request with an authority and a Host has the segments of both',
    {},
    [
      [{ ':path': '/other//x', ':authority': 'a', host: 'a' }, 200],
      [{ ':path': '/other//x', ':authority': 'a%2Fanalyze', host: 'a' }, 401],
      [{ ':path': '/other//x', ':authority': 'a', host: 'a%2Fanalyze' }, 401]
    ]
  ],
  [
    'what is not ASCII in the target of an HTTP/2 request is read as characters and as UTF-8',
    operation('/api/übung'),
    [
      [{ ':path': '/api/%C3%BCbung' }, 401],
      [{ ':path': '/api/übung' }, 401],
      [{ ':path': Buffer.from('/api/übung').toString('latin1') }, 401],
      [{ ':path': Buffer.from('/api/tür').toString('latin1') }, 200],
      [{ ':path': '/other/%C3%BCbung' }, 401],
      [{ ':path': '/other/t%C3%BCr' }, 200]
    ]
  ]
]

for (const [rule, options, requests] of http2) {
  t.test(rule, async (t) => {
    const app = Fastify({ http2: true })
    await app.register(quotaPlugin, options)
    app.post('/*', ran)
    const session = connect(await app.listen({ port: 0, host: '127.0.0.1' }))
    t.teardown(() => {
      session.destroy()
      return app.close()
    })
    for (const [headers, status] of requests) {
      const request = session.request({ ':method': 'POST', ...headers })
      const [received] = await once(request.end().resume(), 'response')
      t.equal(received[':status'], status, JSON.stringify(headers))
    }
  })
}

t.test('letters of any case are those of Unicode, as for a router that ignores case', async (t) => {
  for (const [path, target] of [
    ['/api/task', '/api/tas%E2%84%AA'],
    ['/api/straße', '/api/STRA%E1%BA%9EE'],
    ['/api/ὀδός', '/api/%E1%BD%88%CE%94%CE%8C%CF%82']
  ] as const) {
    const server = { routerOptions: { caseSensitive: false, ignoreDuplicateSlashes: true } }
    const statusesFor = await serve(t, {
      server,
      options: operation(path),
      declare: (app) => {
        app.post('/api/:name', ran)
      }
    })
    t.same(await statusesFor([target, `/${target}`, '/api//tas']), [401, 401, 200], path)
  }
})

t.test('an odd spelling is compared in capitals: small letters can have two forms', async (t) => {
  const statusesFor = await serve(t, { options: operation('/api/ὀδός') })
  t.same(await statusesFor(['//%E1%BD%80%CE%B4%CF%8C%CF%83']), [401], 'with another sigma')
})

t.test(
  'a malformed or a long target is answered in time that grows no faster than its length',
  async (t) => {
    const operations = [
      { method: 'POST', path: '/api/analyze' },
      ...Array.from({ length: 5000 }, (_, index) => ({
        method: 'POST',
        path: `/api/operation-${index}`
      }))
    ]
    const statusesFor = await serve(t, {
      server: Object({ http: { maxHeaderSize: 2 ** 22 } }),
      options: { operations }
    })
    const malformed = [
      '/%',
      '/%2',
      '/%zz',
      '/api/%ff',
      '/api/%c3%28/analyze',
      '//[',
      'http://[/api/analyze',
      '//any:99999/',
      '/%ed%a0%80',
      '*',
      '//',
      '/..',
      'x',
      '?',
      '#',
      ';'
    ]
    const unexpected = (await statusesFor(malformed)).filter(
      (status) => ![200, 400, 401, 404].includes(status)
    )
    t.same(unexpected, [])
    // Otherwise this would not end within the time limit of the test.
    const size = 2 ** 17
    const long = [
      '/'.padEnd(size, '/a'),
      '/%'.padEnd(size, '25'),
      '/'.padEnd(size, '%25'),
      '//'.padEnd(size, '%2525'),
      '/.'.padEnd(size, '%32%35'),
      ''.padEnd(size, '/')
    ]
    const targets = long.map((target) => `${target}//operation-4999`)
    for (const status of await statusesFor(targets)) t.ok([400, 401, 404, 414].includes(status))
  }
)
