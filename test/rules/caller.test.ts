// docs/rules.md, "Caller".
import { mock } from 'node:test'
import fastifyJwt from '@fastify/jwt'
import type { FastifyRequest } from 'fastify'
import t from 'tap'
import {
  anonymousAuthentication,
  callerKey,
  localAuthentication,
  tokenAuthentication,
  type Authentication,
  type AuthenticationReader,
  type QuotaDecision
} from '../../lib/index.js'
import { matchExactly } from '../support/match-exactly.js'
import { published } from '../support/published.js'
import { asAlice, createServer } from '../support/server.js'
import { virtualPerformance } from '../support/time.js'

const issuer = 'https://identity.example/realms/taxonomy'
const alice = { iss: issuer, sub: 'alice' }

// Values that cannot be an issuer, a subject or a user name.
const nobodies: [string, unknown][] = [
  ['missing', undefined],
  ['null', null],
  ['true', true],
  ['a number', 5],
  ['an array', ['alice']],
  ['an object', { toString: () => 'alice' }],
  ['empty', ''],
  ['with NUL', 'al\0ice'],
  ['a lone high surrogate', 'al\ud83e'],
  ['a lone low surrogate', '\udd8aice']
]

const local = (username: unknown): Authentication =>
  Reflect.apply(localAuthentication, undefined, [username])
/** Whether a value is not one of the few below that this package did not make. */
function isMade (value: unknown): value is Authentication {
  return value != null && value !== forged
}

const forged = { kind: 'local', authenticated: true, username: 'alice' }

// Authentications, and the reason why they have no caller; null if they have one.
const authentications: [string, unknown, QuotaDecision['reason']][] = [
  ['null', null, 'no-authentication'],
  ['undefined', undefined, 'no-authentication'],
  [
    'a token not marked authenticated',
    tokenAuthentication(alice, { authenticated: false }),
    'not-authenticated'
  ],
  [
    'a local account not marked authenticated',
    localAuthentication('alice', { authenticated: false }),
    'not-authenticated'
  ],
  ['an object that this package did not make', forged, 'not-authenticated'],
  ['anonymous', anonymousAuthentication(), 'anonymous'],
  ['a token', tokenAuthentication(alice), null],
  ['a local account', localAuthentication('alice'), null],
  [
    'a token whose claims have no prototype',
    tokenAuthentication(Object.assign(Object.create(null), alice)),
    null
  ],
  [
    'a token with __proto__',
    tokenAuthentication(JSON.parse(`{ "__proto__": ${JSON.stringify(alice)} }`)),
    'no-issuer'
  ],
  [
    'a token with a preferred user name instead of a subject',
    tokenAuthentication({ iss: issuer, preferred_username: 'alice' }),
    'no-subject'
  ],
  ['a token without an issuer', tokenAuthentication({ sub: 'alice' }), 'no-issuer'],
  ...[null, undefined, 5, 'alice', [issuer, 'alice'], {}, Object.assign(() => {}, alice)].map(
    (claims): [string, unknown, 'no-issuer'] => [
      `the claims ${JSON.stringify(claims)}`,
      tokenAuthentication(claims),
      'no-issuer'
    ]
  ),
  ...nobodies.flatMap(([what, value]): [string, unknown, QuotaDecision['reason']][] => [
    [`an issuer that is ${what}`, tokenAuthentication({ iss: value, sub: 'alice' }), 'no-issuer'],
    [`a subject that is ${what}`, tokenAuthentication({ iss: issuer, sub: value }), 'no-subject'],
    [`a user name that is ${what}`, local(value), 'no-username']
  ])
]

