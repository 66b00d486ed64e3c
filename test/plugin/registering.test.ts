// Registration: options, decorators, start-up errors, encapsulation.
import fastifyEnv from '@fastify/env'
import Fastify, { type FastifyInstance } from 'fastify'
import t from 'tap'
import * as entry from '../../lib/index.js'
import quotaPlugin, { MemoryQuotaStore } from '../../lib/index.js'
import quotaMetricsPlugin from '../../lib/metrics.js'
import { matchExactly } from '../support/match-exactly.js'
import { asAlice, createServer, nobody } from '../support/server.js'

t.test(
  'the entry point exports the plugin as default and by name; it declares its name and the ' +
    'versions of Fastify',
  async (t) => {
    t.equal(entry.default, entry.quotaPlugin)
    t.same(Reflect.get(quotaPlugin, Symbol.for('plugin-meta')), {
      fastify: '5.x || ^6.0.0-alpha.4',
      name: 'fastify-llm-quota'
    })
  }
)

t.test('the plugin adds the decorators of the contract only', async (t) => {
  const app = Fastify()
  const before = new Set(Object.keys(app))
  await app.register(quotaPlugin, { preferences: false })
  await app.ready()
  t.same(
    Object.keys(app)
      .filter((name) => !before.has(name))
      .sort(),
    [
      'quotaAcquire',
      'quotaConfig',
      'quotaForget',
      'quotaResume',
      'quotaStanding',
      'quotaStore',
      'quotas'
    ]
  )
  t.ok(app.quotaStore instanceof MemoryQuotaStore)
  t.same(app.quotaConfig, { SERVICE_RATE_LIMIT_PER_MINUTE: 10 })
  t.same(
    ['quota', 'getEnvs'].map((name) => app.hasRequestDecorator(name)),
    [true, false]
  )
  const preferences = new Map()
  t.equal(
    (await createServer({ preferences })).app.getDecorator('preferences'),
    preferences,
    'preferences are decorated if the option is set'
  )
})

for (const order of ['before', 'after']) {
  t.test(
    `an @fastify/env that the host registers ${order} the plugin keeps its config and getEnvs`,
    async (t) => {
      const app = Fastify()
      process.env.OF_THE_HOST = 'yes'
      t.teardown(() => {
        delete process.env.OF_THE_HOST
      })
      const host = () =>
        app.register(fastifyEnv, {
          schema: { type: 'object', properties: { OF_THE_HOST: { type: 'string' } } }
        })
      if (order === 'before') await host()
      await app.register(quotaPlugin)
      if (order === 'after') await host()
      await app.ready()
      t.same(app.getDecorator('config'), { OF_THE_HOST: 'yes' })
      t.same(app.getEnvs(), { OF_THE_HOST: 'yes' })
    }
  )
}

