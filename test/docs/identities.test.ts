// The programs of docs/identities.md, run unchanged and tested over HTTP.
import { readFileSync } from 'node:fs'
import t from 'tap'
import { hs256, secret } from '../support/jwt.js'
import { Programs } from '../support/programs.js'
import { TokenIssuer } from '../support/token-issuer.js'
import { Visitor } from '../support/visitor.js'

const programs = Programs.start(t)

const token = (claims: object, key = secret) => hs256({ iss: 'https://identity.example', sub: 'mira', exp: Math.floor(Date.now() / 1000) + 60, ...claims }, key)

/** Starts a program, and returns its address. */
async function start (program: string, environment: Record<string, string> = {}): Promise<string> {
  return await programs.run(`build/examples/identities/${program}.js`, { PORT: '0', ...environment }, /^http:/)
}

async function analyze (address: string, authorization?: string): Promise<number> {
  return (await fetch(`${address}/api/analyze`, { method: 'POST', headers: { ...(authorization !== undefined && { authorization }) } })).status
}

async function statuses (times: number, ask: () => Promise<number>): Promise<number[]> {
  const answers = []
  for (let request = 0; request < times; request++) answers.push(await ask())
  return answers
}

const three = { SERVICE_RATE_LIMIT_PER_MINUTE: '3' }
const threeThenRejected = [200, 200, 200, 429]

t.test('a service with @fastify/jwt alone limits each caller', async (t) => {
  const service = await start('jwt', { JWT_SECRET: secret, ...three })
  t.same(await statuses(4, () => analyze(service, `Bearer ${token({ preferred_username: 'mira' })}`)), threeThenRejected)
  t.equal(await analyze(service, `Bearer ${token({ preferred_username: 'another name' })}`), 429)
  t.equal(await analyze(service, `Bearer ${token({ sub: 'tomas' })}`), 200)
  t.equal(await analyze(service, `Bearer ${token({}, 'another secret')}`), 401)
  t.equal(await analyze(service), 401)
  await t.rejects(start('jwt'), /JWT_SECRET must have 32 characters/)
})

t.test('a service that verifies tokens with the published keys of an issuer limits each caller', async (t) => {
  const issuer = await TokenIssuer.start(t)
  const service = await start('jwks', { JWT_ISSUER: issuer.url, JWT_AUDIENCE: 'service', ...three })
  const claims = { iss: issuer.url, aud: 'service', sub: 'mira' }
  const bearer = async (...token: Parameters<typeof issuer.sign>) => await analyze(service, `Bearer ${await issuer.sign(...token)}`)
  t.equal(await bearer({ ...claims, aud: 'another' }), 401)
  t.equal(await bearer(claims, { forged: true }), 401)
  t.equal(await bearer(claims, { expired: true }), 401)
  t.equal(await bearer(claims, { kid: 'another' }), 401)
  t.equal(await analyze(service, `Bearer ${token({})}`), 401)
  t.same([await bearer(claims), await bearer(claims, { algorithm: 'EdDSA' }), await bearer(claims), await bearer(claims)], threeThenRejected)
  await t.rejects(start('jwks'), /JWT_ISSUER and JWT_AUDIENCE must be set/)
})

t.test('a service with an OpenID Connect login limits each caller', async (t) => {
  const issuer = await TokenIssuer.start(t)
  const service = await start('openid-connect', { OIDC_ISSUER: issuer.url, OIDC_CLIENT_ID: 'client', ...three })
  const visitor = new Visitor(service)
  const ask = async () => (await visitor.ask('/api/analyze-node')).status
  const signIn = async () => await visitor.follow(await visitor.ask('/sign-in'), ({ pathname }) => pathname !== '/')
  t.equal(await ask(), 401)
  issuer.idToken = (nonce) => issuer.sign({ iss: issuer.url, aud: 'client', sub: 'mira', nonce }, { forged: true })
  t.equal((await signIn()).status, 401)
  t.equal(await ask(), 401)
  t.equal((await visitor.ask('/signed-in?code=invented&state=invented')).status, 400)
  issuer.idToken = (nonce) => issuer.sign({ iss: issuer.url, aud: 'client', sub: 'mira', nonce })
  t.equal((await signIn()).headers.get('location'), '/')
  t.same(await statuses(4, ask), threeThenRejected)
})

