// With `useSemicolonDelimiter`, the router ends the path at a semicolon, but a handler that uses `new URL(request.url, base)` does not. These
// spellings reached the operation behind a wildcard without being counted.
import Fastify from 'fastify'
import t from 'tap'
import quotaPlugin from '../../lib/index.js'
import { listen, sendRaw } from '../support/raw-socket.js'

for (const useSemicolonDelimiter of [true, false]) {
  t.test(`a path with a semicolon is read as a handler can read it, if useSemicolonDelimiter is ${useSemicolonDelimiter}`, async (t) => {
    const app = Fastify({ useSemicolonDelimiter })
    await app.register(quotaPlugin)
    app.post('/*', async () => 'ran')
    t.teardown(() => app.close())
    const port = await listen(app)
    const statusOf = async (target: string): Promise<unknown> => (await sendRaw(port, [{ method: 'POST', target }]))[0]?.status
    for (const target of ['/x;/../api/analyze', '/api/x;/../analyze', '/api/x;/%2e%2e/analyze', '//any;b/api/analyze', '/;x/../api/analyze']) {
      t.equal(await statusOf(target), 401, target)
    }
    t.equal(await statusOf('/api/analyze;x'), useSemicolonDelimiter ? 401 : 200)
    for (const target of ['/x;/api/analyze', '/api;/analyze', '/api/analyze/x;/..;']) t.equal(await statusOf(target), 200, target)
  })
}
