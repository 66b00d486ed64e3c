// A 401 had no reason: a token without an issuer, which @fastify/jwt does not add by default, looked like a missing token.
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import t from 'tap'
import {
  anonymousAuthentication, localAuthentication, quotaDecisions, tokenAuthentication, type Authentication, type QuotaDecision, type QuotaDecisionMessage
} from '../../lib/index.js'
import { analyze, captureLog, createService, issuer } from '../support/service.js'

const reasons: [Authentication | null | undefined, QuotaDecision['reason']][] = [
  [null, 'no-authentication'],
  [undefined, 'no-authentication'],
  [tokenAuthentication({ iss: issuer, sub: 'alice' }, { authenticated: false }), 'not-authenticated'],
  [localAuthentication('alice', { authenticated: false }), 'not-authenticated'],
  [anonymousAuthentication(), 'anonymous'],
  [{ kind: 'anonymous', authenticated: false }, 'not-authenticated'],
  [tokenAuthentication({ sub: 'alice' }), 'no-issuer'],
  [tokenAuthentication({}), 'no-issuer'],
  [tokenAuthentication(null), 'no-issuer'],
  [tokenAuthentication({ iss: ' ', sub: 'alice' }), 'no-issuer'],
  [tokenAuthentication({ iss: 5, sub: 'alice' }), 'no-issuer'],
  [tokenAuthentication({ iss: issuer }), 'no-subject'],
  [tokenAuthentication({ iss: issuer, sub: '\t' }), 'no-subject'],
  [localAuthentication(''), 'no-username'],
  [localAuthentication('a\0b'), 'no-username'],
  [localAuthentication('\ud800'), 'no-username'],
  [tokenAuthentication({ iss: issuer, sub: 'alice' }), null],
  [localAuthentication('alice'), null]
]

async function decisionFor (authentication: Authentication | null | undefined): Promise<QuotaDecision | undefined> {
  const decisions: QuotaDecision[] = []
  const note = (message: unknown): void => { decisions.push((message as QuotaDecisionMessage).decision) }
  const app = await createService({ authentication: () => authentication })
  subscribe(quotaDecisions.name, note)
  await analyze(app, null)
  unsubscribe(quotaDecisions.name, note)
  return decisions[0]
}

t.test('a decision contains the reason why there is no caller', async (t) => {
  for (const [authentication, reason] of reasons) {
    t.match(await decisionFor(authentication), { outcome: reason === null ? 'admitted' : 'unauthenticated', reason }, JSON.stringify(authentication))
  }
})

t.test('the reason is derived from request.user if the option authentication is not set', async (t) => {
  for (const [user, reason] of [[undefined, 'no-authentication'], [null, 'no-authentication'], [{ sub: 'alice' }, 'no-issuer'], ['alice', 'no-issuer'], [localAuthentication(' '), 'no-username']]) {
    const app = await createService()
    app.addHook('onRequest', async (request) => { Object.assign(request, { user }) })
    const seen: unknown[] = []
    app.addHook('onSend', async (request) => { seen.push(request.quota?.reason) })
    await analyze(app, null)
    t.same(seen, [reason])
  }
})

t.test('only mistakes of the host are logged as warnings, once for each reason', async (t) => {
  const log = captureLog('debug')
  let authentication: Authentication | null | undefined
  const app = await createService({ authentication: () => authentication }, { logger: log.logger })
  for (let round = 0; round < 2; round++) {
    for (const [each] of reasons) {
      authentication = each
      await analyze(app, null)
    }
  }
  const warned = log.lines.filter(({ level, reason }) => level === 40 && reason !== undefined)
  t.match(warned, [
    { reason: 'no-issuer', quota: 'default', operation: { path: '/api/analyze' }, msg: /no issuer: sign tokens with the claim iss/ },
    { reason: 'no-subject', msg: /no subject: sign tokens with the claim sub/ },
    { reason: 'no-username', msg: /localAuthentication/ }
  ])
  t.equal(warned.length, 3)
  t.equal(log.lines.filter(({ level, reason }) => level === 20 && reason != null).length, 2 * reasons.filter(([, reason]) => reason !== null).length, 'each 401 is logged at debug')
  t.notMatch(JSON.stringify(log.lines), 'alice', 'the log contains no identity')
})