t.test('start-up fails with an error that contains the option and its value', async (t) => {
  const invalid: [object, RegExp][] = [
    [{ perMinutes: 5 }, /option perMinutes does not exist; it got 5/],
    ...[
      { concurrent: 5 },
      { tokensPerMinute: 5 },
      { perHour: 5 },
      { perMinute: { tokens: 5 } },
      { perMinute: () => 5 },
      { perWeek: 5 },
      { requestsPerWeek: 5 },
      { limit: 5, window: 5000 },
      { window: 5000 },
      { timeZone: 'UTC' }
    ].map((options): [object, RegExp] => [
      options,
      new RegExp(
        `option ${Object.keys(options)[0]} must be defined in quotas, such as quotas: { ` +
          'chat: { perMinute: .*; it got '
      )
    ]),
    [{ toString: 5 }, /option toString does not exist/],
    [{ prefix: 'context' }, /option prefix must start with "\/"; it got "context"/],
    [{ prefix: '' }, /option prefix must start with "\/"; it got ""/],
    [{ prefix: '/:t(^((a|b)|c)/$)' }, /option prefix must have .* contain no groups; it got/],
    [
      { operations: {} },
      /option operations must be an array of \{ method, path \}; it got an object/
    ],
    [
      { operations: [null] },
      /option operations\[0\] must be an object { method, path }; it got null/
    ],
    [
      { operations: [{}] },
      /option operations\[0\]\.method must be an HTTP method; it got undefined/
    ],
    [
      { operations: [{ method: 'POST', path: '/a' }, { method: 'P OST', path: '/b' }] },
      /option operations\[1\]\.method .* it got "P OST"/
    ],
    ...['/a?b', '/a#b', '/:a', '/a/*'].map((path): [object, RegExp] => [
      { operations: [{ method: 'GET', path }] },
      /option operations\[0\]\.path must start with/
    ]),
    [{ perMinute: 1.5 }, /option perMinute must be an integer; it got 1.5/],
    [{ perMinute: null }, /option perMinute must be an integer; it got null/],
    [{ perMinute: 2 ** 53 }, /option perMinute must be an integer; it got 9007199254740992/],
    [{ dotenv: 'file' }, /option dotenv must be .* it got "file"/],
    [{ dotenv: { path: 5 } }, /option dotenv\.path must be the path of a file; it got 5/],
    [{ dotenv: { file: '.env' } }, /dotenv\.file does not exist; .* the options path, encoding$/],
    [
      { dotenv: { encoding: 'utf-64' } },
      /option dotenv\.encoding must be an encoding of Node\.js; it got "utf-64"/
    ],
    [{ dotenv: { encoding: 8 } }, /option dotenv\.encoding must be .* it got 8/],
    [{ dotenv: { path: 'lib' } }, /dotenv must name a file .*\(Error: EISDIR.*\); it got "lib"/],
    [{ authentication: 'session' }, /option authentication must be a function; it got "session"/],
    [{ mode: 'audit' }, /option mode must be 'enforce' or 'shadow'; it got "audit"/],
    [{ store: {} }, /option store must be a store with a function acquire; it got an object/],
    ...[0, -1, 2 ** 31].map((preferenceTimeout): [object, RegExp] => [
      { preferenceTimeout },
      /option preferenceTimeout must be a number of .* above 0, at most 2147483647; it got/
    ]),
    ...[1.5, '5', null].map((preferenceTimeout): [object, RegExp] => [
      { preferenceTimeout },
      /option preferenceTimeout must be an integer; it got/
    ]),
    [
      { rateLimitHeaders: 'draft-7' },
      /option rateLimitHeaders must be 'draft-10'; it got "draft-7"/
    ],
    [{ refusalBody: {} }, /option refusalBody must be a function; it got an object/],
    [{ preferences: true }, /option preferences must be a preference reader .* it got true/],
    [{ prefix: 'x'.repeat(500) }, /it got "x{100}…"$/]
  ]
  for (const [options, message] of invalid) {
    const app = Fastify()
    await t.rejects(
      async () => {
        await app.register(quotaPlugin, options)
      },
      { code: 'FST_ERR_LLM_QUOTA_OPTION', message },
      String(message)
    )
  }
  for (const [options, message] of [
    [{ registry: {} }, /registry must be a registry of prom-client/],
    [{ registers: [] }, /registers does not exist/]
  ] as const) {
    await t.rejects(
      async () => {
        await Fastify().register(quotaMetricsPlugin, Object(options))
      },
      { code: 'FST_ERR_LLM_QUOTA_OPTION', message }
    )
  }
})

t.test('of what can hold a secret, the error of an option contains only the type', async (t) => {
  for (const [options, message] of [
    [{ store: { password: 'hunter2' } }, /option store must be a store .* it got an object$/],
    [{ preferences: () => 'hunter2' }, /must be a preference reader .* it got a function$/],
    [{ prefix: 'redis://user:hunter2@host' }, /option prefix must start with "\/"; it got a URL$/]
  ] as const) {
    await t.rejects(async () => {
      await Fastify().register(quotaPlugin, Object(options))
    }, { message })
  }
})

t.test('start-up fails with the default name of a dotenv file that cannot be read', async (t) => {
  const folder = process.cwd()
  const other = t.testdir({ '.env': {} })
  t.teardown(() => {
    process.chdir(folder)
  })
  process.chdir(other)
  for (const dotenv of [true, {}]) {
    await t.rejects(
      async () => {
        await Fastify().register(quotaPlugin, { dotenv })
      },
      { code: 'FST_ERR_LLM_QUOTA_OPTION', message: /dotenv must name a file .*; it got "\.env"$/ }
    )
  }
})

t.test(
  "options at their bounds are accepted, as are those of Fastify's own register; an " +
    'undefined option is not set',
  async (t) => {
    const unset = Object.fromEntries(
      [
        'prefix',
        'operations',
        'store',
        'preferences',
        'perMinute',
        'dotenv',
        'authentication',
        'mode'
      ].map((name) => [name, undefined])
    )
    const valid = [
      { dotenv: true },
      { dotenv: false },
      { dotenv: { path: 'no-such-file' } },
      { dotenv: { path: undefined, encoding: 'latin1' } },
      { preferenceTimeout: 1 },
      { preferenceTimeout: 2 ** 31 - 1 },
      { logLevel: 'warn', logSerializers: {} },
      unset
    ] as const
    for (const options of valid) {
      const { app, statuses } = await createServer(Object(options))
      t.same(app.quotaConfig, { SERVICE_RATE_LIMIT_PER_MINUTE: 10 })
      t.same(await statuses(1, nobody), [401])
    }
  }
)

