// The four operations with the embedded model: ordinary, long, unusual and invalid texts, and many at once.
import { once } from 'node:events'
import { connect } from 'node:net'
import t from 'tap'
import { startService } from '../support/example-service.js'

const text = 'Our invoices went out late in March 2025. Customers in Berlin complain loudly!'
// The longest text allowed, of the kind that takes the model the longest time.
const heavy = 'http://'.repeat(2857)
const light = 'Invoices are late.'
const blank = ' \t\n\u00a0\u3000'

const { as, post, address } = await startService(t, { SERVICE_RATE_LIMIT_PER_MINUTE: '1000' })
const streamOf = (businessText: string) => `/api/analyze-stream?${new URLSearchParams({ businessText }).toString()}`
const nodeOf = (businessText: string, parentCode = 'FIN') => `/api/analyze-node?${new URLSearchParams({ parentCode, businessText }).toString()}`

t.test('the model analyzes, justifies, scores and streams', async (t) => {
  t.match(await (await post('alice', '/api/analyze', { businessText: text })).json(), {
    sentences: [{ text: 'Our invoices went out late in March 2025.' }, { text: 'Customers in Berlin complain loudly!' }],
    entities: [{ text: 'March 2025', type: 'DATE' }],
    sentiment: Number,
    readability: { fleschReadingEase: Number, words: 12 }
  })
  t.match(await (await post('alice', '/api/justify-leaf', { businessText: text, leaf: 'FIN-INV' })).json(), {
    leaf: 'Invoicing', applies: true, explanation: /speaks of invoices, customers, which/, evidence: [{ sentence: /invoices/, shared: ['invoices'] }, { sentence: /Customers/, shared: ['customers'] }]
  })
  t.match(await (await post('alice', '/api/justify-leaf', { businessText: text, leaf: 'volcanoes' })).json(), { leaf: 'volcanoes', applies: false, score: 0, evidence: [] })
  t.match(await (await as('alice', nodeOf(text))).json(), { children: [{ code: 'FIN-INV' }, {}, {}] })
  const stream = await as('alice', streamOf(text))
  t.equal(stream.headers.get('content-type'), 'text/event-stream')
  t.same((await stream.text()).match(/^event: .*$/gm), ['event: sentence', 'event: sentence', 'event: end'])
})

t.test('the analysis of a long text does not delay other requests', async (t) => {
  let answered = 0
  const slow = [post('alice', '/api/analyze', { businessText: heavy }), post('alice', '/api/justify-leaf', { businessText: heavy, leaf: 'FIN-INV' })]
    .map((response) => response.finally(() => { answered++ }))
  for (let request = 0; request < 20; request++) t.equal((await fetch(`${address}/health`)).status, 200)
  t.equal(answered, 0, 'the event loop was free')
  t.same((await Promise.all(slow)).map(({ status }) => status), [200, 200])
})

t.test('the analysis of the longest texts ends within the time limit of a call', async (t) => {
  for (const part of ['http://', '\'', '$1', 'ing', '&']) {
    const businessText = part.repeat(20_000).slice(0, 20_000)
    t.equal((await post('alice', '/api/justify-leaf', { businessText, leaf: 'FIN-INV' })).status, 200, part)
    t.equal((await post('alice', '/api/analyze', { businessText })).status, 200, part)
  }
})

t.test('a text without words is analyzed like any other text', async (t) => {
  for (const text of ['123', '.', '🦊', '…!?', '\u200b', '\ud800', '\u0000', '#', '__proto__', 'constructor', '1'.repeat(20_000), '🦊'.repeat(10_000)]) {
    const shown = JSON.stringify(text).slice(0, 20)
    const analysis = await post('alice', '/api/analyze', { businessText: text })
    t.equal(analysis.status, 200, shown)
    t.match(await analysis.json(), { sentences: Array, sentiment: Number, readability: { fleschReadingEase: Number, words: Number, complexWords: Number, readingSeconds: Number } }, shown)
    for (const leaf of ['FIN-INV', text.slice(0, 100)]) {
      const justification = await post('alice', '/api/justify-leaf', { businessText: text, leaf })
      t.equal(justification.status, 200, shown)
      const { applies, score } = await justification.json() as { applies: unknown, score: unknown }
      t.ok(typeof applies === 'boolean' && typeof score === 'number' && score >= 0 && score <= 1, `${shown}: ${String(score)}`)
    }
    const scores = await as('alice', nodeOf(text.slice(0, 1000)))
    t.same([scores.status, (await scores.json() as { children: unknown[] }).children.length], [200, 3], shown)
    t.match(await (await as('alice', streamOf(text.slice(0, 1000)))).text(), /^event: end$/m, shown)
  }
})

