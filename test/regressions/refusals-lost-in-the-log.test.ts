// A host with a log level of its own did not see the line of a refusal; shadow rejections, the overflow counter and requests whose credentials
// nobody had verified left no line at all.
import Fastify from 'fastify'
import t from 'tap'
import quotaPlugin, { localAuthentication, MemoryQuotaStore, type QuotaOptions } from '../../lib/index.js'
import { alice, analyze, captureLog, createService } from '../support/service.js'

async function linesOf (options: QuotaOptions, requests: object[], logger: object = {}) {
  const log = captureLog('debug')
  const app = await createService({ authentication: ({ headers }) => headers['x-caller'] === undefined ? null : localAuthentication(String(headers['x-caller'])), ...options }, { logger: { ...log.logger, ...logger } })
  for (const headers of requests) await app.inject({ method: 'POST', url: '/api/analyze', headers: { ...headers } })
  return log
}

t.test('a refusal is logged at debug if the host has a log level of its own below it', async (t) => {
  const { lines } = await linesOf({}, [{}], { level: 'loud', customLevels: { loud: 15 } })
  t.match(lines.filter(({ msg }) => msg === 'the quota refuses the request'), [{ level: 20, outcome: 'unauthenticated' }])
})

t.test('a rejection in shadow mode is logged like any other, with limit, count and overflow', async (t) => {
  for (const [mode, msg] of [['enforce', 'the quota refuses the request'], ['shadow', 'the quota would refuse the request']] as const) {
    const { lines } = await linesOf({ mode, perMinute: 1 }, [{ 'x-caller': 'a' }, { 'x-caller': 'a' }])
    t.match(lines.filter((line) => line.outcome !== undefined), [{ level: 20, msg, outcome: 'rejected', limit: 1, count: 1, overflow: false, enforced: mode === 'enforce' }])
  }
})

t.test('the first use of the overflow counter causes one warning', async (t) => {
  const log = await linesOf({ store: new MemoryQuotaStore({ maxTrackedCallers: 2 }) }, ['a', 'b', 'a', 'c', 'd', 'c'].map((caller) => ({ 'x-caller': caller })))
  t.match(log.lines.filter(({ level, msg }) => level === 40 && /overflow/.test(String(msg))), [{ quota: 'default', msg: /maxTrackedCallers.*this warning is not repeated$/ }])
  t.equal(log.warnings().length, 1)
})

t.test('a request with credentials that nobody has verified causes one warning, and one without credentials none', async (t) => {
  for (const [headers, count] of [[{ authorization: 'Basic YTpi' }, 1], [{ cookie: 'session=1' }, 1], [{}, 0]] as const) {
    const log = captureLog()
    const app = Fastify({ logger: log.logger })
    await app.register(quotaPlugin)
    app.post('/api/analyze', async () => 'ran')
    for (let request = 0; request < 2; request++) t.equal((await app.inject({ method: 'POST', url: '/api/analyze', headers })).statusCode, 401)
    const warnings = log.lines.filter(({ level, reason }) => level === 40 && reason === 'no-authentication')
    t.equal(warnings.length, count, JSON.stringify(headers))
    if (count === 1) t.match(warnings, [{ quota: 'default', operation: { path: '/api/analyze' }, msg: /carries credentials.*verify them in onRequest or preValidation/ }])
  }
})

t.test('an admitted request leaves no line of the quota', async (t) => {
  const log = captureLog('debug')
  const app = await createService({}, { logger: log.logger })
  await analyze(app, alice)
  t.same(log.lines.filter(({ msg }) => /the quota (would )?refuse/.test(String(msg))), [])
})
