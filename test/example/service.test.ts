// The example service without a browser: who calls, what is refused, limits that change while it
// runs, and what it tells about itself.
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, statSync } from 'node:fs'
import t from 'tap'
import { callerKey, localAuthentication, tokenAuthentication } from '../../lib/index.js'
import { VirtualClock } from '../../lib/testing.js'
import { issuer } from '../../examples/service/plugins/authentication.js'
import { hs256, secret, statuses } from '../support/credentials.js'
import { plainEnvironment } from '../support/environment.js'
import { analysis, startService, stream, text } from '../support/example-service.js'
import { matchExactly } from '../support/match-exactly.js'
import { complete, startOpenAiServer } from '../support/openai-server.js'

const [perMinute, tokens, concurrent] = [
  'rate-limit.per-minute',
  'rate-limit.tokens.per-minute',
  'rate-limit.concurrency.concurrent'
] as const
const json = { 'content-type': 'application/json' }

// The embedded model takes longer to load than the tests take.
const model = await startOpenAiServer(t, (_request, response) => {
  complete(response, { sentences: [], sentiment: 0 }, { total_tokens: 4 })
})
const settings = { MODEL_URL: model.url, MODEL_NAME: 'small', MODEL_KEY: 'the-key' }

// Two services for the tests that need no other settings, because starting one takes longer than
// they do: one with what can be switched on, and one that other machines can reach.
const { address, as, log, standing } = await startService(t, {
  ...settings,
  JWT_SECRET: secret,
  METRICS: 'true',
  LOG_LEVEL: 'trace'
})
const reachable = await startService(t, { HOST: '0.0.0.0' })

async function signIn (address: string, username: string, password: string) {
  const response = await fetch(`${address}/api/sign-in`, {
    method: 'POST',
    headers: json,
    body: JSON.stringify({ username, password })
  })
  return { status: response.status, body: (await response.json()) as { token?: string } }
}

t.test('a local account and the subject of a token are different callers', async (t) => {
  const {
    body: { token }
  } = await signIn(address, 'alice', 'wonderland')
  const headers = { ...json, authorization: `Bearer ${token}` }
  t.equal(
    (await fetch(`${address}/api/analyze`, { method: 'POST', headers, body: JSON.stringify(text) }))
      .status,
    200
  )
  const counted = async (response: Promise<Response>) => await (await response).json()
  matchExactly(t, await counted(fetch(`${address}/api/quota`, { headers })), {
    caller: callerKey(localAuthentication('alice')),
    quotas: [{ quota: 'default', count: 1 }, { quota: 'tokens' }, { quota: 'concurrency' }]
  })
  matchExactly(t, await counted(as('alice', '/api/quota')), {
    caller: callerKey(tokenAuthentication({ iss: issuer, sub: 'alice' })),
    quotas: [{ quota: 'default', count: 0 }, { quota: 'tokens' }, { quota: 'concurrency' }]
  })
  t.equal(
    (await fetch(`${address}/api/preferences`, { headers })).status,
    403,
    'alice is no administrator'
  )
  const {
    body: { token: admin }
  } = await signIn(address, 'admin', 'looking-glass')
  t.equal(
    (await fetch(`${address}/api/preferences`, { headers: { authorization: `Bearer ${admin}` } }))
      .status,
    200
  )
})

t.test('a wrong password and an unknown name are answered alike', async (t) => {
  const wrong = {
    status: 401,
    body: { error: 'The user name or the password is wrong.', status: 401 }
  }
  for (const [name, password] of [
    ['alice', 'looking-glass'],
    ['nobody', 'wonderland'],
    ['nobody', ' ']
  ] as const) {
    t.same(await signIn(address, name, password), wrong)
  }
})

t.test(
  'there are no accounts with public passwords where other machines can reach the service',
  async (t) => {
    t.equal((await signIn(reachable.address, 'admin', 'looking-glass')).status, 401)
  }
)

