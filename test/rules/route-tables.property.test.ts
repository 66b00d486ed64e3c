// Random route tables, operations, prefixes and router options on raw sockets. A request is subject to the quota exactly if Fastify
// matched the route of the operation, if a router with only the operation would match it, or if the route is not literal or no route
// matched and a handler or a proxy could read the path as that of the operation.
import fc from 'fast-check'
import Fastify, { type FastifyInstance } from 'fastify'
import t from 'tap'
import quotaPlugin from '../../lib/index.js'
import { listen, sendRaw } from '../support/raw-socket.js'
import { isReadBroadly, readInFull } from '../support/full-reading.js'
import { assertProperty } from '../support/property.js'

const methods = ['GET', 'POST'] as const
const segments = ['api', 'API', 'analyze', 'Analyze', 'a.b', 'x~y', 'a b', 'x (GET)', 'a\nb', 'ä', '%25', '*', ':id', ':id(^\\d+$)', 'v:major', ':a-:b'] as const
const plainSegments = ['api', 'analyze', 'Analyze', 'a.b', 'x~y', 'ä', '7'] as const

const path = (of: readonly string[]) => fc.array(fc.constantFrom(...of), { minLength: 1, maxLength: 3 })
  .chain((parts) => fc.boolean().map((slash) => `/${parts.join('/')}${slash ? '/' : ''}`))
  // A wildcard must be last.
  .filter((made) => !/\*./.test(made))
const routes = fc.array(fc.record({ method: fc.constantFrom(...methods), path: path(segments) }), { minLength: 1, maxLength: 8 })
const operations = fc.uniqueArray(fc.record({ method: fc.constantFrom(...methods), path: path(plainSegments) }), { minLength: 1, maxLength: 4, selector: ({ method, path }) => `${method} ${path.toLowerCase().replace(/\/$/, '')}` })
const prefix = fc.constantFrom(undefined, '/context', '/Context/deep', '/c%20d')
const routerOptions = fc.record({ ignoreTrailingSlash: fc.boolean(), ignoreDuplicateSlashes: fc.boolean(), caseSensitive: fc.boolean(), useSemicolonDelimiter: fc.boolean() })

const respelled = (path: string) => fc.tuple(
  fc.constantFrom('', '', '', 'http://h', '//h'),
  fc.array(fc.integer({ min: 0, max: 40 }), { minLength: path.length, maxLength: path.length }),
  fc.constantFrom('', '', '', '/', '?a=1', '#f', ';j', '%2f', '/.', '%')
).map(([before, choices, after]) => before + [...path].map((letter, index) => {
  const hex = Buffer.from(letter).toString('hex').replace(/../g, '%$&')
  const choice = choices[index]
  if (choice === 0 || letter > '~' || letter <= ' ') return hex
  if (choice === 1) return letter.toUpperCase()
  if (choice === 2 && letter === '/') return '//'
  return letter
}).join('') + after)

const cases = fc.record({ routes, operations, prefix, routerOptions }).chain((table) => {
  const spellable = [...table.routes, ...Array.from({ length: 8 }, () => table.operations).flat()].map(({ method, path }) => ({ method, path: path.replace(/:id\(.*?\)|:\w+/g, '7').replace('*', 'analyze') }))
  const request = fc.constantFrom(...spellable).chain(({ method, path }) => respelled((table.prefix ?? '') + path).map((target) => ({ method, target })))
  return fc.array(request, { minLength: 40, maxLength: 40 }).map((requests) => ({ ...table, requests }))
})

function declare (app: FastifyInstance, declared: readonly { method: string, path: string }[]): void {
  for (const { method, path } of declared) {
    try {
      app.route({ method, url: path, exposeHeadRoute: false, handler: async ({ routeOptions }) => `matched ${routeOptions.url}` })
    } catch {
      // The router treats two of the random routes as equal, or does not accept one.
    }
  }
}

async function build (routerOptions: object, prefix: string | undefined, declared: readonly { method: string, path: string }[], guard?: Parameters<typeof quotaPlugin>[1]): Promise<{ app: FastifyInstance, port: number }> {
  const app = Fastify({ routerOptions })
  if (guard !== undefined) await app.register(quotaPlugin, { ...guard, ...(prefix !== undefined && { prefix }) })
  await app.register(async (scope) => { declare(scope, declared) }, prefix === undefined ? {} : { prefix })
  return { app, port: await listen(app) }
}

function readsAsOneOf (operations: readonly { path: string }[], prefix = '', target: string, options: { caseSensitive: boolean, useSemicolonDelimiter: boolean }): boolean {
  const readings = readInFull(target, options)
  const inCase = (path: string) => options.caseSensitive ? path : path.toLowerCase()
  return operations.some(({ path }) => readings.includes(inCase((prefix + path).replace(/(.)\/$/, '$1'))))
}

t.test('exactly the requests that match an operation, or could be read as one, are subject to the quota in random route tables', async (t) => {
  let subjects = 0
  let all = 0
  await assertProperty(fc.asyncProperty(cases, async ({ routes, operations, prefix, routerOptions, requests }) => {
    const subjectTo = (method: string) => operations.filter((operation) => operation.method === method)
    const guarded = await build(routerOptions, prefix, routes, { operations })
    const open = await build(routerOptions, prefix, routes)
    const alone = new Map(await Promise.all(methods.map(async (method) => [method, await build(routerOptions, undefined, subjectTo(method).map(({ path }) => ({ method, path: (prefix ?? '') + path })))] as const)))
    try {
      for (const request of requests) {
        const [guardedAnswer, openAnswer, aloneAnswer] = await Promise.all([guarded.port, open.port, alone.get(request.method)?.port ?? 0].map(async (port) => (await sendRaw(port, [request]))[0]))
        const pattern = /^matched (.*)$/.exec(openAnswer?.body ?? '')?.[1]
        const subject = aloneAnswer?.body.startsWith('matched') === true || (pattern !== undefined && subjectTo(request.method).some(({ path }) => (prefix ?? '') + path === pattern))
        const literal = pattern !== undefined && /^([^:*]|::)*$/.test(pattern)
        const couldBeRead = !literal && openAnswer?.status !== 400 && readsAsOneOf(subjectTo(request.method), prefix, request.target, routerOptions)
        if (!literal && isReadBroadly(request.target) && guardedAnswer?.status === 401) continue
        all++
        if (subject) subjects++
        const expected = subject || couldBeRead ? 401 : openAnswer?.status
        if (guardedAnswer?.status !== expected) throw new Error(`${request.method} ${request.target}: ${guardedAnswer?.status} instead of ${expected}`)
      }
    } finally {
      await Promise.all([guarded, open, ...alone.values()].map(({ app }) => app.close()))
    }
  }), { numRuns: 120, endOnFailure: true })
  t.comment(`${subjects} of ${all} requests were subject to the quota`)
  t.ok(subjects > all / 10, 'enough requests were subject to the quota for the test to be meaningful')
})
