// Host code that got the decision could change the refusal, or turn it into an admission.
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import t from 'tap'
import { quotaDecisions } from '../../lib/index.js'
import { alice, analyze, createService } from '../support/service.js'

function admit (decision: object): void {
  Object.assign(decision, { outcome: 'unauthenticated', enforced: false })
}

t.test('a refusalBody that changes the decision does not admit the request', async (t) => {
  const app = await createService({
    perMinute: 1,
    refusalBody (decision) {
      admit(decision)
      return { contentType: 'text/plain', body: 'no' }
    }
  })
  await analyze(app, alice)
  const rejected = await analyze(app, alice)
  t.equal(rejected.statusCode, 429)
  t.equal(rejected.headers['retry-after'], '60')
})

t.test('a subscriber that changes the decision does not admit the request', async (t) => {
  const change = (message: unknown): void => {
    const { decision } = Object(message)
    if (decision.outcome === 'rejected') Object.assign(decision, { enforced: false })
  }
  subscribe(quotaDecisions.name, change)
  t.teardown(() => { unsubscribe(quotaDecisions.name, change) })
  const app = await createService({ perMinute: 1 })
  t.equal((await analyze(app, alice)).statusCode, 200)
  t.equal((await analyze(app, alice)).statusCode, 429)
})
