// Random spellings on raw sockets: a request is counted if it reaches a protected handler, or if no route matches and its path could be
// read as that of an operation. No other request is counted.
import fc from 'fast-check'
import Fastify, { type FastifyInstance } from 'fastify'
import t from 'tap'
import quotaPlugin, { protectedOperations } from '../../lib/index.js'
import { isReadBroadly, readInFull } from '../support/full-reading.js'
import { assertProperty } from '../support/property.js'
import { listen, sendRaw } from '../support/raw-socket.js'

const batches = 24
const targetsPerBatch = 250

const operation = fc.constantFrom(...protectedOperations, ...protectedOperations, { method: 'POST', path: '/api/other' }, { method: 'GET', path: '/api' })

// A path in which single letters are spelled differently, with additions that clients and attackers make.
// Without fast-check's bias towards small numbers, which would change most letters, so that many targets still match a route.
const request = fc.noBias(fc.tuple(
  operation,
  fc.integer({ min: 0, max: 9 }),
  fc.constantFrom('', '', '', '', 'http://h', 'https://h:8', 'HTTP://h', '//h', 'http:/', 'h'),
  fc.array(fc.integer({ min: 0, max: 120 }), { minLength: 19, maxLength: 19 }),
  fc.constantFrom('', '', '', '/', '//', '?a=1', '#f', ';j=1', '?', '%', '%2', '%20', '/..', '?%zz', '%3F', ';', '/?x/')
).map(([{ method, path }, chance, before, choices, after]) => ({
  method: chance > 0 ? method : method === 'GET' ? 'POST' : 'GET',
  target: before + [...path].map((letter, index) => respell(letter, choices[index] ?? 120)).join('') + after
})))

function respell (letter: string, choice: number): string {
  const hex = letter.charCodeAt(0).toString(16).padStart(2, '0')
  if (choice === 0) return `%${hex}`
  if (choice === 1) return `%${hex.toUpperCase()}`
  if (choice === 2) return letter.toUpperCase()
  if (choice === 3) return `%25${hex}`
  if (choice === 4) return letter + letter
  if (choice === 5) return ''
  return letter
}

const options = fc.record({ ignoreTrailingSlash: fc.boolean(), ignoreDuplicateSlashes: fc.boolean(), caseSensitive: fc.boolean(), useSemicolonDelimiter: fc.boolean() })

function declare (app: FastifyInstance): void {
  for (const { method, path } of protectedOperations) app.route({ method, url: path, exposeHeadRoute: false, handler: async () => `reached ${path}` })
  app.all('/api/other', async () => 'elsewhere')
}

function couldBeRead ({ method, target }: { method: string, target: string }, routerOptions: { caseSensitive: boolean, useSemicolonDelimiter: boolean }): boolean {
  const readings = readInFull(target, routerOptions)
  return protectedOperations.some((operation) => operation.method === method && readings.includes(operation.path))
}

async function compare (routerOptions: { caseSensitive: boolean, useSemicolonDelimiter: boolean }, requests: { method: string, target: string }[]) {
  const guarded = Fastify({ routerOptions })
  await guarded.register(quotaPlugin)
  const open = Fastify({ routerOptions })
  declare(guarded)
  declare(open)
  try {
    const [guardedPort, openPort] = [await listen(guarded), await listen(open)]
    const differences = []
    let reachedCount = 0
    for (const request of requests) {
      const [[guardedAnswer], [openAnswer]] = await Promise.all([sendRaw(guardedPort, [request]), sendRaw(openPort, [request])])
      const reached = openAnswer?.body.startsWith('reached ') === true
      if (reached) reachedCount += 1
      const unmatched = openAnswer?.status === 404
      if (unmatched && isReadBroadly(request.target) && guardedAnswer?.status === 401) continue
      const expected = reached || (unmatched && couldBeRead(request, routerOptions))
      if (expected !== (guardedAnswer?.status === 401)) differences.push({ ...request, reached, guarded: guardedAnswer?.status })
    }
    return { differences, reachedCount }
  } finally {
    await Promise.all([guarded.close(), open.close()])
  }
}

t.test(`exactly the requests that could reach an operation are counted, in ${batches * targetsPerBatch} random spellings`, async (t) => {
  let reachedTotal = 0
  await assertProperty(fc.asyncProperty(options, fc.array(request, { minLength: targetsPerBatch, maxLength: targetsPerBatch }), async (routerOptions, requests) => {
    const { differences, reachedCount } = await compare(routerOptions, requests)
    reachedTotal += reachedCount
    return differences.length === 0
  }), { numRuns: batches, verbose: 1 })
  t.comment(`${reachedTotal} spellings reached a protected handler`)
  t.ok(reachedTotal > 300, 'enough spellings reached a protected handler for the test to be meaningful')
})
