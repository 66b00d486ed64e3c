// The example service, run as a separate process and tested over HTTP.
import { spawnSync } from 'node:child_process'
import t from 'tap'
import { plainEnvironment } from '../support/environment.js'
import { failedStart, printToken, startExample, type Example } from '../support/example.js'

const text = 'Our invoices went out late in March 2025. Customers in Berlin complain loudly!'

async function ask (service: Example, token: string | null, path: string, body?: object, method = body === undefined ? 'GET' : 'POST') {
  const response = await fetch(service.address + path, {
    method,
    headers: { ...(token !== null && { authorization: `Bearer ${token}` }), ...(body && { 'content-type': 'application/json' }) },
    ...(body && { body: JSON.stringify(body) })
  })
  const answer = await response.text()
  return { status: response.status, headers: response.headers, text: answer, json: () => JSON.parse(answer) }
}

t.test('the service answers requests over HTTP', async (t) => {
  const service = await startExample('service/main.js')
  const alice = printToken('alice')
  t.teardown(() => service.stop())

  t.test('the service describes itself and reports its health', async (t) => {
    t.match((await ask(service, null, '/about')).json(), { operations: { 'POST /api/analyze': {} } })
    t.match((await ask(service, null, '/health')).json(), { status: 'ok' })
    await service.printed(new RegExp(`curl -i ${service.address}/api/analyze`))
  })

  t.test('the service analyzes ten texts of a caller and rejects the next two requests', async (t) => {
    const answers = []
    for (let request = 0; request < 12; request++) answers.push(await ask(service, alice, '/api/analyze', { businessText: text }))
    t.same(answers.map(({ status }) => status), [...Array(10).fill(200), 429, 429])
    t.match(answers[0]?.json(), {
      sentences: [{ text: 'Our invoices went out late in March 2025.' }, { text: 'Customers in Berlin complain loudly!' }],
      entities: [{ text: 'March 2025', type: 'DATE' }],
      sentiment: Number,
      readability: { fleschReadingEase: Number, words: 12 }
    })
    t.match(answers[11]?.headers.get('retry-after'), /^[1-9]\d?$/)
    t.equal((await ask(service, null, '/api/analyze', { businessText: text })).status, 401)
  })

  t.test('the service explains why a leaf applies or not', async (t) => {
    const token = printToken('bob')
    t.match((await ask(service, token, '/api/justify-leaf', { businessText: text, leaf: 'FIN-INV' })).json(), {
      leaf: 'Invoicing', applies: true, evidence: [{ sentence: /invoices/ }, { sentence: /Customers/ }]
    })
    t.match((await ask(service, token, '/api/justify-leaf', { businessText: text, leaf: 'volcanoes' })).json(), {
      leaf: 'volcanoes', applies: false, score: 0, evidence: []
    })
  })

  t.test('the service scores the children of a node', async (t) => {
    const answer = await ask(service, printToken('carol'), `/api/analyze-node?parentCode=FIN&businessText=${encodeURIComponent(text)}`)
    const { children } = answer.json()
    t.match(children[0], { code: 'FIN-INV' })
    t.equal(children.length, 3)
  })

  t.test('the service streams its findings sentence by sentence', async (t) => {
    const answer = await ask(service, printToken('dave'), `/api/analyze-stream?businessText=${encodeURIComponent(text)}`)
    t.equal(answer.headers.get('content-type'), 'text/event-stream')
    t.same(answer.text.match(/^event: .*$/gm), ['event: sentence', 'event: sentence', 'event: end'])
  })

  t.test('a stream without authentication is answered with 401 and JSON', async (t) => {
    const answer = await ask(service, null, `/api/analyze-stream?businessText=${encodeURIComponent(text)}`)
    t.same([answer.status, answer.headers.get('content-type')], [401, 'application/json; charset=utf-8'])
  })

  t.test('the service reports the field of invalid input, and does not count the request', async (t) => {
    const token = printToken('eve')
    for (const [path, body, field] of [
      ['/api/analyze', {}, 'businessText'],
      ['/api/analyze', { businessText: '' }, 'businessText'],
      ['/api/analyze', { businessText: 'x'.repeat(20_001) }, 'businessText'],
      ['/api/justify-leaf', { businessText: text }, 'leaf'],
      ['/api/analyze-node?businessText=x', undefined, 'parentCode'],
      ['/api/analyze-node?parentCode=FIN', undefined, 'businessText'],
      ['/api/analyze-stream', undefined, 'businessText']
    ] as const) {
      for (let request = 0; request < 3; request++) {
        const answer = await ask(service, token, path, body)
        t.equal(answer.status, 400, path)
        t.match(answer.text, field)
      }
    }
    const unknown = await ask(service, token, '/api/analyze-node?parentCode=XX&businessText=x')
    t.match([unknown.status, unknown.text], [400, /parentCode/])
  })

  t.test('only administrators can change the limit at run time', async (t) => {
    const [user, administrator] = [printToken('frank'), printToken('--admin', 'root')]
    const change = { 'rate-limit.per-minute': 2 }
    t.equal((await ask(service, null, '/api/preferences', change, 'PUT')).status, 401)
    t.equal((await ask(service, user, '/api/preferences', change, 'PUT')).status, 403)
    t.equal((await ask(service, user, '/api/preferences')).status, 403)
    t.same((await ask(service, administrator, '/api/preferences', change, 'PUT')).json(), change)
    t.match((await ask(service, administrator, '/api/preferences')).json(), change)
    const answers = []
    for (let request = 0; request < 3; request++) answers.push((await ask(service, user, '/api/analyze', { businessText: text })).status)
    t.same(answers, [200, 200, 429])
    t.equal((await ask(service, administrator, '/api/preferences', { 'rate-limit.per-minute': 1.5 }, 'PUT')).status, 400)
    t.same((await ask(service, administrator, '/api/preferences', { 'rate-limit.per-minute': null }, 'PUT')).json(), { 'rate-limit.per-minute': null })
    t.equal((await ask(service, user, '/api/analyze', { businessText: text })).status, 200)
  })

  t.test('the service does not accept tokens that are forged or from another issuer', async (t) => {
    for (const token of [`${alice.slice(0, -4)}AAAA`, 'eyJhbGciOiJub25lIn0.eyJpc3MiOiJ1cm46ZXhhbXBsZTpsYW5ndWFnZS1zZXJ2aWNlIiwic3ViIjoiYSJ9.', 'nonsense']) {
      t.equal((await ask(service, token, '/api/analyze', { businessText: text })).status, 401)
    }
  })

  t.test('the service logs no warning and no token, identity or text, and closes cleanly', async (t) => {
    t.equal(await service.stop(), 0)
    t.notMatch(service.output(), /"level":(40|50|60)/)
    for (const secret of [alice, 'invoices went', 'alice"', 'frank', '127.0.0.1",']) t.notMatch(service.output().replace(/curl[^}]*\}/, ''), secret)
  })
})

