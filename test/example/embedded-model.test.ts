// The embedded model with long, unusual or many texts: other requests are not delayed, and requests with unreadable texts are not
// counted.
import { once } from 'node:events'
import { connect } from 'node:net'
import t from 'tap'
import { startService, type RunningService } from '../support/example-service.js'

// The longest text allowed, of the kind that takes the model the longest time.
const heavy = 'http://'.repeat(2857)
const light = 'Invoices are late.'

async function counted ({ app, as, token }: RunningService, subject: string): Promise<number> {
  // The caller's standing shows which requests were counted.
  const { authorization } = { authorization: `Bearer ${await token(subject)}` }
  const answer = await app.inject({ method: 'POST', url: '/api/analyze', headers: { authorization }, payload: { businessText: light } })
  if (answer.statusCode !== 200) throw new Error(`the request was answered ${answer.statusCode}`)
  const { quotas } = await (await as(subject, '/api/quota')).json() as { quotas: { count: number }[] }
  // The request above is one of them.
  return (quotas[0]?.count ?? 0) - 1
}

t.test('the analysis of a long text does not delay other requests', async (t) => {
  const { post, address } = await startService(t, { SERVICE_RATE_LIMIT_PER_MINUTE: '100', MODEL_TIMEOUT: '120000' })
  t.equal((await post('alice', '/api/analyze', { businessText: light })).status, 200, 'the first thread has loaded the model')
  const order: string[] = []
  const slow = ['/api/analyze', '/api/justify-leaf'].map(async (path) => {
    const { status } = await post('alice', path, { businessText: heavy, ...(path.includes('leaf') && { leaf: 'FIN-INV' }) })
    order.push('heavy')
    return status
  })
  for (let request = 0; request < 20; request++) t.equal((await fetch(`${address}/health`)).status, 200)
  order.push('health')
  t.same(await Promise.all(slow), [200, 200])
  t.equal(order[0], 'health', 'the event loop was free')
})

t.test('the analysis of the longest texts ends within the time limit of a call', async (t) => {
  const { post } = await startService(t, { SERVICE_RATE_LIMIT_PER_MINUTE: '100' })
  for (const part of ['http://', '\'', '$1', 'ing', '&']) {
    const businessText = part.repeat(20_000).slice(0, 20_000)
    t.equal((await post('alice', '/api/justify-leaf', { businessText, leaf: 'FIN-INV' })).status, 200, part)
    t.equal((await post('alice', '/api/analyze', { businessText })).status, 200, part)
  }
})

t.test('a request is answered with 503 and Retry-After if the queue is full', async (t) => {
  const { post } = await startService(t, { MODEL_TIMEOUT: '120000', MODEL_QUEUE: '1', SERVICE_RATE_LIMIT_PER_MINUTE: '100' })
  const answers = await Promise.all(Array.from({ length: 12 }, () => post('alice', '/api/analyze', { businessText: heavy })))
  const busy = answers.filter(({ status }) => status === 503)
  t.ok(busy.length >= 5, `${busy.length} requests are answered with 503`)
  t.equal(answers.filter(({ status }) => status === 200).length, 12 - busy.length)
  for (const answer of busy) {
    t.same([answer.headers.get('retry-after'), answer.headers.get('cache-control'), await answer.text()], ['1', 'no-store', '{"error":"The model is busy. Please try again.","status":503}'])
  }
  t.equal((await post('alice', '/api/analyze', { businessText: light })).status, 200, 'the service accepts requests again')
})

t.test('a call that takes too long is aborted', async (t) => {
  const { post, as } = await startService(t, { MODEL_TIMEOUT: '40', SERVICE_RATE_LIMIT_PER_MINUTE: '100' })
  for (const [path, body] of [['/api/analyze', { businessText: heavy }], ['/api/justify-leaf', { businessText: heavy, leaf: 'FIN' }]] as const) {
    const answer = await post('alice', path, body)
    t.same([answer.status, answer.headers.get('retry-after')], [503, '1'])
    t.match(await answer.text(), /The model took too long/)
  }
  const stream = await as('alice', `/api/analyze-stream?businessText=${heavy.slice(0, 9000)}`)
  t.same([stream.status, stream.headers.get('content-type')], [503, 'application/json; charset=utf-8'])
})