t.test(
  'a request without a caller gets 401, its decision tells the reason, and mistakes of the ' +
    'host are warned of once',
  async (t) => {
    let authentication: unknown
    const { ask, log } = await createServer({
      perMinute: 100,
      authentication: () => authentication as Authentication,
      logged: 'debug'
    })
    for (const [what, given, reason] of [...authentications, ...authentications]) {
      authentication = given
      const messages = await published(async () => {
        t.equal((await ask()).statusCode, reason === null ? 200 : 401, what)
      })
      const decision = { outcome: reason === null ? 'admitted' : 'unauthenticated', reason }
      matchExactly(t, messages, [{ decision }], what)
      if (!isMade(given)) continue
      t.equal(callerKey(given) === null, reason !== null, what)
    }
    matchExactly(t, log.problems(), [
      { level: 40, msg: /a value that this package did not create.*not repeated$/ },
      {
        level: 40,
        reason: 'no-issuer',
        quota: 'default',
        operation: { path: '/run' },
        msg: /no issuer that is a string: sign tokens with the claim iss/
      },
      { reason: 'no-subject', msg: /no subject that is a string: sign tokens with the claim sub/ },
      { reason: 'no-username', msg: /localAuthentication/ }
    ])
    const unauthenticated = authentications.filter(([, , reason]) => reason !== null)
    t.equal(
      log.lines.filter(({ level, reason }) => level === 20 && reason != null).length,
      2 * unauthenticated.length,
      'at debug'
    )
    t.notMatch(JSON.stringify(log.lines), 'alice', 'the log contains no identity')
  }
)

t.test('a mistake in the host is warned of once for each reason, in whichever quota', async (t) => {
  const { app, log } = await createServer({ quotas: { chat: {} } })
  for (const claims of [{ sub: 'alice' }, { iss: issuer }]) {
    for (const quota of ['default', 'chat', 'default']) {
      const permit = await app.quotaAcquire(tokenAuthentication(claims), quota)
      matchExactly(t, permit.decisions, [{ quota, outcome: 'unauthenticated' }])
    }
  }
  matchExactly(t, log.problems(), [{ reason: 'no-issuer' }, { reason: 'no-subject' }])
})

// What the host has put into `request.user`: an authentication, or else verified claims.
const users: [unknown, QuotaDecision['reason']][] = [
  [undefined, 'no-authentication'],
  [null, 'no-authentication'],
  [anonymousAuthentication(), 'anonymous'],
  [localAuthentication('alice', { authenticated: false }), 'not-authenticated'],
  [alice, null],
  [{ sub: 'alice' }, 'no-issuer'],
  [tokenAuthentication(alice), null],
  [localAuthentication('alice'), null],
  [localAuthentication(' '), 'no-username'],
  ...[
    true,
    5,
    'alice',
    [],
    Symbol('alice'),
    Object.assign(() => {}, alice),
    { ...localAuthentication('alice') }
  ].map((user): [unknown, 'no-issuer'] => [user, 'no-issuer'])
]

t.test(
  'request.user determines the caller by default: an authentication, or else verified claims',
  async (t) => {
    let user: unknown
    const { app, ask } = await createServer({ perMinute: 100, authentication: undefined })
    app.addHook('onRequest', async (request) => {
      Object.assign(request, { user })
    })
    for (const [index, [given, reason]] of users.entries()) {
      user = given
      const [message] = await published(async () => {
        t.equal((await ask()).statusCode, reason === null ? 200 : 401, `row ${index}`)
      })
      t.equal(message?.decision.reason, reason, `row ${index}`)
    }
  }
)

t.test('functions of the caller get verified claims of request.user as a token', async (t) => {
  const given: unknown[] = []
  const { app, statuses } = await createServer({
    authentication: undefined,
    quotas: {
      chat: {
        perMinute (authentication) {
          given.push(authentication)
          return 1
        }
      }
    }
  })
  app.addHook('onRequest', async (request) => {
    Object.assign(request, { user: alice })
  })
  t.same(await statuses(2), [200, 429])
  matchExactly(t, given, Array(2).fill({ kind: 'token', authenticated: true, claims: alice }))
})

t.test(
  'the issuer and the subject of a token determine its key, and the user name that of a ' +
    'local account',
  async (t) => {
    t.equal(
      callerKey(tokenAuthentication({ iss: issuer, sub: '550e8400-e29b-41d4-a716-446655440000' })),
      '3dd015944d16e52cf8dfcb5094d51cf2b23d34a80c16deced40ea4d685fd8f52'
    )
    t.equal(
      callerKey(localAuthentication('alice')),
      'fe8a67d0acb52eb7cc76f6caf3e1c8dac02ef079d711f65787903610c4f0ec05'
    )
    t.equal(
      callerKey(localAuthentication('Zoë 🦊')),
      'dfe30b24890847c35602eb1738d2a65530c80c3a319a6b46fb2edac888e18a81'
    )
  }
)

