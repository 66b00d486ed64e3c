// A host's `rewriteUrl` can decode the target, which can then contain spaces and control characters. `new URL` removes these, so such a target
// reached the operation behind a wildcard without being counted.
import Fastify from 'fastify'
import t from 'tap'
import quotaPlugin from '../../lib/index.js'

t.test('spaces and control characters in a decoded target do not bypass the quota', async (t) => {
  const app = Fastify({ rewriteUrl: ({ url = '' }) => decodeURI(url) })
  await app.register(quotaPlugin)
  app.post('/*', async ({ url }) => new URL(url, 'http://host').pathname)
  const ask = (url: string) => app.inject({ method: 'POST', url })
  for (const url of ['/api/ana%09lyze', '/api/analyze%20', '/api/analyze%0a', '/%09/any/api/analyze', '/api/analyze%01']) {
    t.equal((await ask(url)).statusCode, 401, url)
  }
  t.equal((await ask('/api/other%20')).body, '/api/other')
})