t.test('only valid tokens of the service are accepted', async (t) => {
  const analyze = async (token: string) =>
    (
      await fetch(`${address}/api/analyze`, {
        method: 'POST',
        headers: { ...json, authorization: token },
        body: JSON.stringify(text)
      })
    ).status
  const sign = (claims: object = {}, key = secret, header = {}) =>
    `Bearer ${hs256({ iss: issuer, ...claims }, key, header)}`
  t.equal(await analyze(sign()), 200)
  const now = Math.floor(Date.now() / 1000)
  for (const [what, token] of Object.entries({
    'of another issuer': sign({ iss: 'https://identity.example' }),
    expired: sign({ exp: now - 60 }),
    'without an end': sign({ exp: undefined }),
    'not valid yet': sign({ nbf: now + 3600 }),
    'without a subject': sign({ sub: undefined }),
    forged: sign({}, 'another secret of thirty-two bytes'),
    unsigned: sign({}, secret, { alg: 'none' }).replace(/[^.]+$/, ''),
    'of another scheme': sign().replace('Bearer', 'Digest'),
    'no token': 'Bearer x'
  })) {
    t.equal(await analyze(token), 401, what)
  }
})

t.test('every error has the format of a refusal, and invalid input is not counted', async (t) => {
  for (const [status, error, response] of [
    [
      400,
      /^body must have required property 'businessText'$/,
      as('erin', '/api/analyze', { method: 'POST', body: {} })
    ],
    [
      400,
      /^body\/businessText must match/,
      as('erin', '/api/analyze', { method: 'POST', body: { businessText: ' \n' } })
    ],
    [
      400,
      /^body\/businessText must NOT have more than 5000/,
      as('erin', '/api/analyze', { method: 'POST', body: { businessText: 'x'.repeat(5001) } })
    ],
    [
      400,
      /^querystring\/parentCode must be/,
      as('erin', '/api/analyze-node?parentCode=none&businessText=late')
    ],
    [401, /^Authentication is required for this LLM operation\.$/, fetch(address + stream)],
    [401, /^Sign in first\.$/, fetch(`${address}/api/quota`)],
    [403, /^This requires an administrator\.$/, as('erin', '/api/callers')],
    [404, /^Not found\./, fetch(`${address}/none`)]
  ] as const) {
    const answer = await response
    matchExactly(t, [answer.status, await answer.json()], [status, { error, status }])
  }
  t.equal((await standing('erin'))['default']?.count, 0)
})

t.test(
  'an administrator changes the limits while the service runs, lists the callers, and resets one',
  async (t) => {
    const clock = new VirtualClock()
    const { as, standing } = await startService(
      t,
      { ...settings, SERVICE_RATE_LIMIT_PER_MINUTE: '2' },
      clock.now
    )
    const change = async (limits: unknown, subject = 'root') =>
      (await as(subject, '/api/preferences', { method: 'PUT', body: limits })).status
    t.same(await (await as('root', '/api/preferences')).json(), {
      [perMinute]: null,
      [tokens]: null,
      [concurrent]: null
    })
    t.same(await statuses(3, () => as('alice', '/api/analyze', analysis)), [200, 200, 429])
    t.equal(await change({ [perMinute]: 3 }, 'alice'), 403)
    for (const limits of [
      { [perMinute]: '3' },
      { [perMinute]: 1.5 },
      { [perMinute]: 2 ** 53 },
      { another: 3 },
      {},
      [],
      'null'
    ]) {
      t.equal(await change(limits), 400, JSON.stringify(limits))
    }
    t.equal(await change({ [perMinute]: 3, [tokens]: 17 }), 200)
    t.same(await statuses(2, () => as('alice', '/api/analyze', analysis)), [200, 429])
    t.match(await standing('alice'), {
      default: { limit: 3, count: 3, remaining: 0 },
      tokens: { limit: 17, count: 4 },
      concurrency: { limit: 0 }
    })

    const digest = callerKey(tokenAuthentication({ iss: issuer, sub: 'alice' })) ?? ''
    clock.advance(20_000)
    t.same(await (await as('root', '/api/callers')).json(), {
      trackedCallers: 1,
      callers: [
        {
          callerKey: digest,
          quotas: {
            default: { count: 3, held: 0, windowRemaining: 40_000 },
            tokens: { count: 4, held: 0, windowRemaining: 40_000 }
          }
        }
      ]
    })
    t.equal(
      (await as('root', `/api/callers/${digest.slice(0, 8)}`, { method: 'DELETE' })).status,
      400
    )
    t.equal((await as('root', `/api/callers/${digest}`, { method: 'DELETE' })).status, 204)
    t.match(await standing('alice'), { default: { count: 0 }, tokens: { count: 0 } })
    t.equal(await change({ [perMinute]: 0, [tokens]: null }), 200)
    t.same(
      await statuses(5, () => as('alice', '/api/analyze', analysis)),
      [200, 200, 200, 200, 200]
    )
  }
)