t.test('invalid input is answered with 400 and the name of the field, and is not counted', async (t) => {
  const invalid: [named: string, path: string, body?: unknown][] = [
    ...['', blank, 5, null, ['a'], 'x'.repeat(20_001), undefined].map((businessText): [string, string, object] => ['businessText', '/api/analyze', { businessText }]),
    ...[{}, { leaf: ' ' }, { leaf: false }].map((leaf): [string, string, object] => ['leaf', '/api/justify-leaf', { businessText: 'x', ...leaf }]),
    ['businessText', '/api/justify-leaf', { businessText: ' ', leaf: 'x' }],
    ['JSON', '/api/analyze', '{"businessText":'],
    ['body must be object', '/api/analyze', 'null'],
    ...[nodeOf(''), nodeOf(blank), '/api/analyze-node?parentCode=FIN', `${nodeOf('x')}&businessText=y`, '/api/analyze-stream', streamOf(blank)].map((path): [string, string] => ['businessText', path]),
    ...['/api/analyze-node?businessText=x', nodeOf('x', 'XX'), nodeOf('x', ' '), `${nodeOf('x')}&parentCode=HR`].map((path): [string, string] => ['parentCode', path])
  ]
  for (const [named, path, body] of invalid) {
    const answer = await (body === undefined ? as('eve', path) : post('eve', path, body))
    t.equal(answer.status, 400, `${path} ${String(JSON.stringify(body)).slice(0, 60)}`)
    t.match(await answer.text(), named, path)
  }
  t.equal((await as('eve', streamOf('x'), { headers: { accept: 'application/json' } })).status, 406)
  t.equal((await as('eve', '/api/analyze', { method: 'POST', body: 'x', headers: { 'content-type': 'text/csv' } })).status, 415)
  t.match(await (await as('eve', '/api/quota')).json(), { quotas: [{ count: 0 }] })
})

t.test('a call that takes too long is aborted', async (t) => {
  const { post, as } = await startService(t, { MODEL_TIMEOUT: '40' })
  for (const [path, body] of [['/api/analyze', { businessText: heavy }], ['/api/justify-leaf', { businessText: heavy, leaf: 'FIN' }]] as const) {
    const answer = await post('alice', path, body)
    t.same([answer.status, answer.headers.get('retry-after')], [503, '1'])
    t.match(await answer.text(), /The model took too long/)
  }
  const stream = await as('alice', `/api/analyze-stream?businessText=${heavy.slice(0, 9000)}`)
  t.same([stream.status, stream.headers.get('content-type')], [503, 'application/json; charset=utf-8'])
})

t.test('the work for a disconnected client is aborted', async (t) => {
  const { post, token, address, log } = await startService(t, { MODEL_TIMEOUT: '120000', MODEL_QUEUE: '1' })
  const authorization = `Bearer ${await token('alice')}`
  for (let round = 0; round < 2; round++) {
    const body = JSON.stringify({ businessText: heavy })
    const sockets = Array.from({ length: 4 }, () => connect(Number(new URL(address).port), '127.0.0.1'))
    for (const socket of sockets) {
      socket.write(`POST /api/analyze HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: ${authorization}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`)
      await once(socket, 'ready')
    }
    // When this request has been answered, the others have arrived.
    await fetch(`${address}/health`)
    for (const socket of sockets) socket.destroy()
  }
  t.equal((await post('alice', '/api/analyze', { businessText: light })).status, 200, 'the queue has room again')
  t.match(log.join(''), 'The caller has gone.', 'the abort is logged')
  t.notMatch(log.join(''), '"level":50', 'but not as an error')
})

t.test('closing the service terminates its threads', async (t) => {
  const { app, post } = await startService(t, { SERVICE_RATE_LIMIT_PER_MINUTE: '100', MODEL_TIMEOUT: '120000' })
  t.equal((await post('alice', '/api/analyze', { businessText: light })).status, 200)
  const asked = Array.from({ length: 40 }, () => post('alice', '/api/analyze', { businessText: heavy }).then(({ status }) => String(status), () => 'cut'))
  await fetch(app.listeningOrigin)
  await app.close()
  t.match((await Promise.all(asked)).join(' '), /cut|503/, 'requests that are still open are not completed')
})
