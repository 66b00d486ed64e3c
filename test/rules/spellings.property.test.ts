// docs/rules.md, "Subject": random route tables, operations, prefixes, router options, hosts and
// spellings on raw sockets.
import fc from 'fast-check'
import Fastify from 'fastify'
import t from 'tap'
import quotaPlugin from '../../lib/index.js'
import { assertProperty } from '../support/property.js'
import { listen, sendRaw } from '../support/raw-socket.js'
import { comparable, isSpelledAs, type Comparison } from '../support/spelling-rule.js'

const tables = Number(process.env.RANDOM_WALKS ?? 25)
const targetsPerTable = 60

const methods = ['GET', 'POST'] as const
const path = (of: readonly string[]) =>
  fc
    .array(fc.constantFrom(...of), { minLength: 1, maxLength: 3 })
    .map((parts) => `/${parts.join('/')}`)
const literal = path(['api', 'API', 'analyze', 'Analyze', 'a.b', 'x~y', 'a b', 'ä', '%25'])
const pattern = fc
  .oneof(
    literal,
    literal.map((made) => `${made}/`),
    path(['api', ':id', ':word(^[\\w-]+$)', ':a-:b', 'v::1', 'analyze']),
    fc.constantFrom('*', '/*', '/api/*')
  )
  // Each name can be used only once.
  .filter((made) => !/(:\w+).*\1\b/.test(made))
const operation = fc.record({
  method: fc.constantFrom(...methods),
  path: fc.oneof(
    { weight: 8, arbitrary: path(['api', 'analyze', 'Analyze', 'a.b', 'x~y', 'ä', 'a b']) },
    fc.constant('/')
  )
})

const table = fc
  .record({
    routes: fc.array(fc.record({ method: fc.constantFrom(...methods), path: pattern }), {
      maxLength: 6
    }),
    operations: fc.array(operation, { minLength: 1, maxLength: 3 }),
    hasRoutes: fc.boolean(),
    prefix: fc.constantFrom('', '', '/context', '/Context/deep'),
    options: fc.record({
      ignoreTrailingSlash: fc.boolean(),
      ignoreDuplicateSlashes: fc.boolean(),
      caseSensitive: fc.boolean(),
      useSemicolonDelimiter: fc.boolean()
    })
  })
  .map(({ hasRoutes, ...made }) => ({
    ...made,
    routes: hasRoutes ? [...made.operations, ...made.routes] : made.routes
  }))

// What clients and attackers put before, into and after a path, and into `Host`.
const before = fc.oneof(
  { weight: 10, arbitrary: fc.constant('') },
  {
    weight: 13,
    arbitrary: fc.constantFrom(
      ...['http://h', 'https://h:8', 'HTTP://h', '//h', '/\\h', '//a//b', '/%2fh', 'foo:', '*'],
      ...['/x/..', '/.', '/%2e', 'h']
    )
  }
)
const between = fc.constantFrom(
  ...['//', '/./', '/x/../', '/%2e%2e/', '\\', '%2f', '%5c', '%252f', '%25252f', '/;a/', ';a'],
  ...['%09', '%00', '%20', '%c2%85', '%', '%%32%35', '#', '%3f', '?']
)
const after = fc.oneof(
  { weight: 8, arbitrary: fc.constant('') },
  {
    weight: 13,
    arbitrary: fc.constantFrom(
      ...['/', '?a=1', '#f', ';j=1', '/.', '/..', '%', '%20', '%3F', '%23', '//', '/x/..', '%ff']
    )
  }
)
const host = fc.oneof(
  { weight: 12, arbitrary: fc.constant('127.0.0.1') },
  fc.constantFrom(
    '',
    'h/api',
    'h\\api',
    'h/api/analyze',
    'h/api/analyze?',
    'h#',
    'analyze',
    'h/%61nalyze'
  )
)

function spelled (path: string): fc.Arbitrary<string> {
  const choices = fc.noBias(
    fc.array(fc.integer({ min: 0, max: 120 }), { minLength: path.length, maxLength: path.length })
  )
  const inserted = fc.option(fc.tuple(fc.integer({ min: 0, max: path.length }), between), {
    freq: 2
  })
  return fc.tuple(before, choices, inserted, after).map(([start, choices, insertion, end]) => {
    const letters = [...path].map((letter, index) => respelled(letter, choices[index] ?? 120))
    if (insertion !== null) letters.splice(insertion[0], 0, insertion[1])
    return start + letters.join('') + end
  })
}

