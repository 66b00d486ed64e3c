// If a standing could not be read, the caller got the error message of the store's client.
import Fastify from 'fastify'
import t from 'tap'
import quotaPlugin, { localAuthentication, MemoryQuotaStore, type QuotaStore } from '../../lib/index.js'
import { captureLog } from '../support/service.js'

t.test('the answer contains nothing of an error of the store, and the log only its name, code and message', async (t) => {
  const memory = new MemoryQuotaStore()
  const store: QuotaStore = {
    acquire: (callerKey, limit) => memory.acquire(callerKey, limit),
    async peek () { throw Object.assign(new Error('WRONGPASS at redis.internal'), { code: 'EAUTH', command: { args: ['AUTH', 'hunter2'] } }) }
  }
  const log = captureLog()
  const app = Fastify({ logger: log.logger })
  await app.register(quotaPlugin, { store, authentication: () => localAuthentication('alice') })
  app.post('/api/analyze', async () => 'ran')
  app.get('/api/quota', async (request) => app.quotaStanding(request))
  const { statusCode, payload } = await app.inject('/api/quota')
  t.equal(statusCode, 503)
  t.notMatch(payload, /WRONGPASS|redis\.internal|hunter2/)
  t.notMatch(JSON.stringify(log.lines), 'hunter2')
  t.match(log.lines.find(({ msg }) => String(msg).startsWith('the quota store failed')), { err: { code: 'EAUTH', message: 'WRONGPASS at redis.internal' } })
})
