// The four operations with a model at MODEL_URL: the real openai package with a test server that speaks its protocol over a socket and
// misbehaves in every way that servers do. There is no language model.
import t, { type Test } from 'tap'
import { beginStream, type ChatAnswer, complete, endStream, json, OpenAiServer, streamPart } from '../support/openai-server.js'
import { startService } from '../support/example-service.js'

const text = 'Our invoices went out late. Customers in Berlin complain!'
const key = 'the-key-of-the-model'
const sentences = [
  { text: 'Our invoices went out late.', sentiment: -0.4, entities: [] },
  { text: 'Customers in "Berlin {complain [\\!', sentiment: -0.8, entities: [{ text: 'Berlin', type: 'PLACE' }] }
]
const query = new URLSearchParams({ businessText: text }).toString()
const operations = {
  analyze: ['POST', '/api/analyze', { businessText: text }],
  'justify-leaf': ['POST', '/api/justify-leaf', { businessText: text, leaf: 'FIN-INV' }],
  'analyze-node': ['GET', `/api/analyze-node?parentCode=FIN&${query}`],
  'analyze-stream': ['GET', `/api/analyze-stream?${query}`]
} as const

/** Starts a server, and a service that uses it. */
async function start (t: Test, answer: ChatAnswer = () => {}, environment: Record<string, string> = {}) {
  const server = await OpenAiServer.start(t, answer)
  const service = await startService(t, { MODEL_URL: server.url, MODEL_NAME: 'small-model', MODEL_KEY: key, SERVICE_RATE_LIMIT_PER_MINUTE: '1000', LOG_LEVEL: 'trace', ...environment })
  const run = async (name: keyof typeof operations, signal?: AbortSignal): Promise<Response> => {
    const [method, path, body] = operations[name]
    return await service.as('alice', path, { method, ...(signal && { signal }), ...(body !== undefined && { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }) })
  }
  return { server, ...service, run }
}

