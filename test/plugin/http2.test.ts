// The quota in a server with HTTP/2.
import { once } from 'node:events'
import { connect } from 'node:http2'
import Fastify from 'fastify'
import t from 'tap'
import quotaPlugin from '../../lib/index.js'
import { asAlice } from '../support/service.js'

t.test('the quota applies to HTTP/2 requests', async (t) => {
  const app = Fastify({ http2: true })
  await app.register(quotaPlugin, { perMinute: 2, authentication: asAlice, rateLimitHeaders: 'draft-10' })
  app.post('/api/analyze', async () => 'ran')
  app.get('/api/other', async () => 'ran')
  const session = connect(await app.listen({ port: 0, host: '127.0.0.1' }))
  t.teardown(async () => {
    session.close()
    await app.close()
  })
  const ask = async (path: string, method = 'POST') => {
    const stream = session.request({ ':method': method, ':path': path })
    stream.end()
    const [headers] = await once(stream, 'response')
    stream.resume()
    return [headers[':status'], headers.ratelimit?.replace(/;t=\d+$/, '')]
  }

  const rejected = [429, '"default";r=0']
  t.same([await ask('/api/analyze'), await ask('/api/%61nalyze?x'), await ask('/api/analyze')], [[200, '"default";r=1'], [200, '"default";r=0'], rejected])
  t.same([await ask('/api/other', 'GET'), await ask('/other/analyze')], [[200, undefined], [404, undefined]])
  t.same(await ask('/api%2Fanalyze'), rejected, 'a path that no route matches and that could be read as the operation is counted')
})
