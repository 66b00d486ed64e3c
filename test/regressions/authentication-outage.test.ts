// An `authentication` that failed because the host's own session store was down answered the request with 401, which makes clients log out.
import t from 'tap'
import type { AuthenticationReader } from '../../lib/index.js'
import { analyze, captureLog, createService } from '../support/service.js'

function failure (statusCode: unknown): Error {
  return Object.assign(new Error('the session store failed'), { statusCode })
}

for (const [statusCode, status] of [[503, 503], [500, 503], [599, 503], ['503', 503], [499, 401], [401, 401], [undefined, 401]] as const) {
  t.test(`an authentication that fails with the statusCode ${statusCode} results in ${status}, and in shadow mode in none`, async (t) => {
    const ways: AuthenticationReader[] = [() => { throw failure(statusCode) }, async () => { throw failure(statusCode) }]
    for (const authentication of ways) {
      for (const mode of ['enforce', 'shadow'] as const) {
        const log = captureLog()
        const app = await createService({ mode, authentication }, { logger: log.logger })
        const outcomes: unknown[] = []
        app.addHook('onSend', async ({ quota }) => { outcomes.push([quota?.outcome, quota?.reason, quota?.callerKey, quota?.count]) })
        const response = await analyze(app, null)
        t.equal(response.statusCode, mode === 'shadow' ? 200 : status)
        if (mode === 'enforce' && status === 503) t.match([response.json(), response.headers['retry-after']], [{ error: 'The request quota is unavailable. Please try again.', status: 503 }, '1'])
        t.same(outcomes, [status === 503 ? ['unavailable', null, null, null] : ['unauthenticated', 'no-authentication', null, null]])
        t.match(log.lines.filter(({ level }) => level === 50), [{ msg: /^the authentication of the request could not be read/, err: { message: 'the session store failed' } }])
      }
    }
  })
}

t.test('the standing of a caller is unknown while the authentication is down', async (t) => {
  const app = await createService({ authentication: () => { throw failure(503) } })
  app.get('/standing', async (request) => app.quotaStanding(request))
  t.match((await app.inject('/standing')).json(), { statusCode: 503, code: 'FST_ERR_LLM_QUOTA_STANDING' })
})
