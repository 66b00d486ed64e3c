// The programs of docs/recipes.md, run unchanged and tested over HTTP.
import OpenAI from 'openai'
import t, { type Test } from 'tap'
import { callerKey, localAuthentication, tokenAuthentication } from '../../lib/index.js'
import { hs256, issuer, statuses } from '../support/credentials.js'
import { FaultyProxy } from '../support/faulty-proxy.js'
import { beginStream, type ChatAnswer, complete, endStream, OpenAiServer, streamPart } from '../support/openai-server.js'
import { startPglite } from '../support/pglite-server.js'
import { Programs } from '../support/programs.js'

const programs = Programs.start(t, ['--import', './test/support/printed-metrics.js'])

const bearer = (claims: object = {}) => ({ authorization: `Bearer ${hs256(claims)}` })

/** Starts a recipe, and returns its address and functions that send requests, one or several. */
async function start (recipe: string, environment: Record<string, string> = {}) {
  const address = await programs.run(recipe.endsWith('.cjs') ? recipe : `build/examples/recipes/${recipe}.js`, environment)
  const ask = (claims: object = {}, headers: Record<string, string> = {}) => fetch(`${address}/api/analyze`, { method: 'POST', headers: { ...bearer(claims), ...headers } })
  const askTimes = async (times: number, ...request: Parameters<typeof ask>) => await statuses(times, () => ask(...request))
  return { address, ask, askTimes }
}

/** Starts a proxy in front of a database. */
async function behindProxy (t: Test, { url }: { url: string }) {
  const proxied = new URL(url)
  const proxy = await FaultyProxy.start(Number(proxied.port))
  t.teardown(() => proxy.stop())
  proxied.port = String(proxy.port)
  return { proxy, url: proxied.href }
}

const three = [200, 200, 200, 429]
const fiveRejections = [200, 200, 200, 429, 429, 429, 429, 429]

const client = { sub: undefined, client_id: 'mira' }
const blockedCallers = [localAuthentication('any'), tokenAuthentication({ iss: issuer, sub: 'mira' })].map(callerKey).join(', ')

for (const [what, recipe, environment, expected] of [
  ['administrators have no limit, and all other callers have one', 'unlimited', {}, [[{ role: 'administrator' }, Array(20).fill(200)], [{ sub: 'tomas' }, three], [{ sub: undefined }, [401]]]],
  ['a service with a token of the client-credentials grant is a caller, and a user with its id is another', 'client-credentials', {},
    [[client, three], [{}, three], [{ sub: undefined }, [401]], [{ iss: `${issuer}#clients` }, [401]]]],
  ['a blocked caller gets a 403', 'blocked', { BLOCKED_CALLERS: blockedCallers }, [[{}, [403]], [{ sub: 'tomas' }, [200]]]],
  ['a caller that was rejected five times gets a 403', 'ban', {}, [[{}, [...fiveRejections, 403]], [{ sub: 'tomas' }, [200]]]],
  ['rejections in shadow mode do not count', 'ban', { SHADOW: 'true' }, [[{}, Array(9).fill(200)]]],
  ['rejections count for a time', 'ban', { BLOCK_MILLISECONDS: '0' }, [[{}, [...fiveRejections, 429]]]],
  ['the quota protects the routes of another file in the layout of fastify-cli', 'examples/recipes/layout/server.cjs', {}, [[{}, three]]]
] satisfies [string, string, Record<string, string>, [object, number[]][]][]) {
  t.test(what, async (t) => {
    const { askTimes } = await start(recipe, environment)
    for (const [claims, answers] of expected) t.same(await askTimes(answers.length, claims), answers)
  })
}

t.test('a user and the organisation of the user each have a limit', async (t) => {
  const { ask, askTimes } = await start('organisations')
  const acme = { organisation: 'acme' }
  t.same(await askTimes(3, acme), [200, 200, 200])
  t.match(await (await ask(acme)).json(), { error: /3 LLM requests per minute/ })
  t.same(await askTimes(2, { ...acme, sub: 'tomas' }), [200, 200])
  t.match(await (await ask({ ...acme, sub: 'tomas' })).json(), { error: /5 LLM requests per day/ })
  const others = await Promise.all(['one', 'two', 'three'].map((sub) => askTimes(3, { organisation: 'another', sub })))
  t.same(others.flat().sort(), [...Array(8).fill(200), 429])
  t.equal((await ask()).status, 401, 'a token without an organisation is not admitted')
})

