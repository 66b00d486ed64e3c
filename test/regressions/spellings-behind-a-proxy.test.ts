// A proxy on the same instance forwards a path that the server behind it can read differently. These spellings reached the operation
// without being counted.
import httpProxy from '@fastify/http-proxy'
import Fastify, { type FastifyInstance } from 'fastify'
import t, { type Test } from 'tap'
import quotaPlugin from '../../lib/index.js'
import { listen, sendRaw } from '../support/raw-socket.js'

/** Starts a server that has the operation, and reads paths as many servers do: decoded, with dot segments resolved and slashes merged. */
async function startUpstream (t: Test): Promise<string> {
  const upstream = Fastify()
  upstream.all('/*', async ({ url }) => {
    const [path = ''] = url.split('?')
    const { pathname } = new URL(`http://any${decodeURIComponent(path)}`)
    return pathname.replace(/\/\/+/g, '/').replace(/\/$/, '') === '/api/analyze' ? 'reached' : 'elsewhere'
  })
  t.teardown(() => upstream.close())
  return `http://127.0.0.1:${await listen(upstream)}`
}

// Three ways to the same upstream: two proxies with different prefixes, and one that a host wrote itself.
async function startProxies (t: Test, isGuarded: boolean): Promise<number> {
  const upstream = await startUpstream(t)
  const app: FastifyInstance = Fastify()
  if (isGuarded) await app.register(quotaPlugin, { operations: ['/api/analyze', '/one/api/analyze', '/two/analyze', '/own/api/analyze'].map((path) => ({ method: 'POST', path })) })
  await app.register(httpProxy, { upstream, prefix: '/api', rewritePrefix: '/api' })
  await app.register(httpProxy, { upstream, prefix: '/one' })
  await app.register(httpProxy, { upstream, prefix: '/two', rewritePrefix: '/api' })
  app.post('/own/*', async (request) => {
    const response = await fetch(upstream + request.url.slice('/own'.length))
    return response.text()
  })
  t.teardown(() => app.close())
  return listen(app)
}

const spellings = [
  '/api/analyze', '/api/./analyze', '/api/%2e/analyze', '/api\\analyze', '/api/\\analyze', '/api//analyze', '/api/analyze/', '/api/%61nalyze', '/api/%2fanalyze',
  '/api%2fanalyze', '/api%5canalyze', '/api/x/../analyze', '/api/x/%2e%2e/analyze', '/api/x/.%2E/analyze', '/api/x\\..\\analyze', '/api//../api/analyze', '/api/%2e/../analyze',
  '/api/x%2fy/../analyze', '/api/../api/analyze', '/x%2fy/../api/analyze', '/api/%61nalyze?x', '/api/./analyze#x', '/api/analyze%3fx', '/api/analyze%20', '/api/%252e/analyze', '/api/%09analyze'
]

const targets = spellings.flatMap((spelling) => [
  spelling, `/one${spelling}`, `/one/.${spelling}`, `/%6fne/..${spelling}`, `/one/..${spelling}`, spelling.replace(/^\/api/, '/two'), spelling.replace(/^\/api/, '/%74wo'),
  `/two/..${spelling}`, `/%74wo/..${spelling}`, `/own${spelling}`, `/own/..${spelling}`, `http://any/own${spelling}`
])

t.test('every spelling that reaches the operation through a proxy is counted', async (t) => {
  const [guarded, open] = [await startProxies(t, true), await startProxies(t, false)]
  const reached = []
  const uncounted = []
  for (const target of targets) {
    const request = [{ method: 'POST', target }]
    const [[guardedAnswer], [openAnswer]] = await Promise.all([sendRaw(guarded, request), sendRaw(open, request)])
    if (openAnswer?.body !== 'reached') continue
    reached.push(target)
    if (guardedAnswer?.status !== 401) uncounted.push(target)
  }
  t.same(uncounted, [])
  t.ok(reached.length > 60, `${reached.length} spellings reached the operation`)
})

t.test('other paths through a proxy are not counted', async (t) => {
  const guarded = await startProxies(t, true)
  for (const target of ['/api/other', '/api/analyze/x', '/api/./analyzer', '/one/analyze', '/two/api/analyze', '/two/%2e/api/analyze', '/own/%61nalyze', '/api/analyze/../other']) {
    t.not((await sendRaw(guarded, [{ method: 'POST', target }]))[0]?.status, 401, target)
  }
})
