// The programs of docs/recipes.md, run unchanged and tested over HTTP.
import { createHmac } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import t, { type Test } from 'tap'
import { type Example, startExample } from '../support/example.js'

const secret = 'a secret of thirty-two bytes or more'

function bearer (claims: object): { authorization: string } {
  const [header, payload] = [{ alg: 'HS256', typ: 'JWT' }, { iss: 'https://identity.example', sub: 'mira', ...claims }]
    .map((part) => Buffer.from(JSON.stringify(part)).toString('base64url'))
  return { authorization: `Bearer ${header}.${payload}.${createHmac('sha256', secret).update(`${header}.${payload}`).digest('base64url')}` }
}

async function start (t: Test, recipe: string, environment: Record<string, string> = {}): Promise<Example> {
  const example = await startExample(`recipes/${recipe}.js`, { JWT_SECRET: secret, ...environment })
  t.teardown(() => { example.process.kill('SIGKILL') })
  return example
}

/** Sends requests one after another, each on its own connection. */
async function analyze ({ address }: Example, claims: object, times: number, headers: Record<string, string> = {}): Promise<Response[]> {
  const answers = []
  for (let request = 0; request < times; request++) {
    answers.push(await fetch(`${address}/api/analyze`, { method: 'POST', headers: { ...bearer(claims), connection: 'close', ...headers } }))
  }
  return answers
}

const statuses = (answers: readonly Response[]) => answers.map(({ status }) => status)
const admittedOf = (answers: readonly Response[]) => statuses(answers).filter((status) => status === 200).length

t.test('administrators have no limit, and all other callers have one', async (t) => {
  const service = await start(t, 'unlimited')
  t.equal(admittedOf(await analyze(service, { role: 'administrator' }, 20)), 20)
  t.same(statuses(await analyze(service, { sub: 'tomas' }, 4)), [200, 200, 200, 429])
  t.equal((await fetch(`${service.address}/api/analyze`, { method: 'POST' })).status, 401)
})

t.test('the callers of a tenant share one counter', async (t) => {
  const service = await start(t, 'tenants')
  t.same(statuses([...await analyze(service, { tenant: 'acme' }, 3), ...await analyze(service, { tenant: 'acme', sub: 'tomas' }, 3)]), [200, 200, 200, 200, 200, 429])
  t.same(statuses(await analyze(service, { tenant: 'another' }, 4)), [200, 200, 200, 429])
  t.equal(admittedOf(await analyze(service, {}, 1)), 0, 'a token without a tenant is not admitted')
  t.equal(admittedOf(await analyze(service, { tenant: 'acme', iss: 'https://identity.example#tenants' }, 1)), 0, 'a token of another issuer is not admitted')
})

t.test('a route shows the remaining requests, and does not count its own', async (t) => {
  const service = await start(t, 'standing')
  const standing = async () => await (await fetch(`${service.address}/api/quota`, { headers: bearer({}) })).json()
  t.same(await standing(), { quota: 'default', limit: 3, count: 0, remaining: 3, windowRemaining: null, overflow: false })
  await analyze(service, {}, 2)
  t.match(await standing(), { limit: 3, count: 2, remaining: 1, windowRemaining: Number })
  t.match(await standing(), { count: 2 }, 'a request to the route is not counted')
})

t.test('several processes on one machine enforce one limit', async (t) => {
  const service = await start(t, 'processes', { SERVICE_RATE_LIMIT_PER_MINUTE: '500' })
  const answers = await analyze(service, {}, 505)
  t.same(statuses(answers), [...Array(500).fill(200), ...Array(5).fill(429)])
  const processes = await Promise.all(answers.slice(0, 500).map(async (answer) => Object(await answer.json()).process))
  t.equal(new Set(processes).size, 2, 'the second one starts to listen while the first one answers')
})

t.test('a page of another origin can read the quota headers with CORS', async (t) => {
  const service = await start(t, 'cors')
  const preflight = await fetch(`${service.address}/api/analyze`, {
    method: 'OPTIONS', headers: { origin: 'https://app.example', 'access-control-request-method': 'POST', 'access-control-request-headers': 'authorization' }
  })
  t.equal(preflight.status, 204)
  const answers = await analyze(service, {}, 4, { origin: 'https://app.example' })
  t.same(statuses(answers), [200, 200, 200, 429])
  for (const { headers } of answers) {
    t.equal(headers.get('access-control-allow-origin'), 'https://app.example')
    t.equal(headers.get('access-control-expose-headers'), 'RateLimit, RateLimit-Policy, Retry-After')
    t.match(headers.get('ratelimit'), /^"default";r=\d;t=\d+$/)
    t.equal(headers.get('ratelimit-policy'), '"default";q=3;w=60')
  }
})

t.test('refusals are problem details', async (t) => {
  const service = await start(t, 'problem-details')
  const [, , , rejected] = await analyze(service, {}, 4)
  t.equal(rejected?.headers.get('content-type'), 'application/problem+json')
  t.match(rejected?.headers.get('retry-after'), /^\d+$/)
  t.same(await rejected?.json(), { type: 'https://service.example/problems/quota', title: 'Too many requests', status: 429, detail: 'The limit is 3 requests per minute.' })
  const unauthenticated = await fetch(`${service.address}/api/analyze`, { method: 'POST' })
  t.equal(unauthenticated.status, 401)
  t.match(await unauthenticated.json(), { status: 401, title: 'Authentication required' })
})

t.test('docs/recipes.md contains the tested programs', async (t) => {
  const page = readFileSync('docs/recipes.md', 'utf8')
  for (const recipe of readdirSync('examples/recipes')) {
    t.ok(page.includes(`\`\`\`ts\n${readFileSync(`examples/recipes/${recipe}`, 'utf8')}\`\`\``), recipe)
  }
})
