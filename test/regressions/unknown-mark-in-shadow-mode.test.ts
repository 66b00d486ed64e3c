// In shadow mode, a route that was declared before the plugin with a mark that names no quota was answered with 500.
import Fastify from 'fastify'
import t from 'tap'
import quotaPlugin from '../../lib/index.js'
import { captureLog } from '../support/service.js'

for (const [mode, status] of [['shadow', 200], ['enforce', 503]] as const) {
  t.test(`a route whose mark names no quota answers with ${status} if the mode is ${mode}, and the mistake is logged`, async (t) => {
    const log = captureLog()
    const app = Fastify({ logger: log.logger })
    app.post('/marked', { config: { quota: 'chatt' } }, async () => 'ran')
    await app.register(quotaPlugin, { mode })
    for (let request = 0; request < 2; request++) t.equal((await app.inject({ method: 'POST', url: '/marked' })).statusCode, status)
    t.match(log.lines.filter(({ level }) => level === 50), [{ err: { code: 'FST_ERR_LLM_QUOTA_UNKNOWN_QUOTA', message: /POST \/marked .*it got "chatt"$/ } }, {}])
  })
}
