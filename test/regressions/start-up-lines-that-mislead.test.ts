// The log said that no route serves an operation `/` that was counted, and that a quota with a limit of 0 "protects"; of a quota that
// protects nothing because its plugin file is encapsulated, it said nothing that leads to the cause.
import Fastify, { type FastifyInstance } from 'fastify'
import t from 'tap'
import quotaPlugin, { type QuotaOptions } from '../../lib/index.js'
import { captureLog } from '../support/service.js'

async function logOf (options: QuotaOptions, declare: (app: FastifyInstance) => void, { prefix = '', wrap = false } = {}) {
  const log = captureLog()
  const app = Fastify({ logger: log.logger })
  await app.register(async (scope) => {
    if (wrap) await scope.register(async (file) => { await file.register(quotaPlugin, options) })
    else await scope.register(quotaPlugin, options)
    declare(scope)
  }, { prefix })
  await app.ready()
  return { log, app }
}

t.test('the operation / of a scope with a prefix is counted, and no warning says that no route serves it', async (t) => {
  for (const prefix of ['/context', '/:tenant']) {
    const { log, app } = await logOf({ operations: [{ method: 'POST', path: '/' }] }, (scope) => { scope.post('/', async () => 'ran') }, { prefix })
    t.same([(await app.inject({ method: 'POST', url: '/context' })).statusCode, (await app.inject({ method: 'POST', url: '/context/' })).statusCode], [401, 401], prefix)
    t.same(log.warnings(), [], prefix)
  }
})

t.test('a quota with a limit of 0 is disabled, and does not protect', async (t) => {
  const { log } = await logOf({ perMinute: 0 }, (scope) => { scope.post('/api/analyze', async () => 'ran') })
  t.match(log.lines[0], { level: 30, msg: /^the quota "default" \(per-minute 0\) is disabled, and would protect POST / })
})

t.test('one warning names encapsulation and fastify-plugin if the plugin is registered in a scope of its own', async (t) => {
  const { log } = await logOf({}, (scope) => { scope.post('/api/analyze', async () => 'ran') }, { wrap: true })
  t.match(log.warnings(), [/^the quota "default" protects nothing: no route serves POST \/api\/analyze \(its route is outside the scope .*must be wrapped with fastify-plugin.*\(encapsulation\)/])
  t.equal(log.warnings().length, 1)
})
