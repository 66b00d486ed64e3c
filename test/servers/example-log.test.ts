// The log of the example at its most verbose level, after requests with every kind of error: it contains no secret of a client or of the
// environment.
import { once } from 'node:events'
import { connect } from 'node:net'
import t from 'tap'
import { basic, hs256 } from '../support/credentials.js'
import { startExample } from '../support/example.js'
import { json as sendJson, OpenAiServer } from '../support/openai-server.js'
import { RedisServer } from '../support/redis-server.js'
import { locationOf, Visitor } from '../support/visitor.js'

// Each is sent in one place of a request. All begin in the same way, so that none can be missed.
const marker = 'zq7marker'
const text = `${marker}text of a caller`
const json = { 'content-type': 'application/json' }
const jwtSecret = `${marker}jwt-secret-of-thirty-two-characters`

/** The forms in which a secret can appear in a log. */
function spellings (secret: string): string[] {
  const bytes = Buffer.from(secret)
  return [secret, encodeURIComponent(secret), new URLSearchParams({ secret }).toString().slice('secret='.length), bytes.toString('base64').replace(/=+$/, ''), bytes.toString('hex'), JSON.stringify(secret).slice(1, -1), bytes.join(',')]
}

async function sendBytes (address: string, bytes: string): Promise<void> {
  const socket = connect(Number(new URL(address).port), '127.0.0.1')
  socket.on('error', () => {})
  socket.resume()
  socket.end(bytes)
  await once(socket, 'close')
}

const own = (claims: object = {}) => hs256({ iss: 'urn:example:language-service', sub: `${marker}subject`, ...claims }, jwtSecret)

