// The four operations with the embedded model, and with a server that speaks OpenAI's protocol over
// a socket and fails as servers do.
import { once } from 'node:events'
import t, { type Test } from 'tap'
import { matchExactly } from '../support/match-exactly.js'
import {
  complete,
  endStream,
  type ChatAnswer,
  startOpenAiServer,
  streamPart
} from '../support/openai-server.js'
import {
  analysis,
  type RunningService,
  startService,
  stream,
  text
} from '../support/example-service.js'
import { until } from '../support/until.js'

const node = `/api/analyze-node?${new URLSearchParams({ ...text, parentCode: 'FIN' }).toString()}`
const justification = { method: 'POST', body: { ...text, leaf: 'FIN-INV' } }
const limits = {
  SERVICE_RATE_LIMIT_PER_MINUTE: '1000',
  SERVICE_RATE_LIMIT_TOKENS_PER_MINUTE: '100000'
}
const usage = { prompt_tokens: 30, completion_tokens: 12, total_tokens: 42 }
// Of the instructions, the text and the answer.
const estimate = 300 + 5 + (500 + 4 * 5)
const sentence = '{"text":"Invoices are late.","sentiment":-0.4,"entities":[]}'

/** Starts a service whose model is on a server. */
async function start (t: Test, environment: Record<string, string> = {}) {
  const server = await startOpenAiServer(t)
  const service = await startService(t, {
    MODEL_URL: server.url,
    MODEL_NAME: 'small',
    MODEL_KEY: 'the-key',
    ...limits,
    ...environment
  })
  return { server, ...service }
}

// One service for most tests, because starting it takes longer than they do. Each test has callers
// of its own, who have one place each.
const service = await start(t, { SERVICE_RATE_LIMIT_CONCURRENCY_CONCURRENT: '1' })
const { as, server } = service

/** Makes the server of the model answer in this way from now on. Forgets its requests. */
function answer (answer: ChatAnswer): void {
  server.answer = answer
  server.requests.length = 0
}

/**
 * Waits until a caller has used as many tokens, because a response can arrive before they are
 * settled.
 */
async function uses (
  subject: string,
  tokens: number,
  { standing }: RunningService = service
): Promise<void> {
  await until(
    `${subject} has used ${tokens} tokens`,
    async () => (await standing(subject))['tokens']?.count === tokens
  )
}