t.test('the token command prints a token and nothing else', async (t) => {
  const { stdout, stderr, status } = spawnSync('npm', ['run', '--silent', 'token', '--', 'alice'], { encoding: 'utf8', env: plainEnvironment() })
  t.match(stdout, /^[\w-]+\.[\w-]+\.[\w-]+\n$/)
  t.equal(status, 0)
  t.notMatch(stderr, 'Error')
  t.match(spawnSync(process.execPath, ['build/examples/service/print-token.js'], { encoding: 'utf8', env: plainEnvironment() }), { status: 2, stderr: /^Usage/ })
})

t.test('a secret in the environment is used, and one that is too short is an error', async (t) => {
  const service = await startExample('service/main.js', { JWT_SECRET: 'another secret of thirty-two bytes or more' })
  t.teardown(() => service.stop())
  t.equal((await ask(service, printToken('alice'), '/api/analyze', { businessText: text })).status, 401)
  t.match(await failedStart('service/main.js', { JWT_SECRET: 'short' }), /JWT_SECRET must have at least 32 characters/)
})

t.test('the smallest example answers requests', async (t) => {
  const service = await startExample('smallest.js')
  t.teardown(() => { service.process.kill('SIGKILL') })
  t.equal((await ask(service, null, '/api/analyze', {})).status, 401)
})