t.test('the limit of a plan is read from PostgreSQL and remembered', async (t) => {
  const database = await startPglite(t, `
    CREATE TABLE plans (plan text PRIMARY KEY, per_minute integer NOT NULL);
    CREATE TABLE subscriptions (subject text PRIMARY KEY, plan text NOT NULL);
    INSERT INTO plans VALUES ('free', 2), ('team', 5);
    INSERT INTO subscriptions VALUES ('mira', 'team'), ('tomas', 'free'), ('late', 'team');
  `)
  const { proxy, url } = await behindProxy(t, database)
  const { askTimes } = await start('plans-sql', { DATABASE_URL: url })
  t.same(await askTimes(3, { sub: 'tomas' }), [200, 200, 429])
  t.same(await askTimes(4, { sub: 'nobody' }), three)
  proxy.silence()
  t.same(await askTimes(4, { sub: 'late' }), three, 'the configured limit applies after the database has hung, and the failure is remembered')
  const first = await askTimes(1)
  await database.stop()
  t.same([...first, ...await askTimes(5)], [200, 200, 200, 200, 200, 429])
  t.same(await askTimes(4, { sub: 'another' }), three, 'the configured limit applies while the database fails')
})

t.test('callers are identified by API keys in PostgreSQL, and a look-up that hangs or fails is a 503', async (t) => {
  const database = await startPglite(t, `
    CREATE TABLE api_keys (digest text PRIMARY KEY, owner text NOT NULL);
    INSERT INTO api_keys VALUES (encode(sha256('key-of-mira'), 'hex'), 'mira'), (encode(sha256('second-key-of-mira'), 'hex'), 'mira');
  `)
  const { proxy, url } = await behindProxy(t, database)
  const { askTimes } = await start('api-keys', { DATABASE_URL: url })
  const ask = async (authorization: string, times = 1) => await askTimes(times, {}, { authorization })
  t.same(await ask('Bearer another-key'), [401])
  t.same(await ask('Basic any'), [401])
  t.same([...await ask('Bearer key-of-mira'), ...await ask('Bearer second-key-of-mira', 3)], three)
  proxy.isSilent = true
  t.same(await ask('Bearer key-of-mira', 2), [503, 503], 'on a connection that hangs, and on a new one')
  proxy.isSilent = false
  await database.stop()
  t.same(await ask('Bearer key-of-mira'), [503])
})

const usage = { prompt_tokens: 12, completion_tokens: 30, total_tokens: 42 }

t.test('the model in the body chooses the quota, and OpenAI\'s client understands the refusals', async (t) => {
  const server = await OpenAiServer.start(t, (_, response) => { complete(response, 'Two invoices.', {}, usage) })
  const { address } = await start('models', { MODEL_URL: server.url })
  const client = new OpenAI({ baseURL: `${address}/v1`, apiKey: hs256() })
  const ask = async (model: string) => (await client.chat.completions.create({ model, messages: [{ role: 'user', content: 'Which invoices are late?' }] })).usage?.total_tokens
  for (const name of ['small-model', 'small-model', 'small-model', 'small-model', 'large-model', 'unknown-model']) t.equal(await ask(name), 42, name)

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
  t.equal(server.requests.length, 6)
  const unauthenticated = await fetch(`${address}/v1/chat/completions`, { method: 'POST', headers: { authorization: 'Bearer invalid' } })
  t.match([unauthenticated.status, await unauthenticated.json()], [401, { error: { code: 'invalid_api_key' } }])
})

const messageOfAnthropic = { id: '1', type: 'message', role: 'assistant', model: 'any', content: [], stop_reason: null, stop_sequence: null, usage: { input_tokens: 12, output_tokens: 1 } }
const beginningOfAnthropic = [
  { type: 'message_start', message: messageOfAnthropic },
  { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
  { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'Two invoices.' } }
]
const endOfAnthropic = [
  { type: 'content_block_stop', index: 0 },
  { type: 'message_delta', delta: { stop_reason: 'end_turn', stop_sequence: null }, usage: { output_tokens: 30 } },
  { type: 'message_stop' }
]

