// Floods of requests with missing or wrong credentials: they cost little and do not delay other requests.
import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import { exportJWK, generateKeyPair, SignJWT } from 'jose'
import t, { type Test } from 'tap'
import { VirtualClock } from '../../lib/testing.js'
import { startExample } from '../support/example.js'
import { startService, type RunningService } from '../support/example-service.js'

import { Accounts, demonstrationAccounts } from '../../examples/service/accounts/accounts.js'
import { FailedAttempts } from '../../examples/service/accounts/failed-attempts.js'

const body = JSON.stringify({ businessText: 'Invoices are late.' })
const json = { 'content-type': 'application/json' }

async function basic ({ address }: Pick<RunningService, 'address'>, username: string, password: string): Promise<Response> {
  const authorization = `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`
  return await fetch(`${address}/api/analyze`, { method: 'POST', body, headers: { ...json, authorization } })
}

t.test('wrong passwords delay only attempts with the same user name, longer each time', async (t) => {
  const clock = new VirtualClock()
  const service = await startService(t, { SERVICE_RATE_LIMIT_PER_MINUTE: '100' }, clock.now)
  for (const username of ['alice', 'nobody']) {
    for (let attempt = 0; attempt < 5; attempt++) t.equal((await basic(service, username, 'wrong')).status, 401, `${username} ${attempt}`)
    for (const seconds of [1, 2, 4, 8, 16, 32, 60, 60]) {
      const answer = await basic(service, username, 'wonderland')
      t.same([answer.status, answer.headers.get('retry-after'), await answer.json()],
        [429, String(seconds), { error: `Too many failed attempts for this user name. Please try again in ${seconds} s.`, status: 429 }], `${username} waits ${seconds} s, even with the correct password`)
      clock.advance(seconds * 1000)
      t.equal((await basic(service, username, 'wrong')).status, 401)
    }
  }
  t.equal((await basic(service, 'admin', 'looking-glass')).status, 200)
  clock.advance(60_000)
  t.equal((await basic(service, 'alice', 'wonderland')).status, 200, 'the correct password is accepted after the wait')
  for (let attempt = 0; attempt < 5; attempt++) t.equal((await basic(service, 'alice', 'wrong')).status, 401, 'a correct password resets the failed attempts')
})

t.test('many concurrent wrong passwords cause few hashes, and other requests are answered meanwhile', async (t) => {
  const service = await startService(t, { SERVICE_RATE_LIMIT_PER_MINUTE: '100' })
  let done = 0
  const flood = Array.from({ length: 200 }, async (_, index) => {
    const { status } = await basic(service, 'alice', `wrong ${index}`)
    done++
    return status
  })
  t.equal((await fetch(`${service.address}/style.css`)).status, 200)
  t.ok(done < 200, `a file is served before the flood ends: ${done} requests are answered`)
  const statuses = await Promise.all(flood)
  t.ok(statuses.filter((status) => status === 401).length <= 6, 'five attempts are not delayed, and one more may have begun')
  t.ok(statuses.every((status) => [401, 429, 503].includes(status)), String(new Set(statuses)))
})

t.test('attempts with many user names at once fill the queue, and further ones are answered with 503', async (t) => {
  const service = await startService(t)
  const answers = await Promise.all(Array.from({ length: 130 }, (_, index) => basic(service, `name ${index}`, 'wrong')))
  const busy = answers.filter(({ status }) => status === 503)
  t.ok(busy.length > 0 && busy.every(({ headers }) => headers.get('retry-after') === '1'), `${busy.length} requests are answered with 503`)
  t.equal((await basic(service, 'alice', 'wonderland')).status, 200)
})

t.test('no password is hashed if there are no accounts', async (t) => {
  const accounts = new Accounts([])
  const before = performance.eventLoopUtilization()
  t.same(await Promise.all(Array.from({ length: 10_000 }, () => accounts.authenticate('alice', 'wonderland'))), Array(10_000).fill(null))
  t.ok(performance.eventLoopUtilization(before).idle < 10_000)
  const service = await startExample('service/main.js', { HOST: '0.0.0.0' })
  t.teardown(() => service.stop())
  const answers = await Promise.all(Array.from({ length: 300 }, () => basic(service, 'alice', 'wonderland')))
  t.same([...new Set(answers.map(({ status }) => status))], [401], 'requests are neither delayed nor queued')
})