t.test('the log contains no secret after requests to every part of the service', async (t) => {
  const redis = await RedisServer.startWithPassword(`${marker}redis`)
  const model = await OpenAiServer.start(t, (request, response) => { sendJson(response, 401, { error: { message: `${request.text} ${String(request.authorization)}`, code: request.text } }) })
  const secretUrl = redis.url.replace('//', `//:${marker}redis@`)
  const service = await startExample('service/main.js', {
    LOG_LEVEL: 'trace', REDIS_URL: secretUrl, MODEL_URL: model.url, MODEL_NAME: 'm', MODEL_KEY: `${marker}model-key`, JWT_SECRET: jwtSecret, METRICS: 'true', SERVICE_RATE_LIMIT_PER_MINUTE: '50', DEBUG: '', OPENAI_LOG: 'debug'
  })
  t.teardown(() => redis.stop())
  const { address } = service
  const [token, admin] = [own(), own({ role: 'admin' })]
  const tokens = [token, admin, own({ nbf: 4_000_000_000 }), `${token.slice(0, -4)}AAAA`, `${marker}.${marker}.${marker}`, marker, '']
  const secrets = [...tokens.filter((each) => each.length > 8), jwtSecret]
  const query = `businessText=${encodeURIComponent(text)}&parentCode=${marker}`
  const paths = [
    '/', '/about', '/health', '/metrics', '/documentation', '/documentation/json', `/documentation/${marker}`, `/${marker}`, `/${marker}?${marker}=${marker}`, `/api/${marker}`, '/api/callers', '/api/quota',
    '/api/session', '/api/preferences', `/api/analyze?${query}`, `/api/analyze-node?${query}`, `/api/analyze-node?parentCode=FIN&businessText=${encodeURIComponent(text)}`, `/api/analyze-stream?${query}`, `/api/justify-leaf?${query}`,
    `/sign-in/openid/callback?code=${marker}code&state=${marker}state`, '/sign-in/openid', `/sign-in/local?password=${marker}`, '/sign-out', `/%zz${marker}`, `/..%2f${marker}`, `//${marker}.example/`, `/%00${marker}`
  ]
  const bodies = [JSON.stringify({ businessText: text, leaf: marker }), JSON.stringify({ businessText: ' ', [marker]: marker }), `{"businessText":"${marker}`, `username=${marker}user&password=${marker}password`, `{"rate-limit.per-minute":"${marker}"}`, JSON.stringify({ businessText: marker.repeat(3000) }), marker.repeat(150_000)]
  const cookies = [`language-service-session=${marker}cookie`, `language-service-session=${encodeURIComponent(`${marker};${marker}`)}`]

  await t.test('the service answers every method of every path, with every kind of credentials', async () => {
    const authorizations = [undefined, ...tokens.map((each) => `Bearer ${each}`), basic(`${marker}user`, `${marker}password`), basic('alice', `${marker}password`), `Basic ${marker}`, marker]
    let turn = 0
    for (const path of paths) {
      for (const method of ['GET', 'HEAD', 'OPTIONS', 'PUT', 'POST', 'DELETE', 'PATCH']) {
        const authorization = authorizations[turn++ % authorizations.length]
        const body = ['PUT', 'POST', 'PATCH'].includes(method) ? bodies[turn % (bodies.length - 1)] : undefined
        const type = ['application/json', 'application/x-www-form-urlencoded', `text/${marker}`, `application/json; charset=${marker}`][turn % 4] ?? ''
        const leave = new AbortController()
        const headers = {
          ...(authorization !== undefined && { authorization }),
          ...(body !== undefined && { 'content-type': type }),
          cookie: cookies[turn % cookies.length] ?? '',
          referer: `${address}/${marker}`,
          origin: `http://${marker}.example`,
          ...Object.fromEntries(['user-agent', 'x-request-id', 'csrf-token'].map((name) => [name, marker]))
        }
        await fetch(address + path, { method, redirect: 'manual', signal: leave.signal, headers, ...(body !== undefined && { body }) })
          .then((response) => response.status === 200 && response.headers.get('content-type') === 'text/event-stream' ? undefined : response.arrayBuffer())
        // Streams are abandoned half-way.
        leave.abort()
      }
    }
    for (const authorization of authorizations) {
      for (const body of bodies) {
        await fetch(`${address}/api/analyze`, { method: 'POST', body, headers: { ...json, ...(authorization !== undefined && { authorization }) } })
      }
    }
  })

  await t.test('the service closes a connection after data that is not valid HTTP', async () => {
    for (const bytes of [
      `GET /${marker} HTTP/1.1\r\nauthorization: Bearer ${token}\r\n\r\n`, `GET /api/analyze-node?${query} HTTP/1.1\r\nhost: ${marker}.example\r\n\r\n`, `${marker} / HTTP/1.1\r\nhost: a\r\n\r\n`,
      `GET / HTTP/9.9\r\nauthorization: Bearer ${token}\r\n\r\n`, `GET /${marker}\r\n\r\n`, `POST /api/analyze HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer ${token}\r\ncontent-type: application/json\r\ncontent-length: 5000\r\n\r\n{"businessText":"${text}`,
      `POST /api/analyze HTTP/1.1\r\nhost: 127.0.0.1\r\ntransfer-encoding: chunked\r\nauthorization: Bearer ${token}\r\n\r\nzz${marker}\r\n`, `GET / HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: ${marker.repeat(3000)}\r\n\r\n`,
      `GET / HTTP/1.1\r\nhost: 127.0.0.1\r\nexpect: ${marker}\r\n\r\n`, `GET / HTTP/1.1\r\nhost: 127.0.0.1\r\nupgrade: ${marker}\r\nconnection: upgrade\r\n\r\n`, `CONNECT ${marker}.example:443 HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n`,
      `GET http://user:${marker}@127.0.0.1/ HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n`, `\x16\x03\x01${marker}`
    ]) await sendBytes(address, bytes)
  })

  await t.test('visitors sign in with correct and with wrong credentials', async (t) => {
    const visitor = new Visitor(address)
    const callback = locationOf(await visitor.goToProvider('Mira Lindqvist', `${marker}name`))
    for (const name of ['code', 'state']) secrets.push(callback?.searchParams.get(name) ?? '')
    t.equal((await visitor.ask(callback?.href ?? '', { method: 'HEAD' })).status, 404)
    await visitor.ask(callback?.href ?? '')
    await visitor.ask(callback?.href ?? '')
    t.match((await visitor.session()).signedIn, { name: `${marker}name` })
    await visitor.send('/api/analyze', { method: 'POST', body: JSON.stringify({ businessText: text }), headers: json })
    secrets.push(...visitor.cookies.split(/[=;] ?/).filter((part) => part.length > 30), (await visitor.session()).csrfToken)
    const local = new Visitor(address)
    for (const password of [...Array(7).fill(`${marker}password`), 'wonderland']) await local.signInLocally('alice', password)
    await local.signInLocally(`${marker}user`, `${marker}password`)
    await local.signInLocally('admin', 'looking-glass')
    await local.send('/api/preferences', { method: 'PUT', body: JSON.stringify({ 'rate-limit.per-minute': marker }), headers: json })
    secrets.push(...local.cookies.split(/[=;] ?/).filter((part) => part.length > 30), 'wonderland', 'looking-glass')
    for (const each of [visitor, local]) await each.send('/sign-out', { method: 'POST' })
  })

  await t.test('the service answers while Redis and the model are not running', async () => {
    await redis.kill()
    await model.stop()
    for (let request = 0; request < 3; request++) {
      await fetch(`${address}/api/analyze`, { method: 'POST', body: JSON.stringify({ businessText: text }), headers: { ...json, authorization: `Bearer ${token}` } })
      await fetch(`${address}/api/preferences`, { method: 'PUT', body: '{"rate-limit.per-minute":5}', headers: { ...json, authorization: `Bearer ${admin}` } })
      await fetch(`${address}/metrics`)
    }
  })

  t.equal(await service.stop(), 0)
  const output = service.output().toLowerCase()
  t.match(output, '"level":10', 'the log has its most verbose level')
  t.notOk(output.includes(marker), output.split('\n').find((line) => line.includes(marker)) ?? '')
  t.notMatch(output, '"alice', 'the log does not contain the name of a local account')
  for (const secret of secrets) {
    t.ok(secret.length > 8, 'the secret is not empty')
    for (const spelling of spellings(secret)) t.notOk(output.includes(spelling.toLowerCase()), spelling)
  }
  for (const spelling of [text, `${marker}password`, `${marker}redis`, `${marker}model-key`].flatMap(spellings)) t.notOk(output.includes(spelling.toLowerCase()), spelling)
})

for (const client of ['ioredis', 'redis', 'glide']) {
  t.test(`the error at start-up contains no wrong password of REDIS_URL with REDIS_CLIENT=${client}`, async (t) => {
    const redis = await RedisServer.startWithPassword('another')
    t.teardown(() => redis.stop())
    const started = startExample('service/main.js', { LOG_LEVEL: 'trace', REDIS_URL: redis.url.replace('//', `//:${marker}@`), REDIS_CLIENT: client })
    const { message } = await started.then(async (service) => { await service.stop(); return new Error('the service started') }, (error: Error) => error)
    t.match(message, /REDIS_URL: the server does not accept the user name and the password \(WRONGPASS\)/)
    t.notMatch(message, marker)
  })
}
