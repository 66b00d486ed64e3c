// docs/rules.md, "Waiting": what a request waits for, how long, and how its wait ends. In virtual
// time; callers who leave are tested with real sockets, in leaving.test.ts.
import { setImmediate as turn } from 'node:timers/promises'
import t, { type Test } from 'tap'
import {
  localAuthentication,
  type QuotaDefinition,
  type QuotaOptions
} from '../../lib/index.js'
import { createWaitingHost } from '../support/waiting-host.js'
import { until } from '../support/until.js'

type Quotas = NonNullable<QuotaOptions['quotas']>

const service = () => localAuthentication('service')
/** Places of the whole service, for which its callers wait. */
const slots = (places: number, wait: QuotaDefinition['wait']): QuotaDefinition => ({
  concurrent: places,
  authentication: service,
  wait
})

t.test('a request waits for a place, and runs when one is free', async (t) => {
  const { time, run, queue, decisions, waiting, seconds } = await createWaitingHost(t, {
    slots: slots(1, 1000)
  })
  const first = await run('alice')
  const second = await queue('bob')
  time.advance(200)
  first.finish()
  t.equal((await first.response).statusCode, 200)
  await until('the second runs', () => waiting() === 0)
  t.match(decisions, [
    { outcome: 'admitted', waited: 0 },
    { outcome: 'admitted', waited: 200, count: 1 }
  ])
  t.equal(decisions.length, 2)
  t.same(seconds, [0.2])
  t.ok(second)
})

t.test('the last decision refuses a request whose time is over, and it alone is published', async (t) => {
  const { time, run, queue, decisions } = await createWaitingHost(t, { slots: slots(1, 1200) })
  await run('alice')
  const { response } = await queue('bob')
  for (let step = 0; step < 12; step++) {
    time.advance(100)
    await turn()
  }
  const { statusCode, headers, body } = await response
  t.equal(statusCode, 429)
  t.equal(headers['retry-after'], '1')
  t.match(body, /Maximum 1 concurrent LLM requests\. Please wait\./)
  t.match(decisions.slice(1), [{ outcome: 'rejected', waited: 1200, retryAfter: 1 }])
  t.equal(decisions.length, 2)
})