t.test('an authentication that is marked with anything but true has no caller', (t) => {
  for (const authenticated of ['true', 'false', 1, {}, [], null]) {
    const marked = JSON.parse(JSON.stringify({ authenticated }))
    const what = JSON.stringify(authenticated)
    t.equal(callerKey(tokenAuthentication(alice, marked)), null, `a token: ${what}`)
    t.equal(callerKey(localAuthentication('alice', marked)), null, `a local account: ${what}`)
  }
  t.end()
})

t.test('what claims inherit identifies nobody', (t) => {
  const inherited = (claims: object, own: object) =>
    callerKey(tokenAuthentication(Object.assign(Object.create(claims), own)))
  const own = callerKey(tokenAuthentication(alice))
  t.equal(inherited({ iss: 'https://other.example', sub: 'bob' }, alice), own)
  t.equal(inherited({ sub: 'alice' }, { iss: issuer }), null)
  t.equal(inherited({ iss: issuer }, { sub: 'alice' }), null)
  t.end()
})

t.test('a name of white space alone is no identity, in ASCII and beyond it', (t) => {
  for (const blank of [' ', '\t\r\n', '\u00a0', '\u2003 ', '\u3000\u3000', '\ufeff']) {
    const keys = [
      callerKey(localAuthentication(blank)),
      callerKey(tokenAuthentication({ iss: issuer, sub: blank })),
      callerKey(tokenAuthentication({ iss: blank, sub: 'alice' }))
    ]
    t.same(keys, [null, null, null], JSON.stringify(blank))
  }
  t.end()
})

t.test('identities are case-sensitive, and white space is not removed', async (t) => {
  const names = ['alice', 'Alice', ' alice', 'alice ', 'a lice', 'ali\u0301ce', 'al\u00edce']
  const keys = names.flatMap((name) => [
    callerKey(localAuthentication(name)),
    callerKey(tokenAuthentication({ iss: issuer, sub: name })),
    callerKey(tokenAuthentication({ iss: name, sub: 'alice' }))
  ])
  t.equal(new Set(keys).size, 3 * names.length)
  t.notOk(keys.includes(null))
})

t.test('an authentication cannot be changed', (t) => {
  const created = [tokenAuthentication(alice), local('alice'), anonymousAuthentication()]
  t.same(created.map(Object.isFrozen), [true, true, true])
  t.end()
})

t.test('account is anything that the host knows of the user, and no part of the key', (t) => {
  for (const account of [{ plan: 'large' }, 'large', null, undefined]) {
    const made = [
      tokenAuthentication(alice, { account }),
      localAuthentication('alice', { account }),
      anonymousAuthentication({ account })
    ]
    t.ok(made.every((each) => each.account === account && each.authenticated))
    t.same(made.map(callerKey), [
      callerKey(tokenAuthentication(alice)),
      callerKey(localAuthentication('alice')),
      null
    ])
  }
  const unverified = localAuthentication('alice', { authenticated: false, account: 'large' })
  matchExactly(t, unverified, { authenticated: false, account: 'large' })
  t.end()
})

t.test('callerKey throws for what this package has not made, and says what it got', (t) => {
  const others: [value: unknown, shown: string][] = [
    [null, 'null'],
    [undefined, 'undefined'],
    ['alice', 'a string'],
    [alice, 'an object'],
    [forged, 'an object'],
    [{ ...localAuthentication('alice') }, 'an object'],
    [Object.create(localAuthentication('alice')), 'an object'],
    [revoked(), 'an object'],
    [localAuthentication, 'a function']
  ]
  for (const [value, shown] of others) {
    t.throws(
      () => Reflect.apply(callerKey, undefined, [value]),
      {
        name: 'TypeError',
        message:
          'fastify-llm-quota: the authentication must have been created by tokenAuthentication, ' +
          `localAuthentication or anonymousAuthentication; it got ${shown}`
      }
    )
  }
  t.end()
})