t.test('a second registration that the same requests would pass through fails', async (t) => {
  const failure = {
    code: 'FST_ERR_LLM_QUOTA_SECOND_REGISTRATION',
    message:
      /registered a second time .*\(prefix "\/?\w*"\).* with the option quotas/
  }
  const inner = async (app: FastifyInstance) => {
    await app.register(
      async (scope) => {
        await scope.register(async (inner) => {
          await inner.register(quotaPlugin)
        })
      },
      { prefix: '/inner' }
    )
  }
  const same = async (app: FastifyInstance) => {
    await app.register(quotaPlugin)
  }
  for (const [what, first, second] of [
    ['on the same instance', same, same],
    ['in a child scope', same, inner],
    ['in a parent scope', inner, same]
  ] as const) {
    const app = Fastify()
    await first(app)
    await t.rejects(second(app), failure, what)
  }
})

const decorator = 'FST_ERR_LLM_QUOTA_DECORATOR'
const decorated: [
  (app: FastifyInstance) => unknown,
  entry.QuotaOptions,
  { code?: string; message: RegExp }
][] = [
  [
    (app) => app.decorate('quotaStore', new MemoryQuotaStore()),
    { store: new MemoryQuotaStore() },
    {
      code: 'FST_ERR_LLM_QUOTA_OPTION',
      message: /option store must not be set, because the host has decorated its own quotaStore/
    }
  ],
  [
    (app) => app.decorate('quotaStore', JSON.parse('{}')),
    {},
    {
      message:
        /quotaStore, as the host decorated it, must be a store with .* acquire; it got an object/
    }
  ],
  [
    (app) => Reflect.apply(app.decorateRequest, app, ['quota', null]),
    {},
    { code: decorator, message: /requests already have a decorator "quota"/ }
  ],
  ...[
    'quotaConfig',
    'quotas',
    'quotaAcquire',
    'quotaResume',
    'quotaStanding',
    'quotaForget'
  ].map((name): (typeof decorated)[number] => [
    (app) => Reflect.apply(app.decorate, app, [name, null]),
    {},
    {
      code: decorator,
      message: new RegExp(`the Fastify instance already has a decorator "${name}"`)
    }
  ])
]

const failing: [string, () => entry.QuotaOptions, RegExp][] = [
  [
    'a store that lacks a function',
    () => ({
      quotas: { streams: { concurrent: 1 } },
      store: {
        acquire: () => {
          throw new Error('unused')
        }
      }
    }),
    /store of the quota streams must be a store with a function settle/
  ],
  [
    'an environment variable',
    () => {
      process.env.SERVICE_RATE_LIMIT_PER_MINUTE = 'many'
      return {}
    },
    /variable SERVICE_RATE_LIMIT_PER_MINUTE must be an integer; it got "many"/
  ],
  [
    'a dotenv file',
    () => ({ dotenv: { path: 'lib' } }),
    /option dotenv must name a file that can be read \(.*\); it got "lib"$/
  ]
]
for (const [what, options, message] of failing) {
  t.test(
    `a registration that failed on ${what} has left nothing behind, so the host can register again`,
    async (t) => {
      const app = Fastify()
      const before = Object.keys(app)
      const errors: unknown[] = []
      app.register(quotaPlugin, options()).after((error) => {
        errors.push(error)
        t.same(Object.keys(app), before)
        delete process.env.SERVICE_RATE_LIMIT_PER_MINUTE
        app.register(quotaPlugin, { perMinute: 1, authentication: asAlice })
      })
      app.after(() => {
        app.post('/api/analyze', async () => 'ran')
      })
      await app.ready()
      matchExactly(t, errors, [{ message }])
      const request = { method: 'POST', url: '/api/analyze' } as const
      const responses = [await app.inject(request), await app.inject(request)]
      t.same(responses.map(({ statusCode }) => statusCode), [200, 429])
    }
  )
}

t.test('start-up fails if the host already has a decorator of the plugin', async (t) => {
  for (const [decorate, options, failure] of decorated) {
    const app = Fastify()
    decorate(app)
    await t.rejects(async () => {
      await app.register(quotaPlugin, options)
    }, failure)
  }
})