t.test('a service with sessions and local accounts limits each caller', async (t) => {
  const service = await start('sessions', three)
  const visitor = new Visitor(service)
  const post = async (path: string, body: object, headers = {}) =>
    (await visitor.ask(path, { method: 'POST', headers: { 'content-type': 'application/json', ...headers }, body: JSON.stringify(body) })).status
  const proof = async () => ({ 'csrf-token': String(JSON.parse((await visitor.ask('/token')).text).token) })
  t.equal(await post('/sign-in', { username: 'alice', password: 'wonderland' }), 403)
  t.equal(await post('/sign-in', { username: 'alice', password: 'wrong' }, await proof()), 401)
  t.equal(await post('/sign-in', { username: 'nobody', password: 'wonderland' }, await proof()), 401)
  t.equal(await post('/api/analyze', {}, await proof()), 401)
  t.equal(await post('/sign-in', { username: 'alice', password: 'wonderland' }, await proof()), 200)
  const headers = await proof()
  t.same(await statuses(3, () => post('/api/analyze', {})), [403, 403, 403], 'forged requests are not counted')
  t.same(await statuses(4, () => post('/api/analyze', {}, headers)), threeThenRejected)
})

t.test('a service with @fastify/passport limits each caller', async (t) => {
  const service = await start('passport', three)
  const visitor = new Visitor(service)
  const post = async (path: string, headers = {}) => (await visitor.ask(path, { method: 'POST', headers })).status
  t.equal(await post('/api/analyze'), 401)
  t.equal(await post('/sign-in', { 'x-key': 'another' }), 401)
  t.equal(await post('/sign-in', { 'x-key': 'the key of alice' }), 200)
  t.same(await statuses(4, () => post('/api/analyze')), threeThenRejected)
})

t.test('a service with several kinds of authentication limits each caller', async (t) => {
  const service = await start('several-kinds', { JWT_SECRET: secret, ...three })
  const basic = (name: string, key: string) => `Basic ${Buffer.from(`${name}:${key}`).toString('base64')}`
  const report = basic('nightly-report', 'a long random key of the nightly report')
  t.equal((await fetch(service)).status, 200, 'guests can use other routes')
  t.equal(await analyze(service), 401, 'guests cannot use the operation')
  t.equal(await analyze(service, basic('nightly-report', 'wrong')), 401)
  t.equal(await analyze(service, 'Unheard of'), 401)
  t.same(await statuses(4, () => analyze(service, report)), threeThenRejected)
  t.equal(await analyze(service, `Bearer ${token({ sub: 'nightly-report' })}`), 200, 'a token with that subject is another caller')
})

t.test('each plan has its own limit', async (t) => {
  const service = await start('plans', { JWT_SECRET: secret })
  for (const [plan, limit] of [['free', 2], ['team', 5], ['unheard of', 3]] as const) {
    t.same(await statuses(limit + 1, () => analyze(service, `Bearer ${token({ sub: `of plan ${plan}`, plan })}`)), [...Array(limit).fill(200), 429], plan)
  }
})

t.test('docs/identities.md contains the tested programs', async (t) => {
  const page = readFileSync('docs/identities.md', 'utf8')
  for (const recipe of ['jwt', 'jwks', 'openid-connect', 'sessions', 'passport', 'several-kinds', 'plans']) {
    t.ok(page.includes(`\`\`\`ts\n${readFileSync(`examples/identities/${recipe}.ts`, 'utf8')}\`\`\``), recipe)
  }
})