t.test('forwarding headers and network addresses are never identities', async (t) => {
  const { ask } = await createServer({ perMinute: 2, fastify: { trustProxy: true } })
  const from = async (address: string, caller: string): Promise<number> => {
    const forwarded = {
      'x-forwarded-for': address,
      forwarded: `for=${address}`,
      'x-real-ip': address
    }
    const headers = { ...forwarded, 'x-caller': caller }
    return (await ask({ headers, remoteAddress: address })).statusCode
  }
  const received = []
  for (const address of ['192.0.2.1', '192.0.2.2', '192.0.2.3']) {
    t.equal(await from(address, ''), 401)
    received.push(await from(address, 'alice'))
  }
  t.same(received, [200, 200, 429], 'a different address is not a different caller')
  t.equal(await from('192.0.2.1', 'bob'), 200, 'the same address is not the same caller')
})

t.test(
  'the option authentication, or what it promises, determines the caller instead of request.user',
  async (t) => {
    const read: AuthenticationReader = ({ headers }) =>
      localAuthentication(String(headers['x-account']))
    const thenable = (request: FastifyRequest) => ({
      then: (resolve: (value: unknown) => void) => {
        resolve(read(request))
      }
    })
    const readers: AuthenticationReader[] = [
      read,
      async (request) => read(request),
      (request) => Object(thenable(request)),
      (request) => Object.assign(() => {}, thenable(request)) as never
    ]
    for (const authentication of readers) {
      const { app, statuses, log } = await createServer({ perMinute: 1, authentication })
      app.addHook('onRequest', async (request) => {
        Object.assign(request, { user: alice })
      })
      t.same(await statuses(2, { 'x-account': 'one' }), [200, 429])
      t.same(await statuses(1, { 'x-account': 'two' }), [200])
      t.same(log.problems(), [])
    }
  }
)

const failing: ((e: Error) => unknown)[] = [
  (error) => {
    throw error
  },
  async (error) => {
    throw error
  },
  (error) => ({
    then () {
      throw error
    }
  })
]

t.test('a failed authentication, which clients can cause, is logged once a minute', async (t) => {
  const clock = virtualPerformance(t)
  const { statuses, log } = await createServer({
    authentication: ({ headers }) => {
      throw Object.assign(new Error('bad key'), { statusCode: Number(headers['x-status']) })
    }
  })
  for (const later of [0, 0, 59_999, 1]) {
    clock.advance(later)
    for (const status of ['401', '500']) await statuses(1, { 'x-status': status })
  }
  matchExactly(t, log.problems(), [{ times: 1 }, { times: 1 }, { times: 3 }, { times: 3 }])
})

// The status code of an error of the host's authentication, and the status of the response.
const statusCodes: [statusCode: unknown, status: 401 | 503][] = [
  [undefined, 503],
  [null, 503],
  [0, 503],
  ['', 503],
  ['ECONNREFUSED', 503],
  [400, 401],
  [401, 401],
  ['401', 401],
  [499, 401],
  [500, 503],
  [599, 503],
  ['503', 503]
]

t.test(
  'an authentication that fails is an outage, a 503, unless its error has a statusCode below ' +
    '500: then it is a 401; it is logged',
  async (t) => {
    for (const authentication of failing) {
      const clock = virtualPerformance(t)
      let error = new Error()
      const { ask, log } = await createServer({
        authentication: () => authentication(error) as null
      })
      for (const [statusCode, status] of statusCodes) {
        clock.advance(60_000)
        log.lines.length = 0
        error = Object.assign(new Error('the session store failed'), { statusCode })
        const messages = await published(async () => {
          const { statusCode: received, headers } = await ask()
          const what = `${authentication} with ${statusCode}`
          t.equal(received, status, what)
          t.equal(headers['retry-after'], status === 503 ? '1' : undefined, what)
        })
        const outage = {
          outcome: 'unavailable',
          reason: 'authentication',
          msg: /unavailable; if only the credentials .* return null in place.* once a minute$/
        }
        const refusal = {
          outcome: 'unauthenticated',
          reason: 'no-authentication',
          msg: /; the request is treated as unauthenticated; .* once a minute$/
        }
        const { msg, ...expected } = status === 503 ? outage : refusal
        matchExactly(t, messages, [{ decision: { ...expected, callerKey: null, count: null } }])
        matchExactly(t, log.problems(), [
          { level: 50, msg, err: { message: 'the session store failed' } }
        ])
      }
    }
  }
)

