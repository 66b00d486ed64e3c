// The programs of docs/identities.md, run unchanged and tested over HTTP.
import t from 'tap'
import { basic, hs256, statuses } from '../support/credentials.js'
import { Programs } from '../support/programs.js'
import { TokenIssuer } from '../support/token-issuer.js'
import { Visitor } from '../support/visitor.js'

const programs = Programs.start(t)
const bearer = (...token: Parameters<typeof hs256>) => `Bearer ${hs256(...token)}`

const three = { SERVICE_RATE_LIMIT_PER_MINUTE: '3' }
const threeThenRejected = [200, 200, 200, 429]

/** Starts a program with a limit of three, and returns its address and a function that sends requests one after another. */
async function start (program: string, environment: Record<string, string> = {}) {
  const address = await programs.serve(`identities/${program}`, { ...three, ...environment })
  const analyze = async (authorization?: string, times = 1) =>
    await statuses(times, () => fetch(`${address}/api/analyze`, { method: 'POST', ...(authorization !== undefined && { headers: { authorization } }) }))
  return { address, analyze }
}

const wrong = basic('nightly-report', 'wrong')
const report = basic('nightly-report', 'a long random key of the nightly report')

for (const [what, program, requests] of [
  ['@fastify/jwt alone limits each caller', 'jwt', [
    [bearer({ preferred_username: 'mira' }), threeThenRejected], [bearer({ preferred_username: 'another name' }), [429]], [bearer({ sub: 'tomas' }), [200]],
    [bearer({}, 'another secret'), [401]], [undefined, [401]]
  ]],
  // Guests cannot use the operation, and a token with the name of a machine is another caller.
  ['several kinds of authentication limits each caller', 'several-kinds', [
    [undefined, [401]], [wrong, [401]], ['Unheard of', [401]], [report, threeThenRejected], [bearer({ sub: 'nightly-report' }), [200]]
  ]],
  ['plans has a limit for each', 'plans', [
    [bearer({ sub: 'one', plan: 'free' }), [200, 200, 429]], [bearer({ sub: 'two', plan: 'team' }), [200, 200, 200, 200, 200, 429]], [bearer({ sub: 'three', plan: 'unheard of' }), threeThenRejected]
  ]]
] satisfies [string, string, [string | undefined, number[]][]][]) {
  t.test(`a service with ${what}`, async (t) => {
    const { address, analyze } = await start(program)
    for (const [authorization, expected] of requests) t.same(await analyze(authorization, expected.length), expected, String(authorization))
    if (program === 'several-kinds') t.equal((await fetch(address)).status, 200, 'guests can use other routes')
    await t.rejects(start(program, { JWT_SECRET: '' }), /JWT_SECRET must have 32 characters/)
  })
}

t.test('a service that verifies tokens with the published keys of an issuer limits each caller', async (t) => {
  const issuer = await TokenIssuer.start(t)
  const { analyze } = await start('jwks', { JWT_ISSUER: issuer.url, JWT_AUDIENCE: 'service' })
  const claims = { iss: issuer.url, aud: 'service', sub: 'mira' }
  const signed = async (...token: Parameters<typeof issuer.sign>) => await analyze(`Bearer ${await issuer.sign(...token)}`)
  t.same(await signed({ ...claims, aud: 'another' }), [401])
  for (const how of [{ forged: true }, { expired: true }, { kid: 'another' }]) t.same(await signed(claims, how), [401])
  t.same(await analyze(bearer()), [401])
  t.same([await signed(claims), await signed(claims, { algorithm: 'EdDSA' }), await signed(claims), await signed(claims)].flat(), threeThenRejected)
  await t.rejects(start('jwks'), /JWT_ISSUER and JWT_AUDIENCE must be set/)
})

t.test('a service with an OpenID Connect login limits each caller', async (t) => {
  const issuer = await TokenIssuer.start(t)
  const { address } = await start('openid-connect', { OIDC_ISSUER: issuer.url, OIDC_CLIENT_ID: 'client' })
  const visitor = new Visitor(address)
  const ask = () => visitor.ask('/api/analyze-node')
  const signIn = async (forged: boolean) => {
    issuer.idToken = (nonce) => issuer.sign({ iss: issuer.url, aud: 'client', sub: 'mira', nonce }, { forged })
    return await visitor.follow(await visitor.ask('/sign-in'), ({ pathname }) => pathname !== '/')
  }
  t.equal((await ask()).status, 401)
  t.equal((await signIn(true)).status, 401)
  t.equal((await ask()).status, 401)
  t.equal((await visitor.ask('/signed-in?code=invented&state=invented')).status, 400)
  t.equal((await signIn(false)).headers.get('location'), '/')
  t.same(await statuses(4, ask), threeThenRejected)
})

t.test('a service with sessions and local accounts limits each caller', async (t) => {
  const visitor = new Visitor((await start('sessions')).address)
  const post = (path: string, body: object, headers = {}) =>
    visitor.ask(path, { method: 'POST', headers: { 'content-type': 'application/json', ...headers }, body: JSON.stringify(body) })
  const proof = async () => ({ 'csrf-token': String(JSON.parse((await visitor.ask('/token')).text).token) })
  const signIn = async (username: string, password: string) => (await post('/sign-in', { username, password }, await proof())).status
  t.equal((await post('/sign-in', { username: 'alice', password: 'wonderland' })).status, 403)
  t.same([await signIn('alice', 'wrong'), await signIn('nobody', 'wonderland')], [401, 401])
  t.equal((await post('/api/analyze', {}, await proof())).status, 401)
  t.equal(await signIn('alice', 'wonderland'), 200)
  const headers = await proof()
  t.same(await statuses(3, () => post('/api/analyze', {})), [403, 403, 403], 'forged requests are not counted')
  t.same(await statuses(4, () => post('/api/analyze', {}, headers)), threeThenRejected)
})

t.test('a service with @fastify/passport limits each caller', async (t) => {
  const visitor = new Visitor((await start('passport')).address)
  const post = (path: string, headers = {}) => visitor.ask(path, { method: 'POST', headers })
  t.equal((await post('/api/analyze')).status, 401)
  t.equal((await post('/sign-in', { 'x-key': 'another' })).status, 401)
  t.equal((await post('/sign-in', { 'x-key': 'the key of alice' })).status, 200)
  t.same(await statuses(4, () => post('/api/analyze')), threeThenRejected)
})
