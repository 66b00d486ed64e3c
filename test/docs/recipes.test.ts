// The programs of docs/recipes.md, run unchanged and tested over HTTP.
import { readdirSync, readFileSync } from 'node:fs'
import OpenAI from 'openai'
import t from 'tap'
import { callerKey, localAuthentication, tokenAuthentication } from '../../lib/index.js'
import { hs256, secret } from '../support/jwt.js'
import { ModelServer, tokensOfResponse } from '../support/model-server.js'
import { PgliteServer } from '../support/pglite-server.js'
import { Programs } from '../support/programs.js'

const issuer = 'https://identity.example'
const programs = Programs.start(t, ['--import', './test/support/printed-metrics.js'])

const tokenOf = (claims: object) => hs256({ iss: issuer, sub: 'mira', ...claims })
const bearer = (claims: object) => ({ authorization: `Bearer ${tokenOf(claims)}` })

/** Starts a recipe, and returns its address. */
async function start (recipe: string, environment: Record<string, string> = {}): Promise<string> {
  return await programs.run(recipe.endsWith('.cjs') ? recipe : `build/examples/recipes/${recipe}.js`, { PORT: '0', JWT_SECRET: secret, ...environment }, /^http:/)
}

/** Sends requests one after another. */
async function analyze (address: string, claims: object, times: number, headers: Record<string, string> = {}): Promise<Response[]> {
  const responses = []
  for (let request = 0; request < times; request++) {
    responses.push(await fetch(`${address}/api/analyze`, { method: 'POST', headers: { ...bearer(claims), ...headers } }))
  }
  return responses
}

const statuses = (responses: readonly Response[]) => responses.map(({ status }) => status)
const admittedOf = (responses: readonly Response[]) => statuses(responses).filter((status) => status === 200).length
const three = [200, 200, 200, 429]
const fiveRejections = [200, 200, 200, 429, 429, 429, 429, 429]

const client = { sub: undefined, client_id: 'mira' }
const blockedCallers = [localAuthentication('any'), tokenAuthentication({ iss: issuer, sub: 'mira' })].map(callerKey).join()

for (const [what, recipe, environment, expected] of [
  ['administrators have no limit, and all other callers have one', 'unlimited', {}, [[{ role: 'administrator' }, Array(20).fill(200)], [{ sub: 'tomas' }, three], [{ sub: undefined }, [401]]]],
  ['a service with a token of the client-credentials grant is a caller, and a user with its id is another', 'client-credentials', {},
    [[client, three], [{}, three], [{ sub: undefined }, [401]], [{ iss: `${issuer}#clients` }, [401]]]],
  ['a blocked caller gets a 403', 'blocked', { BLOCKED_CALLERS: blockedCallers }, [[{}, [403]], [{ sub: 'tomas' }, [200]]]],
  ['a caller that was rejected five times gets a 403', 'ban', {}, [[{}, [...fiveRejections, 403]], [{ sub: 'tomas' }, [200]]]],
  ['rejections count for a time', 'ban', { BLOCK_MILLISECONDS: '0' }, [[{}, [...fiveRejections, 429]]]],
  ['the quota protects the routes of another file in the layout of fastify-cli', 'examples/recipes/layout/server.cjs', {}, [[{}, three]]]
] satisfies [string, string, Record<string, string>, [object, number[]][]][]) {
  t.test(what, async (t) => {
    const service = await start(recipe, environment)
    for (const [claims, answers] of expected) t.same(statuses(await analyze(service, claims, answers.length)), answers)
  })
}

t.test('a user and the organisation of the user each have a limit', async (t) => {
  const service = await start('organisations')
  const acme = { organisation: 'acme' }
  const responses = [...await analyze(service, acme, 4), ...await analyze(service, { ...acme, sub: 'tomas' }, 3)]
  t.same(statuses(responses), [...three, 200, 200, 429])
  t.match(await responses[3]?.json(), { error: /3 LLM requests per minute/ })
  t.match(await responses[6]?.json(), { error: /5 LLM requests per day/ })
  const others = ['one', 'two', 'three'].map((sub) => analyze(service, { organisation: 'another', sub }, 3))
  t.equal(admittedOf((await Promise.all(others)).flat()), 8)
  t.equal(admittedOf(await analyze(service, {}, 1)), 0, 'a token without an organisation is not admitted')
})