t.test('failed attempts use a bounded amount of memory, and expire', async (t) => {
  const clock = new VirtualClock()
  const failed = new FailedAttempts(clock.now)
  for (let name = 0; name < 50_000; name++) failed.add(`name ${name}`)
  const waiting = Array.from({ length: 1000 }, (_, name) => failed.wait(`another ${name}`)).filter((wait) => wait > 0).length
  t.ok(waiting > 900, 'user names share entries')
  clock.advance(15 * 60_000)
  failed.add('name 1')
  t.equal(failed.wait('name 1'), 0)
  const accounts = new Accounts(demonstrationAccounts, clock.now)
  t.match(await accounts.authenticate('alice', 'wonderland'), { username: 'alice' })
  t.equal(await accounts.authenticate('alice', ''), null)
})

interface Issuer { readonly url: string, asked: number, answers: boolean }

/** An issuer that publishes one key, or hangs. */
async function startIssuer (t: Test, jwk: object): Promise<Issuer> {
  const listener: RequestListener = (request, response) => {
    issuer.asked++
    if (!issuer.answers) return
    const { url } = issuer
    response.setHeader('content-type', 'application/json').end(JSON.stringify(request.url === '/keys' ? { keys: [jwk] } : { issuer: url, jwks_uri: `${url}/keys` }))
  }
  const server = createServer(listener).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  const issuer: Issuer = { url: `http://127.0.0.1:${typeof address === 'object' && address !== null ? address.port : 0}`, asked: 0, answers: true }
  t.teardown(async () => {
    server.closeAllConnections()
    server.close()
    await once(server, 'close')
  })
  return issuer
}

async function keyPair () {
  const { privateKey, publicKey } = await generateKeyPair('EdDSA', { extractable: true })
  return { privateKey, jwk: { ...await exportJWK(publicKey), kid: 'good', alg: 'EdDSA', use: 'sig' } }
}

async function analyze ({ address }: Pick<RunningService, 'address'>, token: string): Promise<number> {
  return (await fetch(`${address}/api/analyze`, { method: 'POST', body, headers: { ...json, authorization: `Bearer ${token}` } })).status
}

t.test('tokens with invented key IDs cause no requests to the issuer, and the valid key is still accepted', async (t) => {
  const { privateKey, jwk } = await keyPair()
  const issuer = await startIssuer(t, jwk)
  const service = await startService(t, { JWT_ISSUER: issuer.url, JWT_AUDIENCE: 'service', SERVICE_RATE_LIMIT_PER_MINUTE: '1000' })
  const sign = async (kid: string) => await new SignJWT({ iss: issuer.url, aud: 'service', sub: 'mira' }).setProtectedHeader({ alg: 'EdDSA', kid }).setExpirationTime('1h').sign(privateKey)
  const good = await sign('good')
  t.equal(await analyze(service, good), 200)
  const before = issuer.asked
  const made = await Promise.all(Array.from({ length: 1000 }, async (_, index) => await sign(`made up ${index}`)))
  const statuses = await Promise.all(made.map(async (token) => await analyze(service, token)))
  t.same([...new Set(statuses)], [401])
  t.equal(issuer.asked, before, 'the keys were requested a moment ago')
  t.equal(await analyze(service, good), 200)
})

t.test('an issuer that hangs delays requests only briefly, and gets no further request for a while', async (t) => {
  const { privateKey, jwk } = await keyPair()
  const issuer = await startIssuer(t, jwk)
  issuer.answers = false
  const service = await startService(t, { JWT_ISSUER: issuer.url, JWT_AUDIENCE: 'service' })
  const token = await new SignJWT({ iss: issuer.url, aud: 'service', sub: 'mira' }).setProtectedHeader({ alg: 'EdDSA', kid: 'good' }).setExpirationTime('1h').sign(privateKey)
  const answers = await Promise.all(Array.from({ length: 50 }, () => fetch(`${service.address}/api/analyze`, { method: 'POST', body, headers: { ...json, authorization: `Bearer ${token}` } })))
  t.same([...new Set(answers.map(({ status, headers }) => `${status} ${headers.get('retry-after')}`))], ['503 5'])
  t.equal(issuer.asked, 1, 'the requests share one request to the issuer')
  for (let request = 0; request < 20; request++) t.equal(await analyze(service, token), 503)
  t.equal(issuer.asked, 1, 'the issuer gets no request during the pause')
  t.equal((await fetch(`${service.address}/health`)).status, 200)
})