t.test('the embedded model answers each operation, and its tokens are charged', async (t) => {
  const embedded = await startService(t, limits)
  const { as } = embedded
  const post = async (caller: string, path: string, body: object) =>
    (await as(caller, path, { method: 'POST', body })).json()
  const [first, second] = ['Our invoices were late in March 2025.', 'Customers complain loudly!']
  matchExactly(t, await post('alice', '/api/analyze', { businessText: `${first} ${second}` }), {
    sentences: [
      { text: first, entities: [{ text: 'March 2025', type: 'DATE' }] },
      { text: second }
    ],
    sentiment: Number
  })
  matchExactly(t, await post('bob', '/api/justify-leaf', justification.body), {
    leaf: 'Invoicing',
    evidence: [{ shared: ['invoices'] }]
  })
  matchExactly(t, await post('bob', '/api/justify-leaf', { ...text, leaf: 'volcanoes' }), {
    applies: false,
    score: 0,
    evidence: []
  })
  matchExactly(t, await (await as('carol', node)).json(), {
    parent: 'FIN',
    children: [{ code: 'FIN-INV' }, { score: 0 }, { score: 0 }]
  })
  matchExactly(t, (await (await as('dave', stream)).text()).split('\n'), [
    'id: 1',
    'event: sentence',
    /^data: \{"text":"Invoices are late\.",/,
    '',
    'event: end',
    'data: {"sentences":1}',
    '',
    ''
  ])
  for (const [caller, tokens] of [['alice', 12], ['bob', 8], ['carol', 4], ['dave', 4]] as const) {
    await uses(caller, tokens, embedded)
  }
})

t.test(
  'the embedded model does not block other requests, and a call that takes too long ends',
  async (t) => {
    const { as, address } = await startService(t, { MODEL_TIMEOUT: '1' })
    const slow = as('alice', '/api/analyze', analysis)
    t.equal((await fetch(`${address}/health`)).status, 200)
    const response = await slow
    t.same(
      [response.status, response.headers.get('retry-after'), await response.json()],
      [
        503,
        '5',
        { error: 'The model took too long. Please try again, or send a shorter text.', status: 503 }
      ]
    )
  }
)

t.test(
  'a request to a server has a schema and the text only as data, and its answer is returned',
  async (t) => {
    const answers: Record<string, object> = {
      analysis: { sentences: [JSON.parse(sentence)], sentiment: -0.4 },
      justification: {
        applies: true,
        score: 0.9,
        explanation: 'It is about invoices.',
        evidence: [{ sentence: 'Invoices are late.', shared: ['invoices'] }]
      },
      scores: {
        scores: [
          { code: 'FIN-INV', score: 0.2 },
          { code: 'FIN-ACC', score: 0.9 },
          { code: 'another', score: 1 }
        ]
      }
    }
    answer(({ response_format: format }, to) => {
      complete(to, answers[format?.json_schema.name ?? ''], usage)
    })
    t.same(await (await as('alice', '/api/analyze', analysis)).json(), answers['analysis'])
    t.same(await (await as('alice', '/api/justify-leaf', justification)).json(), {
      leaf: 'Invoicing',
      ...answers['justification']
    })
    matchExactly(t, await (await as('alice', node)).json(), {
      children: [
        { code: 'FIN-ACC', name: 'Accounting', score: 0.9 },
        { code: 'FIN-INV', score: 0.2 },
        { code: 'FIN-PLN', score: 0 }
      ]
    })
    for (const {
      model,
      messages: [system, user],
      response_format: format
    } of server.requests) {
      t.equal(model, 'small')
      t.match(format, {
        json_schema: { strict: true, schema: { additionalProperties: false, required: Array } }
      })
      t.notMatch(system?.content, text.businessText)
      matchExactly(t, JSON.parse(user?.content ?? ''), { text: text.businessText })
    }
    await uses('alice', 126)
  }
)

t.test('a stream is forwarded as it arrives, and its tokens are charged at the end', async (t) => {
  let goOn = (): void => {}
  answer(async (_request, response) => {
    streamPart(response, '```json\n' + sentence.slice(0, 20))
    streamPart(response, `${sentence.slice(20)}\n`)
    await new Promise<void>((resolve) => {
      goOn = resolve
    })
    streamPart(response, `${sentence}\n\`\`\``)
    endStream(response, usage)
  })
  const response = await as('bob', stream)
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader()
  t.equal(
    (await reader?.read())?.value,
    `id: 1\nevent: sentence\ndata: ${sentence}\n\n`,
    'the first sentence arrives before the second'
  )
  goOn()
  let rest = ''
  for (let part = await reader?.read(); part?.done === false; part = await reader?.read()) {
    rest += part.value
  }
  t.equal(
    rest,
    `id: 2\nevent: sentence\ndata: ${sentence}\n\nevent: end\ndata: {"sentences":2}\n\n`
  )
  await uses('bob', 42)
})

for (const [what, usageOf, used] of [
  ['zeros until the last chunk', () => ({ total_tokens: 0 }), 42],
  ['what was used so far', (chunk: number) => ({ total_tokens: 12 + chunk }), 22]
] as const) {
  t.test(`a server that sends ${what} is counted once, and no answer is free`, async () => {
    let isWhole = true
    const abandoned: Promise<unknown>[] = []
    answer((_request, response) => {
      for (let chunk = 1; chunk <= 10; chunk++) {
        streamPart(response, `${sentence}\n`, null, usageOf(chunk))
      }
      if (isWhole) endStream(response, used === 42 ? usage : undefined)
      else abandoned.push(once(response, 'close'))
    })
    await (await as(what, stream)).text()
    await uses(what, used)
    isWhole = false
    for (let left = 1; left <= 3; left++) {
      const gone = new AbortController()
      const response = await as(what, stream, { signal: gone.signal })
      await response.body?.getReader().read()
      gone.abort()
      await abandoned.at(-1)
      await uses(what, used + left * estimate)
    }
  })
}

const status =
  (code: number, headers = {}): ChatAnswer =>
    (_request, response) =>
      response
        .writeHead(code, headers)
        .end(JSON.stringify({ error: { message: `the-key ${text.businessText}` } }))

for (const [what, ofServer, expected, error, tokens] of [
  ['429', status(429, { 'retry-after': '7' }), 503, 'The model is busy. Please try again.', 0],
  ['500', status(500), 503, 'The model failed. Please try again.', 0],
  [
    '401',
    status(401),
    502,
    'The model does not accept the request. The service logs the status.',
    0
  ],
  [
    'a closed connection',
    (_request, response) => response.destroy(),
    503,
    'The model failed. Please try again.',
    estimate
  ],
  [
    'no JSON',
    (_request, response) => {
      complete(response, 'I cannot do that.', usage)
    },
    502,
    "The model's answer cannot be used. Please try again.",
    42
  ],
  [
    'another shape',
    (_request, response) => {
      complete(response, { sentences: [{ text: 5 }] }, usage)
    },
    502,
    "The model's answer cannot be used. Please try again.",
    42
  ],
  [
    'no choice',
    (_, response) => response.end('{"choices":[]}'),
    502,
    "The model's answer cannot be used. Please try again.",
    estimate
  ]
] satisfies [string, ChatAnswer, number, string, number][]) {
  t.test(`a server that answers with ${what} results in ${expected}`, async (t) => {
    answer(ofServer)
    const response = await as(what, '/api/analyze', analysis)
    t.same([response.status, await response.json()], [expected, { error, status: expected }])
    await uses(what, tokens)
    t.equal(server.requests.length, 1, 'it is asked once')
    for (const secret of ['the-key', text.businessText]) t.notMatch(service.log.join(''), secret)
  })
}

t.test(
  'a stream that fails after its first sentence ends with an error event, else it has a status',
  async (t) => {
    answer(async (_request, response) => {
      streamPart(response, `${sentence}\n`)
      await new Promise((resolve) => response.write(': comment\n\n', resolve))
      response.destroy()
    })
    t.match(
      await (await as('carol', stream)).text(),
      /^id: 1\nevent: sentence\n[^]*event: error\ndata: \{"error":"The model[^"]+"\}\n\n$/
    )
    answer((_request, response) => {
      streamPart(response, '', 'length')
      response.end()
    })
    t.equal((await as('carol', stream)).status, 502)
  }
)

t.test('a call of a server that hangs ends after the time limit', async (t) => {
  const { as, server } = await start(t, { MODEL_TIMEOUT: '100' })
  const abandoned = new Promise((resolve) => {
    server.answer = (_request, response) => response.once('close', resolve)
  })
  t.equal((await as('alice', '/api/analyze', analysis)).status, 503)
  await abandoned
})

t.test('a request without a free place waits for one, and its caller sees it', async (t) => {
  const answers: (() => void)[] = []
  answer((_request, response) => {
    answers.push(() => {
      complete(response, { sentences: [], sentiment: 0 }, usage)
    })
  })
  const ask = async () => (await as('dave', '/api/analyze', analysis)).status
  const waiting = async () => Object(await (await as('dave', '/api/quota')).json()).waiting
  const [first, second] = [ask(), ask()]
  await until('one waits', async () => answers.length === 1 && (await waiting()) === 1)
  answers[0]?.()
  await until('it has a place', () => answers.length === 2)
  t.equal(await waiting(), 0)
  answers[1]?.()
  t.same(await Promise.all([first, second]), [200, 200])
})

for (const [what, path, request] of [
  ['an operation', '/api/analyze', analysis],
  ['a stream', stream, {}]
] as const) {
  t.test(
    `a client that disconnects from ${what} ends the call, frees its place, and pays the estimate`,
    async (t) => {
      const asked = new Promise<{ abandoned: Promise<unknown> }>((resolve) => {
        answer((request, response) => {
          if (request.stream) streamPart(response, `${sentence}\n`)
          resolve({ abandoned: once(response, 'close') })
        })
      })
      const linesBefore = service.log.length
      const gone = new AbortController()
      const open = as(what, path, { ...request, signal: gone.signal })
        .then((response) => response.text())
        .catch(() => 'gone')
      const { abandoned } = await asked
      const places = async () => (await service.standing(what))['concurrency']
      t.equal((await places())?.remaining, 0, 'the only place is taken')
      gone.abort()
      t.equal(await open, 'gone')
      await abandoned
      await until('the place is free', async () => (await places())?.count === 0)
      await uses(what, estimate)
      const lines = service.log.slice(linesBefore).join('')
      t.notMatch(lines, '"level":50', 'the service has not failed')
    }
  )
}