t.test(
  'the documentation has the operations with their refusals; metrics are on only if configured',
  async (t) => {
    const document = (await (await fetch(`${address}/documentation/json`)).json()) as {
      openapi: string
      paths: Record<string, Record<string, { responses: object }>>
    }
    t.equal(document.openapi, '3.1.0')
    for (const [path, method] of [
      ['/api/analyze', 'post'],
      ['/api/justify-leaf', 'post'],
      ['/api/analyze-stream', 'get'],
      ['/api/analyze-node', 'get']
    ] as const) {
      t.same(
        Object.keys(document.paths[path]?.[method]?.responses ?? {}),
        ['200', '400', '401', '429', '502', '503'],
        path
      )
    }
    await as('carol', '/api/analyze', analysis)
    t.match(
      await (await fetch(`${address}/metrics`)).text(),
      /^llm_quota_decisions_total\{.*operation="POST \/api\/analyze",.*outcome="admitted".*\} \d$/m
    )
    t.equal((await fetch(`${reachable.address}/metrics`)).status, 404)
  }
)

t.test('a wrong setting ends the start, and its message does not contain a password', async (t) => {
  for (const environment of [
    { REDIS_URL: 'http://:hidden@host' },
    { MODEL_URL: 'http://host' },
    { JWT_SECRET: 'hidden' },
    { REDIS_URL: 'redis://:hidden@host', DATABASE_URL: 'postgres://host' }
  ]) {
    const error = await startService(t, environment).then(
      () => new Error('it started'),
      (error: Error) => error
    )
    t.match(error.message, /^env\b/)
    t.notMatch(error.message, 'hidden')
  }
})

t.test(
  'no clone holds a secret: it is generated on this machine, for this user, where git ignores it',
  async (t) => {
    // The program that prints a token is loaded into the process of the service before it.
    const service = spawn(
      process.execPath,
      [
        '--import=./build/examples/service/print-token.js',
        ...['build/examples/service/main.js', '--admin', 'root']
      ],
      { env: plainEnvironment({ PORT: '0' }), stdio: ['ignore', 'pipe', 'inherit'] }
    )
    t.teardown(() => service.kill('SIGKILL'))
    let output = ''
    const started = new Promise<void>((resolve) => {
      service.stdout.on('data', (chunk) => {
        output += String(chunk)
        if (/http:\S+:\d+/.test(output)) resolve()
      })
    })
    await Promise.race([started, once(service, 'exit')])
    const [address = ''] = /http:\/\/127\.0\.0\.1:\d+/.exec(output) ?? []
    const [token] = output.split('\n')
    const headers = { authorization: `Bearer ${token}` }
    t.equal((await fetch(`${address}/api/preferences`, { headers })).status, 200)
    const exited = once(service, 'exit')
    service.kill('SIGTERM')
    t.same(await exited, [0, null])
    const file = '.data/secret'
    t.equal(statSync(file).mode & 0o777, 0o600)
    const generated = readFileSync(file, 'utf8')
    t.ok(generated.length >= 32)
    t.equal(execFileSync('git', ['check-ignore', file], { encoding: 'utf8' }).trim(), file)
    t.equal(
      spawnSync('git', ['grep', '--quiet', '--fixed-strings', '-e', generated]).status,
      1,
      'no tracked file contains it'
    )
    t.notMatch(
      execFileSync('git', ['ls-files'], { encoding: 'utf8' }),
      /^(.*\/)?[\w.-]*secret$|\.pem$|\.key$|^\.env/m
    )
  }
)

t.test('the log contains no text, token or password', async (t) => {
  const marker = 'zq7marker'
  const {
    body: { token = '' }
  } = await signIn(address, 'alice', 'wonderland')
  await signIn(address, marker, marker)
  for (const path of [
    `/${marker}`,
    `/api/${marker}?${marker}`,
    `/api/analyze-node?parentCode=FIN&businessText=${marker}`,
    `/api/analyze-stream?businessText=${marker}`,
    `/%zz${marker}`
  ]) {
    await as('alice', path)
    await fetch(address + path, { headers: { authorization: `Bearer ${marker}`, cookie: marker } })
  }
  for (const body of [{ businessText: marker }, { [marker]: '' }, `{"${marker}`]) {
    await as('alice', '/api/analyze', { method: 'POST', body })
  }
  t.match(log.join(''), '"level":30')
  for (const hidden of [marker, token, 'wonderland']) t.notMatch(log.join(''), hidden)
})