t.test('the limit of a plan is read from PostgreSQL and remembered', async (t) => {
  const database = await PgliteServer.start(t, `
    CREATE TABLE plans (plan text PRIMARY KEY, per_minute integer NOT NULL);
    CREATE TABLE subscriptions (subject text PRIMARY KEY, plan text NOT NULL);
    INSERT INTO plans VALUES ('free', 2), ('team', 5);
    INSERT INTO subscriptions VALUES ('mira', 'team'), ('tomas', 'free');
  `)
  const service = await start('plans-sql', { DATABASE_URL: database.url })
  t.same(statuses(await analyze(service, { sub: 'tomas' }, 3)), [200, 200, 429])
  t.same(statuses(await analyze(service, { sub: 'nobody' }, 4)), three)
  const first = await analyze(service, {}, 1)
  database.disconnect()
  t.same(statuses([...first, ...await analyze(service, {}, 5)]), [200, 200, 200, 200, 200, 429])
  t.same(statuses(await analyze(service, { sub: 'another' }, 4)), three, 'the configured limit applies while the database fails')
})

t.test('callers are identified by API keys in PostgreSQL, and a failing look-up is a 503', async (t) => {
  const database = await PgliteServer.start(t, `
    CREATE TABLE api_keys (digest text PRIMARY KEY, owner text NOT NULL);
    INSERT INTO api_keys VALUES (encode(sha256('key-of-mira'), 'hex'), 'mira'), (encode(sha256('second-key-of-mira'), 'hex'), 'mira');
  `)
  const service = await start('api-keys', { DATABASE_URL: database.url })
  const ask = async (authorization: string, times = 1) => statuses(await analyze(service, {}, times, { authorization }))
  t.same(await ask('Bearer another-key'), [401])
  t.same(await ask('Basic any'), [401])
  t.same([...await ask('Bearer key-of-mira'), ...await ask('Bearer second-key-of-mira', 3)], three)
  database.disconnect()
  t.same(await ask('Bearer key-of-mira'), [503])
})

t.test('the model in the body chooses the quota, and OpenAI\'s client understands the refusals', async (t) => {
  const model = await ModelServer.start()
  t.teardown(() => model.stop())
  const address = await start('models', { MODEL_URL: `${model.url}/v1` })
  const client = new OpenAI({ baseURL: `${address}/v1`, apiKey: tokenOf({}) })
  const ask = async (model: string) => (await client.chat.completions.create({ model, messages: [{ role: 'user', content: 'Which invoices are late?' }] })).usage?.total_tokens
  for (const name of ['small-model', 'small-model', 'small-model', 'small-model', 'large-model', 'unknown-model']) t.equal(await ask(name), tokensOfResponse, name)

  const waits: number[] = []
  const real = globalThis.setTimeout
  t.teardown(() => { Reflect.set(globalThis, 'setTimeout', real) })
  Reflect.set(globalThis, 'setTimeout', (callback: () => void, delay: number) => {
    if (delay < 30_000 || delay > 60_000) return real(callback, delay)
    waits.push(delay)
    return real(callback, 0)
  })
  await t.rejects(ask('small-model'), { code: 'rate_limit_exceeded', type: 'requests', message: '429 The limit of 4 requests is reached.' })
  t.match(waits, [Number, Number], 'it waits for the end of the window, and tries again twice')
  await t.rejects(ask('large-model'), { status: 429, message: '429 The limit of 2 requests is reached.' })
  t.equal(waits.length, 2, 'it does not wait until the next day')
  t.equal(model.models.length, 6)
  const unauthenticated = await fetch(`${address}/v1/chat/completions`, { method: 'POST', headers: { authorization: 'Bearer invalid' } })
  t.match([unauthenticated.status, await unauthenticated.json()], [401, { error: { code: 'invalid_api_key' } }])
})

t.test('the tokens that a model states are charged, and unreportedTokens if the caller goes away', async (t) => {
  const model = await ModelServer.start()
  t.teardown(() => model.stop())
  const address = await start('tokens', { MODEL_URL: model.url })
  for (const client of ['openai', 'anthropic', 'ai']) {
    const gone = new AbortController()
    const ask = async () => await fetch(`${address}/ask/${client}`, { headers: bearer({ sub: client }), signal: gone.signal })
    const first = await ask()
    t.equal(first.headers.get('ratelimit-policy'), '"tokens";q=1000;w=60;qu="tokens", "streams";q=2;qu="concurrent-requests"')
    t.match(await first.text(), /^Two invoices/, client)

    model.isHeld = true
    const second = await ask()
    t.match(second.headers.get('ratelimit'), `"tokens";r=${1000 - tokensOfResponse};`, client)
    await second.body?.getReader().read()
    const abandoned = model.abandoned()
    gone.abort()
    await abandoned
    model.isHeld = false

    const third = await fetch(`${address}/ask/${client}`, { headers: bearer({ sub: client }) })
    t.match(third.headers.get('ratelimit'), `"tokens";r=${1000 - tokensOfResponse - 400};`, client)
    t.match(third.headers.get('ratelimit'), '"streams";r=1', client)
    await third.text()
  }
})