function respelled (letter: string, choice: number): string {
  const encoded = encodeURIComponent(letter)
  const escape = encoded === letter ? `%${letter.charCodeAt(0).toString(16)}` : encoded
  if (choice <= 2) return escape.replaceAll('%', '%' + '25'.repeat(choice))
  if (choice === 3) return letter === '/' ? '\\' : letter.toUpperCase()
  if (choice === 4) return letter + letter
  return letter > '~' || letter === ' ' ? escape : letter
}

const cases = table.chain((made) => {
  const spellable = [...made.operations, ...made.operations, ...made.routes].map(
    ({ method, path }) => ({
      method,
      path: path.replace(/::/, ':').replace(/:\w+(?:\(.*?\))?|\*/g, 'analyze')
    })
  )
  const request = fc
    .tuple(fc.constantFrom(...spellable), host)
    .chain(([{ method, path }, host]) =>
      spelled(made.prefix + path).map((target) => ({ method, target, host }))
    )
  return fc
    .array(request, { minLength: targetsPerTable, maxLength: targetsPerTable })
    .map((requests) => ({ ...made, requests }))
})

/**
 * Starts a server with the routes of a table, and notes the pattern that each request has matched.
 */
async function start ({
  routes,
  operations,
  prefix,
  options
}: {
  routes: readonly { method: string; path: string }[]
  operations: { method: string; path: string }[]
  prefix: string
  options: object
}) {
  const app = Fastify({ routerOptions: options })
  const seen: ({ pattern: string | undefined } | undefined)[] = []
  app.addHook('onRequest', async ({ headers, routeOptions }) => {
    seen[Number(headers['x-id'])] = { pattern: routeOptions.url }
  })
  await app.register(quotaPlugin, { operations, ...(prefix !== '' && { prefix }) })
  await app.register(
    async (scope) => {
      for (const { method, path } of routes) {
        try {
          scope.route({ method, url: path, exposeHeadRoute: false, handler: async () => 'ran' })
        } catch {
          // The router treats two of the random patterns as equal, or does not accept one.
        }
      }
    },
    prefix === '' ? {} : { prefix }
  )
  return { app, seen, port: await listen(app) }
}

/** Whether the rules name a request that has matched this pattern. */
function isSubject (
  comparison: Comparison,
  pattern: string | undefined,
  target: string,
  host: string
): boolean {
  if (pattern === undefined || /(?<!:):(?!:)|\*/.test(pattern)) {
    return isSpelledAs(comparison, target, host)
  }
  const { path, prefix, options } = comparison
  const form = comparable(pattern.replaceAll('::', ':'), options)
  return (
    form === comparable(prefix + path, options) ||
    (path === '/' && form === comparable(prefix, options))
  )
}

t.test(
  `exactly the requests that the rules name are counted, in ${tables * targetsPerTable} ` +
    'random spellings',
  async (t) => {
    const seenKinds = { literal: 0, spelled: 0, passed: 0 }
    await assertProperty(
      fc.asyncProperty(cases, async ({ requests, ...table }) => {
        const { app, seen, port } = await start(table)
        try {
          const responses = await sendRaw(
            port,
            requests.map((request, id) => ({ ...request, headers: `X-Id: ${id}\r\n` }))
          )
          for (const [id, { method, target, host }] of requests.entries()) {
            const matched = seen[id]
            // Node.js or the router has refused a malformed target, so that no code of the host
            // runs.
            if (matched === undefined) continue
            const comparisons = table.operations
              .filter((operation) => operation.method === method)
              .map(({ path }) => ({ ...table, path }))
            const expected = comparisons.some((comparison) =>
              isSubject(comparison, matched.pattern, target, host)
            )
            const isCounted = responses[id]?.status === 401
            if (isCounted !== expected) {
              throw new Error(
                `${method} ${target} at ${host} on ${matched.pattern}: ${responses[id]?.status}`
              )
            }
            const isLiteral =
              matched.pattern !== undefined && !/(?<!:):(?!:)|\*/.test(matched.pattern)
            seenKinds[!expected ? 'passed' : isLiteral ? 'literal' : 'spelled'] += 1
          }
        } finally {
          await app.close()
        }
      }),
      { numRuns: tables, endOnFailure: true }
    )
    t.comment(JSON.stringify(seenKinds))
    t.ok(
      Object.values(seenKinds).every((count) => count > tables),
      'every kind of request was sent often'
    )
  }
)