/** Returns a proxy whose every use throws. */
function revoked (): object {
  const { proxy, revoke } = Proxy.revocable({}, {})
  revoke()
  return proxy
}

const unreadable = Object.defineProperty(new Error('no directory'), 'statusCode', {
  get () {
    throw new Error('no status')
  }
})

t.test('an authentication that throws no error, or an unreadable one, is an outage', async (t) => {
  const refused = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' })
  const isSymbol = Object.assign(new Error('no directory'), { statusCode: Symbol('503') })
  const reasons: [thrown: unknown, isReadable: boolean][] = [
    [new AggregateError([refused]), true],
    ['no directory', true],
    [null, true],
    [401, true],
    [revoked(), false],
    [unreadable, false],
    [isSymbol, false]
  ]
  const clock = virtualPerformance(t)
  let authenticate = (): unknown => null
  const { statuses, log } = await createServer({ authentication: () => authenticate() as null })
  for (const [thrown, isReadable] of reasons) {
    for (const authentication of failing) {
      clock.advance(60_000)
      log.lines.length = 0
      authenticate = () => authentication(thrown as Error)
      t.same(await statuses(1), [503])
      const msg = isReadable ? /unavailable/ : /could not be read; the quota is unavailable; /
      matchExactly(t, log.problems(), [{ msg }])
    }
  }
})

t.test('an error of @fastify/jwt is a 401, and so is null, which is not logged', async (t) => {
  const { statuses, log } = await createServer({
    before: (app) => app.register(fastifyJwt, { secret: 'thirty-two bytes or more for HS256' }),
    authentication: async (request) => {
      if (request.headers['x-key'] !== undefined) return null
      return tokenAuthentication(await request.jwtVerify())
    }
  })
  t.same(await statuses(1, { 'x-key': 'unknown' }), [401])
  t.same(log.problems(), [])
  t.same(await statuses(1), [401])
  const err = { code: 'FST_JWT_NO_AUTHORIZATION_IN_HEADER' }
  matchExactly(t, log.problems(), [{ level: 50, err }])
})

t.test(
  'claims are no authentication if the option authentication returns them, and one warning ' +
    'says how to wrap them',
  async (t) => {
    const several = [
      forged,
      { ...forged, ...alice },
      { kind: 'token', authenticated: true, claims: alice }
    ]
    for (const isAsynchronous of [false, true]) {
      let claims: unknown
      const { statuses, store, log } = await createServer({
        authentication: () => Object(isAsynchronous ? Promise.resolve(claims) : claims)
      })
      for (claims of several) t.same(await statuses(1), [401])
      t.same(store.inspect('default'), { trackedCallers: 0, sweeps: 0 })
      matchExactly(t, log.problems().map(({ msg }) => msg), [
        /tokenAuthentication\(claims\).*localAuthentication\(username\).*not repeated$/
      ])
    }
  }
)

t.test('a promise of an authentication has no time limit', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => {
    mock.timers.reset()
  })
  let identify = (): void => {}
  const { ask } = await createServer({
    preferenceTimeout: 1,
    authentication: () =>
      new Promise((resolve) => {
        identify = () => {
          resolve(asAlice())
        }
      })
  })
  let isAnswered = false
  const received = ask().then(({ statusCode }) => {
    isAnswered = true
    return statusCode
  })
  await new Promise(setImmediate)
  mock.timers.tick(3_600_000)
  await new Promise(setImmediate)
  t.equal(isAnswered, false, 'it waits for an hour')
  identify()
  t.equal(await received, 200)
})