/** Streams an answer in the protocol of the client, or only its beginning. */
const streamed = (isWhole: boolean): ChatAnswer => ({ path }, response) => {
  beginStream(response)
  if (path === '/v1/messages') {
    for (const event of [...beginningOfAnthropic, ...isWhole ? endOfAnthropic : []]) response.write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`)
    if (isWhole) response.end()
    return
  }
  streamPart(response, 'Two invoices.')
  if (isWhole) endStream(response, usage)
}

t.test('the tokens that a model states are charged, and unreportedTokens if the caller goes away', async (t) => {
  const server = await OpenAiServer.start(t, () => {})
  const { address } = await start('tokens', { MODEL_URL: server.url.replace('/v1', '') })
  for (const [index, client] of ['openai', 'anthropic', 'ai'].entries()) {
    const gone = new AbortController()
    const ask = async () => await fetch(`${address}/ask/${client}`, { headers: bearer({ sub: client }), signal: gone.signal })
    server.answer = streamed(true)
    const first = await ask()
    t.equal(first.headers.get('ratelimit-policy'), '"tokens";q=1000;w=60;qu="tokens", "streams";q=2;qu="concurrent-requests"')
    t.match(await first.text(), /^Two invoices/, client)

    server.answer = streamed(false)
    const second = await ask()
    t.match(second.headers.get('ratelimit'), `"tokens";r=${1000 - 42};`, client)
    await second.body?.getReader().read()
    gone.abort()
    await server.abandonedBy(index + 1)

    server.answer = streamed(true)
    const third = await fetch(`${address}/ask/${client}`, { headers: bearer({ sub: client }) })
    t.match(third.headers.get('ratelimit'), `"tokens";r=${1000 - 42 - 400};`, client)
    t.match(third.headers.get('ratelimit'), '"streams";r=1', client)
    await third.text()
  }
})

t.test('a service in shadow mode reports how many callers each limit would reject', async (t) => {
  const { address, askTimes } = await start('shadow')
  await askTimes(6)
  await askTimes(2, { sub: 'tomas' })
  await askTimes(2, { sub: undefined })
  await fetch(`${address}/api/analyze`, { method: 'POST' })
  t.same(await (await fetch(`${address}/report`)).json(), {
    callers: 2,
    callersRejectedAtLimit: { 2: 1, 5: 1, 10: 0, 20: 0, 50: 0 },
    unauthenticated: { 'no-subject': 2, 'no-authentication': 1 }
  })
})

t.test('decisions are counted with OpenTelemetry', async (t) => {
  await (await start('opentelemetry')).askTimes(4)
  await programs.printed(/"rejected"/)
  const measured = programs.lines.filter((line) => line.startsWith('{')).map((line) => JSON.parse(line))
  const attributes = { quota: 'default', operation: 'POST /api/analyze', enforced: true }
  t.same(measured, ['admitted', 'admitted', 'admitted', 'rejected'].map((outcome) => ({ name: 'llm_quota.decisions', value: 1, attributes: { ...attributes, outcome } })))
})

t.test('a route shows the remaining requests, and does not count its own', async (t) => {
  const { address, askTimes } = await start('standing')
  const standing = async () => await (await fetch(`${address}/api/quota`, { headers: bearer() })).json()
  t.same(await standing(), { quota: 'default', unit: 'requests', window: 60_000, limit: 3, count: 0, remaining: 3, windowRemaining: null, overflow: false })
  await askTimes(2)
  for (let request = 0; request < 2; request++) t.match(await standing(), { limit: 3, count: 2, remaining: 1, windowRemaining: Number })
})

t.test('a page of another origin can read the quota headers with CORS', async (t) => {
  const { address, ask } = await start('cors')
  const origin = 'https://app.example'
  const preflight = await fetch(`${address}/api/analyze`, {
    method: 'OPTIONS', headers: { origin, 'access-control-request-method': 'POST', 'access-control-request-headers': 'authorization' }
  })
  t.equal(preflight.status, 204)
  for (const expected of three) {
    const { status, headers } = await ask({}, { origin })
    t.equal(status, expected)
    t.equal(headers.get('access-control-allow-origin'), origin)
    t.equal(headers.get('access-control-expose-headers'), 'RateLimit, RateLimit-Policy, Retry-After')
    t.match(headers.get('ratelimit'), /^"default";r=\d;t=\d+$/)
    t.equal(headers.get('ratelimit-policy'), '"default";q=3;w=60')
  }
})

t.test('refusals are problem details', async (t) => {
  const { address, ask, askTimes } = await start('problem-details')
  await askTimes(3)
  const rejected = await ask()
  t.equal(rejected.headers.get('content-type'), 'application/problem+json')
  t.match(rejected.headers.get('retry-after'), /^\d+$/)
  t.same(await rejected.json(), { type: 'https://service.example/problems/quota', title: 'Too many requests', status: 429, detail: 'The limit is 3 requests per minute.' })
  const unauthenticated = await fetch(`${address}/api/analyze`, { method: 'POST' })
  t.equal(unauthenticated.status, 401)
  t.match(await unauthenticated.json(), { status: 401, title: 'Authentication required' })
})
