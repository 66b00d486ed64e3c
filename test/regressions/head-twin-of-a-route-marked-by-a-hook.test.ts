// The `HEAD` twin of a `GET` route that an `onRoute` hook marked ran the handler uncounted, and no warning said so.
import Fastify, { type FastifyInstance } from 'fastify'
import t from 'tap'
import quotaPlugin from '../../lib/index.js'
import { captureLog } from '../support/service.js'

for (const order of ['before', 'after']) {
  for (const marked of ['the GET route alone', 'both routes']) {
    t.test(`the HEAD twin is subject to the quota or a warning names it, if a hook added ${order} the plugin marks ${marked}`, async (t) => {
      const log = captureLog()
      const app: FastifyInstance = Fastify({ logger: log.logger })
      const mark = () => app.addHook('onRoute', (route) => {
        if (marked === 'both routes' || route.method === 'GET') route.config = { ...route.config, quota: true }
      })
      if (order === 'before') mark()
      await app.register(quotaPlugin, { operations: [] })
      if (order === 'after') mark()
      app.get('/v1/models/:model', async () => 'ran')
      await app.ready()
      const statusOf = async (method: 'GET' | 'HEAD') => (await app.inject({ method, url: '/v1/models/a' })).statusCode
      t.equal(await statusOf('GET'), 401)
      const isWarned = log.warnings().some((warning) => warning.startsWith('HEAD /v1/models/:model runs the handler of the protected GET'))
      t.equal(await statusOf('HEAD') === 401, !isWarned)
    })
  }
}