const all = Object.keys(operations) as (keyof typeof operations)[]
const whole = all.filter((name) => name !== 'analyze-stream')
const firstSentence = JSON.stringify({ sentences }).replace(/,\{"text":"Customers.*/, '')

const { server, run, address, log } = await start(t)
t.beforeEach(() => {
  server.requests.length = 0
  server.abandoned = 0
})

t.test('requests to the model contain a schema, and the answers of the model are returned', async (t) => {
  const answers = {
    analysis: { sentences, entities: [{ text: 'Berlin', type: 'PLACE' }], sentiment: -0.6 },
    justification: { applies: true, score: 0.9, explanation: 'It is about invoices.', evidence: [{ sentence: 'Our invoices went out late.', shared: ['invoices'] }] },
    scores: { 'FIN-INV': 0.9, 'FIN-ACC': 0.95, 'FIN-PLN': 0.1 }
  }
  server.answer = ({ schema }, response) => { complete(response, Object.entries(answers).find(([name]) => name === schema.name)?.[1]) }
  t.match(await (await fetch(`${address}/about`)).json(), { model: 'small-model, at an OpenAI-compatible server' })
  t.same(await (await run('analyze')).json(), { ...answers.analysis, readability: { fleschReadingEase: 61, words: 9, complexWords: 2, readingSeconds: 3 } })
  t.same(await (await run('justify-leaf')).json(), { leaf: 'Invoicing', ...answers.justification })
  t.same(await (await run('analyze-node')).json(), {
    parent: 'FIN', children: [{ code: 'FIN-ACC', name: 'Accounting', score: 0.95 }, { code: 'FIN-INV', name: 'Invoicing', score: 0.9 }, { code: 'FIN-PLN', name: 'Financial planning', score: 0.1 }]
  })
  t.match(server.requests, [
    { model: 'small-model', authorization: `Bearer ${key}`, text, stream: false, schema: { strict: true, schema: { additionalProperties: false, required: ['sentences', 'entities', 'sentiment'] } } },
    { text: /^\{"text":"Our invoices.*","term":"Invoicing: invoices sent to customers/ },
    { schema: { schema: { required: ['FIN-INV', 'FIN-ACC', 'FIN-PLN'] } } }
  ])
  for (const { instruction, text: sent } of server.requests) {
    t.notMatch(instruction, text, 'the text is never part of the instruction')
    t.match(sent, 'Customers in Berlin')
  }
})

t.test('a stream is forwarded as it arrives', async (t) => {
  let goOn = (): void => {}
  server.answer = async (_request, response) => {
    beginStream(response)
    const content = JSON.stringify({ sentences })
    const cut = content.indexOf('Customers')
    for (const character of content.slice(0, cut)) streamPart(response, character)
    await new Promise<void>((resolve) => { goOn = resolve })
    streamPart(response, content.slice(cut))
    endStream(response)
  }
  const stream = await run('analyze-stream')
  t.same([stream.status, stream.headers.get('content-type')], [200, 'text/event-stream'])
  const reader = stream.body?.pipeThrough(new TextDecoderStream()).getReader()
  t.equal((await reader?.read())?.value, `id: 1\nevent: sentence\ndata: ${JSON.stringify(sentences[0])}\n\n`, 'the first sentence arrives before the second one is sent')
  goOn()
  let rest = ''
  for (let part = await reader?.read(); part?.done === false; part = await reader?.read()) rest += part.value
  t.equal(rest, `id: 2\nevent: sentence\ndata: ${JSON.stringify(sentences[1])}\n\nevent: end\ndata: {"sentences":2}\n\n`)
  t.match(server.requests, [{ stream: true, schema: { name: 'sentences' } }])
})

const respond = (...parameters: [number, unknown, Record<string, string>?]): ChatAnswer => (_, response) => { json(response, ...parameters) }
const busy = 'The model is busy. Please try again.'
const failed = 'The model failed. Please try again.'
const silent = 'The model did not answer. Please try again.'
const notAccepted = 'The model does not accept the request. The service logs the status.'
const later = new Date(Date.now() + 30 * 60_000).toUTCString()

for (const [what, answer, status, message, retryAfter] of [
  ['429', respond(429, { error: { message: `${key} ${text}` } }, { 'retry-after': '7' }), 503, busy, '7'],
  ['429 with a long wait', respond(429, {}, { 'retry-after': '86400' }), 503, busy, '60'],
  ['429 with a date', respond(429, {}, { 'retry-after': later }), 503, busy, '60'],
  ['429 with a date that has passed', respond(429, {}, { 'retry-after': 'Thu, 01 Jan 1970 00:00:00 GMT' }), 503, busy, '1'],
  ['429 without a wait', respond(429, {}), 503, busy, '5'],
  ['500', respond(500, { error: { message: `${key} ${text}`, code: text } }), 503, failed, '5'],
  ['503 with an invalid wait', respond(503, {}, { 'retry-after': 'soon' }), 503, failed, '5'],
  ['a page of HTML with 502', (_, response) => { response.writeHead(502, { 'content-type': 'text/html' }).end(`<h1>${key}</h1>`) }, 503, failed, '5'],
  ['401', respond(401, { error: { message: `Incorrect API key provided: ${key}`, code: 'invalid_api_key' } }), 502, notAccepted, null],
  ['404', respond(404, { error: { message: 'There is no such model.' } }), 502, notAccepted, null],
  ['a closed connection', (_, response) => { response.destroy() }, 503, silent, '5']
] satisfies [string, ChatAnswer, number, string, string | null][]) {
  t.test(`a model server that answers with ${what} results in ${status}`, async (t) => {
    server.answer = answer
    for (const name of all) {
      const response = await run(name)
      t.same([response.status, response.headers.get('retry-after'), response.headers.get('cache-control')], [status, retryAfter, 'no-store'], name)
      t.same(await response.json(), { error: message, status }, name)
    }
    t.equal(server.requests.length, all.length, 'the model gets one request for each request to the service')
    for (const secret of [key, text]) t.notMatch(log.join(''), secret)
  })
}

for (const [what, answer] of Object.entries<ChatAnswer>({
  'a text that is not JSON': (_, response) => { complete(response, 'I am sorry, I cannot do that.') },
  'incomplete JSON': (_, response) => { complete(response, '{"sentences":[{"te') },
  'JSON of another shape': (_, response) => { complete(response, { sentences: [{ text: 5 }] }) },
  'values out of range': (_, response) => { complete(response, { 'FIN-INV': 85, 'FIN-ACC': 1, 'FIN-PLN': 1, sentences, entities: [], sentiment: 12, applies: true, score: 12, explanation: '', evidence: [] }) },
  'a text that was cut off because of its length': (_, response) => { complete(response, '{}', { finish_reason: 'length' }) },
  'a refusal of the model': (_, response) => { complete(response, '', { message: { role: 'assistant', content: null, refusal: 'No.' } }) },
  'no choice': respond(200, { object: 'chat.completion', choices: [] }),
  'another object': respond(200, { hello: 'world' }),
  null: respond(200, null)
})) {
  t.test(`a model that answers with ${what} results in 502 or 503`, async (t) => {
    server.answer = answer
    for (const name of whole) {
      const response = await run(name)
      t.match([response.status, await response.text()], [/^50[23]$/, /^\{"error":"The model('s answer cannot be used: | did not answer)/], name)
    }
  })
}

t.test('an endless answer of the model is aborted', async (t) => {
  server.answer = ({ stream }, response) => {
    if (stream) beginStream(response)
    else response.writeHead(200, { 'content-type': 'application/json' }).write('{"choices":[{"message":{"content":"')
    const part = stream ? `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: ' '.repeat(60_000) } }] })}\n\n` : ' '.repeat(60_000)
    const write = (): void => { while (!response.destroyed && response.write(part)); }
    response.on('drain', write)
    write()
  }
  for (const name of all) t.match((await run(name)).status, /^50[23]$/, name)
  await server.abandonedBy(all.length)
  t.equal(server.abandoned, all.length)
})

t.test('a stream that fails after its first sentence ends with an error event, and one that fails earlier has a status', async (t) => {
  const breaks: Record<string, ChatAnswer> = {
    cut: (_, response) => { response.destroy() },
    'ended too soon': (_, response) => { response.end() },
    'ended as too long': (_, response) => {
      streamPart(response, undefined, 'length')
      response.end('data: [DONE]\n\n')
    },
    'another shape': (_, response) => {
      streamPart(response, ',{"text":5}]}')
      endStream(response)
    },
    'no JSON in an event': (_, response) => { response.end('data: {"choices":\n\n') },
    'an error in an event': (_, response) => { response.end(`data: {"error":{"message":"${key}","code":500}}\n\n`) }
  }
  for (const [how, then] of Object.entries(breaks)) {
    server.answer = async (request, response) => {
      beginStream(response)
      streamPart(response, firstSentence)
      await new Promise((resolve) => { response.write(': comment\n\n', resolve) })
      await then(request, response)
    }
    const body = await (await run('analyze-stream')).text()
    t.match(body, /^id: 1\nevent: sentence\n/, how)
    t.match(body, /event: error\ndata: \{"error":"The model[^"]+","status":50[23]\}\n\n$/, how)
    t.notMatch(log.join(''), key)
  }
  server.answer = (_, response) => { response.writeHead(200, { 'content-type': 'text/event-stream' }).end() }
  const answer = await run('analyze-stream')
  t.same([answer.status, answer.headers.get('content-type')], [502, 'application/json; charset=utf-8'])
})

t.test('a call of a model server that hangs ends after the time limit', async (t) => {
  const { run, server } = await start(t, ({ stream }, response) => { if (stream) beginStream(response) }, { MODEL_TIMEOUT: '300' })
  for (const name of all) {
    const answer = await run(name)
    t.same([answer.status, answer.headers.get('retry-after'), await answer.json()], [503, '1', { error: 'The model took too long. Please try again, or send a shorter text.', status: 503 }], name)
  }
  await server.abandonedBy(all.length)
  t.equal(server.abandoned, all.length, 'the connections are closed')
})

t.test('a client that disconnects ends the request to the model server, even in the middle of a stream', async (t) => {
  server.answer = ({ stream }, response) => {
    if (!stream) return
    beginStream(response)
    streamPart(response, firstSentence)
  }
  const before = log.length
  for (const [index, name] of whole.entries()) {
    const leave = new AbortController()
    const gone = run(name, leave.signal).catch(() => 'gone')
    await server.asked(index + 1)
    leave.abort()
    t.equal(await gone, 'gone')
    await server.abandonedBy(index + 1)
  }
  const leave = new AbortController()
  const reader = (await run('analyze-stream', leave.signal)).body?.getReader()
  await reader?.read()
  leave.abort()
  await reader?.read().catch(() => {})
  await server.abandonedBy(all.length)
  t.equal(server.abandoned, all.length)
  t.notMatch(log.slice(before).join(''), '"level":50')
})

t.test('a limited number of requests is open, a limited number waits, and all others are answered with 503', async (t) => {
  const answer: ChatAnswer = (_, response) => { complete(response, { sentences, entities: [], sentiment: 0 }) }
  const held: (() => unknown)[] = []
  const { run, server } = await start(t, (...request) => { held.push(() => answer(...request)) }, { MODEL_QUEUE: '2' })
  let wake = (): void => {}
  const statuses: number[] = []
  const asked = Array.from({ length: 20 }, () => run('analyze').then(async (response) => {
    statuses.push(response.status)
    wake()
    if (response.status === 503) t.same([response.headers.get('retry-after'), response.headers.get('cache-control'), await response.json()], ['1', 'no-store', { error: busy, status: 503 }])
  }))
  // The server answers no request, so the only answers are those to requests for which the queue has no room. By then, all requests have arrived.
  while (statuses.length < 2) await new Promise<void>((resolve) => { wake = resolve })
  await server.asked(16)
  t.same([statuses, server.requests.length], [[503, 503], 16])
  server.answer = answer
  for (const end of held) end()
  await Promise.all(asked)
  t.same(statuses, [503, 503, ...Array(18).fill(200)])
})
