// Random non-literal patterns and random spellings on raw sockets: every request that a handler could mistake for a request to the
// operation, after fully decoding its parameters, is counted.
import { posix } from 'node:path'
import fc from 'fast-check'
import Fastify, { type FastifyInstance } from 'fastify'
import t from 'tap'
import quotaPlugin from '../../lib/index.js'
import { assertProperty } from '../support/property.js'
import { listen, sendRaw } from '../support/raw-socket.js'

const operation = { method: 'POST', path: '/api/analyze' }
const tables = 40
const targetsPerTable = 100

const segments = ['api', 'analyze', ':a', ':b', ':word(^[\\w-]+$)', ':any(^.*$)', ':one-:two', ':last?', '*'] as const
const pattern = fc.array(fc.constantFrom(...segments), { minLength: 1, maxLength: 4 }).map((parts) => `/${parts.join('/')}`)
  // A wildcard or an optional parameter must be last, and each name can be used only once.
  .filter((made) => !/[*?]./.test(made) && /[:*]/.test(made) && !/(:\w+).*\1\b/.test(made))

// Paths that at least one reading turns into the path of the operation, and some that no reading does.
const path = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom('/api/analyze', '/api/./analyze', '/api//analyze', '/api/analyze/', '/api/x/../analyze', '/x/../api/analyze', '/./api/analyze/.', '/api/analyze?x', '/api\\analyze', '/api\\x/..\\analyze') },
  { weight: 1, arbitrary: fc.constantFrom('/api/analyzer', '/api', '/analyze', '/api/analyze/..', '/x/api/analyze') }
)
const layers = fc.constantFrom(0, 0, 0, 0, 0, 0, 1, 1, 1, 2, 3)
const target = path.chain((made) => fc.noBias(fc.array(layers, { minLength: made.length, maxLength: made.length }))
  .map((choices) => [...made].map((letter, index) => index === 0 ? letter : encoded(letter, choices[index] ?? 0)).join('')))

function encoded (letter: string, layers: number): string {
  if (layers === 0) return letter
  const escape = `%${letter.charCodeAt(0).toString(16).padStart(2, '0')}`
  return escape.replace('%', '%' + '25'.repeat(layers - 1))
}

const routerOptions = fc.record({ ignoreTrailingSlash: fc.boolean(), ignoreDuplicateSlashes: fc.boolean(), caseSensitive: fc.boolean(), useSemicolonDelimiter: fc.boolean() })

/** Whether a handler that decodes its parameters could mistake the request for one to the operation. */
function couldBeTaken (pattern: string, params: object): boolean {
  const values = new Map(Object.entries(params).map(([name, value]) => [name, decodedInFull(String(value ?? ''))]))
  const path = pattern.replace(/:(\w+)(?:\(.*?\))?\??|\*/g, (_, name = '*') => values.get(name) ?? '')
  return [path, posix.normalize(path), new URL(`http://any${path}`).pathname].some((read) => read.replace(/\\/g, '/').replace(/\/\/+/g, '/').replace(/(.)\/$/, '$1') === operation.path)
}

function decodedInFull (text: string): string {
  try {
    const decoded = decodeURIComponent(text)
    return decoded === text ? text : decodedInFull(decoded)
  } catch {
    return text
  }
}

async function start (routerOptions: object, pattern: string, isGuarded: boolean): Promise<{ app: FastifyInstance, port: number }> {
  const app = Fastify({ routerOptions })
  if (isGuarded) await app.register(quotaPlugin, { operations: [operation] })
  app.post(pattern, async ({ params }) => couldBeTaken(pattern, Object(params)) ? 'reached' : 'elsewhere')
  return { app, port: await listen(app) }
}

t.test(`every request that a handler of a non-literal route could mistake for the operation is counted, in ${tables * targetsPerTable} random spellings`, async (t) => {
  let reached = 0
  const targets = fc.array(target, { minLength: targetsPerTable, maxLength: targetsPerTable })
  await assertProperty(fc.asyncProperty(routerOptions, pattern, targets, async (routerOptions, pattern, targets) => {
    const guarded = await start(routerOptions, pattern, true)
    const open = await start(routerOptions, pattern, false)
    try {
      const requests = targets.map((target) => ({ method: operation.method, target }))
      const [guardedAnswers, openAnswers] = await Promise.all([sendRaw(guarded.port, requests), sendRaw(open.port, requests)])
      for (const [index, target] of targets.entries()) {
        if (openAnswers[index]?.body !== 'reached') continue
        reached += 1
        if (guardedAnswers[index]?.status !== 401) throw new Error(`${target}: ${guardedAnswers[index]?.status} instead of 401`)
      }
      if (openAnswers.length < targets.length) throw new Error('a target ended the connection')
    } finally {
      await Promise.all([guarded.app.close(), open.app.close()])
    }
  }), { numRuns: tables, endOnFailure: true })
  t.comment(`${reached} spellings could be mistaken for the operation`)
  t.ok(reached > tables * targetsPerTable / 20, 'enough spellings could be mistaken for the test to be meaningful')
})