t.test('a service in shadow mode reports how many callers each limit would reject', async (t) => {
  const service = await start('shadow')
  await analyze(service, {}, 6)
  await analyze(service, { sub: 'tomas' }, 3)
  await analyze(service, { sub: undefined }, 2)
  await fetch(`${service}/api/analyze`, { method: 'POST' })
  t.same(await (await fetch(`${service}/report`)).json(), {
    callers: 2,
    callersRejectedAtLimit: { 2: 2, 5: 1, 10: 0, 20: 0, 50: 0 },
    unauthenticated: { 'no-subject': 2, 'no-authentication': 1 }
  })
})

t.test('decisions are counted with OpenTelemetry', async (t) => {
  await analyze(await start('opentelemetry'), {}, 4)
  await programs.printed(/"rejected"/)
  const measured = programs.lines.filter((line) => line.startsWith('{')).map((line) => JSON.parse(line))
  const attributes = { quota: 'default', operation: 'POST /api/analyze', enforced: true }
  t.same(measured, ['admitted', 'admitted', 'admitted', 'rejected'].map((outcome) => ({ name: 'llm_quota.decisions', value: 1, attributes: { ...attributes, outcome } })))
})

t.test('a route shows the remaining requests, and does not count its own', async (t) => {
  const service = await start('standing')
  const standing = async () => await (await fetch(`${service}/api/quota`, { headers: bearer({}) })).json()
  t.same(await standing(), { quota: 'default', unit: 'requests', window: 60_000, limit: 3, count: 0, remaining: 3, windowRemaining: null, overflow: false })
  await analyze(service, {}, 2)
  t.match(await standing(), { limit: 3, count: 2, remaining: 1, windowRemaining: Number })
  t.match(await standing(), { count: 2 }, 'a request to the route is not counted')
})

t.test('a page of another origin can read the quota headers with CORS', async (t) => {
  const service = await start('cors')
  const preflight = await fetch(`${service}/api/analyze`, {
    method: 'OPTIONS', headers: { origin: 'https://app.example', 'access-control-request-method': 'POST', 'access-control-request-headers': 'authorization' }
  })
  t.equal(preflight.status, 204)
  const responses = await analyze(service, {}, 4, { origin: 'https://app.example' })
  t.same(statuses(responses), three)
  for (const { headers } of responses) {
    t.equal(headers.get('access-control-allow-origin'), 'https://app.example')
    t.equal(headers.get('access-control-expose-headers'), 'RateLimit, RateLimit-Policy, Retry-After')
    t.match(headers.get('ratelimit'), /^"default";r=\d;t=\d+$/)
    t.equal(headers.get('ratelimit-policy'), '"default";q=3;w=60')
  }
})

t.test('refusals are problem details', async (t) => {
  const service = await start('problem-details')
  const [, , , rejected] = await analyze(service, {}, 4)
  t.equal(rejected?.headers.get('content-type'), 'application/problem+json')
  t.match(rejected?.headers.get('retry-after'), /^\d+$/)
  t.same(await rejected?.json(), { type: 'https://service.example/problems/quota', title: 'Too many requests', status: 429, detail: 'The limit is 3 requests per minute.' })
  const unauthenticated = await fetch(`${service}/api/analyze`, { method: 'POST' })
  t.equal(unauthenticated.status, 401)
  t.match(await unauthenticated.json(), { status: 401, title: 'Authentication required' })
})

t.test('docs/recipes.md contains or names each program', async (t) => {
  const page = readFileSync('docs/recipes.md', 'utf8')
  for (const recipe of readdirSync('examples/recipes', { recursive: true, encoding: 'utf8' }).filter((name) => /\.[a-z]+$/.test(name))) {
    const program = readFileSync(`examples/recipes/${recipe}`, 'utf8')
    t.ok(page.includes(`s\n${program}\`\`\``) || page.includes(`\`${recipe}\``), recipe)
  }
})