t.test('the work for a disconnected client is aborted', async (t) => {
  const service = await startService(t, { LOG_LEVEL: 'info', SERVICE_RATE_LIMIT_PER_MINUTE: '100', MODEL_QUEUE: '1' })
  const { post, token, address, log } = service
  const authorization = `Bearer ${await token('alice')}`
  for (let round = 0; round < 3; round++) {
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
  t.ok(log.some((line) => line.includes('The caller has gone.')), 'the abort is logged')
  t.notOk(log.some((line) => line.includes('"level":50')), 'the abort is not logged as an error')
})

t.test('a stream ends when the client stops reading', async (t) => {
  const { as, post, log } = await startService(t, { SERVICE_RATE_LIMIT_PER_MINUTE: '100', MODEL_TIMEOUT: '120000' })
  const leave = new AbortController()
  const stream = await as('alice', `/api/analyze-stream?businessText=${encodeURIComponent('Late invoices. '.repeat(500))}`, { signal: leave.signal })
  const reader = stream.body?.pipeThrough(new TextDecoderStream()).getReader()
  t.match((await reader?.read())?.value, /^id: 1\nevent: sentence\n/)
  leave.abort()
  await reader?.read().catch(() => {})
  t.equal((await post('alice', '/api/analyze', { businessText: light })).status, 200)
  t.notOk(log.some((line) => line.includes('"level":50')), log.join(''))
})

t.test('closing the service terminates its threads', async (t) => {
  const { app, post } = await startService(t, { SERVICE_RATE_LIMIT_PER_MINUTE: '100', MODEL_TIMEOUT: '120000' })
  t.equal((await post('alice', '/api/analyze', { businessText: light })).status, 200)
  const asked = Array.from({ length: 40 }, () => post('alice', '/api/analyze', { businessText: heavy }).then(({ status }) => String(status), () => 'cut'))
  await fetch(app.listeningOrigin)
  await app.close()
  t.match((await Promise.all(asked)).join(' '), /cut|503/, 'requests that are still open are not completed')
})

t.test('a text without words is analyzed like any other text', async (t) => {
  const { post, as } = await startService(t, { SERVICE_RATE_LIMIT_PER_MINUTE: '1000' })
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
    const query = new URLSearchParams({ parentCode: 'FIN', businessText: text.slice(0, 1000) }).toString()
    const scores = await as('alice', `/api/analyze-node?${query}`)
    t.same([scores.status, (await scores.json() as { children: unknown[] }).children.length], [200, 3], shown)
    t.match(await (await as('alice', `/api/analyze-stream?${query.replace(/^parentCode=FIN&/, '')}`)).text(), /^event: end$/m, shown)
  }
})

t.test('the justification of a leaf contains words of the text', async (t) => {
  const { post } = await startService(t)
  const answer = await post('alice', '/api/justify-leaf', { businessText: 'Our Invoices are late. Customers complain.', leaf: 'FIN-INV' })
  t.match(await answer.json(), { explanation: /speaks of invoices, customers, which/, evidence: [{ shared: ['invoices'] }, { shared: ['customers'] }] })
})

t.test('invalid input is answered with 400 and not counted', async (t) => {
  const service = await startService(t)
  const { post, as, address } = service
  const blank = encodeURIComponent(' \t\n\u00a0\u3000')
  for (const [path, body] of [
    ['/api/analyze', {}], ['/api/analyze', { businessText: '' }], ['/api/analyze', { businessText: ' \t\n\u00a0\u3000' }], ['/api/analyze', { businessText: 5 }], ['/api/analyze', { businessText: null }],
    ['/api/analyze', { businessText: ['a'] }], ['/api/analyze', '{"businessText":'], ['/api/analyze', 'null'], ['/api/analyze', { businessText: 'x'.repeat(20_001) }],
    ['/api/justify-leaf', { businessText: 'x' }], ['/api/justify-leaf', { businessText: 'x', leaf: ' ' }], ['/api/justify-leaf', { businessText: 'x', leaf: false }], ['/api/justify-leaf', { businessText: ' ', leaf: 'x' }]
  ] as const) t.equal((await post('eve', path, body)).status, 400, `${path} ${JSON.stringify(body).slice(0, 60)}`)
  for (const query of [
    'analyze-node?businessText=x', 'analyze-node?parentCode=FIN', 'analyze-node?parentCode=FIN&businessText=', `analyze-node?parentCode=FIN&businessText=${blank}`, 'analyze-node?parentCode=XX&businessText=x',
    'analyze-node?parentCode=%20&businessText=x', 'analyze-node?parentCode=FIN&parentCode=HR&businessText=x', 'analyze-node?parentCode=FIN&businessText=x&businessText=y', 'analyze-stream', `analyze-stream?businessText=${blank}`
  ]) {
    const answer = await as('eve', `/api/${query}`)
    t.equal(answer.status, 400, query)
    t.match(await answer.text(), /businessText|parentCode/, query)
  }
  t.equal((await as('eve', '/api/analyze-stream?businessText=x', { headers: { accept: 'application/json' } })).status, 406)
  t.equal((await fetch(`${address}/api/analyze`, { method: 'POST', body: 'x', headers: { 'content-type': 'text/csv' } })).status, 415)
  t.equal(await counted(service, 'eve'), 0)
})
