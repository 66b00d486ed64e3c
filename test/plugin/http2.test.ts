// The quota in a server with HTTP/2.
import { connect, type ClientHttp2Session } from 'node:http2'
import Fastify from 'fastify'
import t from 'tap'
import quotaPlugin, { localAuthentication } from '../../lib/index.js'

function status (session: ClientHttp2Session, method: string, path: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const stream = session.request({ ':method': method, ':path': path })
    stream.on('response', (headers) => { resolve(Number(headers[':status'])) })
    stream.on('error', reject)
    stream.resume()
    stream.end()
  })
}

t.test('the quota applies to HTTP/2 requests', async (t) => {
  const app = Fastify({ http2: true })
  await app.register(quotaPlugin, { perMinute: 2, authentication: (request) => request.headers['x-nobody'] === undefined ? localAuthentication('alice') : null })
  app.post('/api/analyze', async () => 'ran')
  app.get('/api/other', async () => 'ran')
  const address = await app.listen({ port: 0, host: '127.0.0.1' })
  const session = connect(address)
  t.teardown(async () => {
    session.close()
    await app.close()
  })

  t.same([await status(session, 'POST', '/api/analyze'), await status(session, 'POST', '/api/%61nalyze?x'), await status(session, 'POST', '/api/analyze')], [200, 200, 429])
  t.equal(await status(session, 'GET', '/api/other'), 200)
  t.same(await Promise.all(['/api%2Fanalyze', '/api\\analyze', '/%61pi/./analyze'].map((path) => status(session, 'POST', path))), [429, 429, 429], 'paths that no route matches and that could be read as the operation are counted')
  t.same(await Promise.all(Array.from({ length: 20 }, () => status(session, 'POST', '/api/analyze'))), Array(20).fill(429), 'concurrent streams of one connection are counted')
})
