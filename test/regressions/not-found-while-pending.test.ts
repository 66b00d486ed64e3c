// A `reply.callNotFound()` from a timer or an error handler while the decision was pending served a request that the store then rejected.
import Fastify, { type FastifyInstance } from 'fastify'
import t from 'tap'
import quotaPlugin, { localAuthentication, type QuotaStore } from '../../lib/index.js'

const ways: Record<string, (app: FastifyInstance) => void> = {
  'a timer': (app) => {
    app.addHook('preValidation', async (_request, reply) => { setImmediate(() => { reply.callNotFound() }) })
  },
  'an error handler': (app) => {
    app.setErrorHandler((_error, _request, reply) => { reply.callNotFound() })
    app.addHook('preValidation', async (_request, reply) => { setImmediate(() => { reply.send(new Error('of the host')) }) })
  }
}

for (const [way, prepare] of Object.entries(ways)) {
  for (const admitted of [false, true]) {
    t.test(`callNotFound in ${way} while the decision is pending ${admitted ? 'serves a request that the store admits' : 'does not serve a request that the store rejects'}`, async (t) => {
      const app: FastifyInstance = Fastify()
      let decide = (): void => {}
      const store: QuotaStore = { acquire: () => new Promise((resolve) => { decide = () => { resolve({ admitted, count: 1, windowRemaining: 5_000, overflow: false }) } }) }
      const ran: string[] = []
      prepare(app)
      await app.register(quotaPlugin, { store, authentication: () => localAuthentication('alice') })
      app.setNotFoundHandler(async (_request, reply) => { ran.push('not found'); return reply.code(404).send('lost') })
      app.post('/api/analyze', async () => { ran.push('handler'); return 'ran' })
      const response = app.inject({ method: 'POST', url: '/api/analyze' })
      for (let turn = 0; turn < 10; turn++) await new Promise(setImmediate)
      t.same(ran, [], 'nothing runs before the decision')
      decide()
      const { statusCode } = await response
      if (!admitted) {
        t.equal(statusCode, 429)
        t.same(ran, [])
      } else {
        t.ok(ran.length > 0)
      }
    })
  }
}
