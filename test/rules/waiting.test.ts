// docs/rules.md, "Waiting": what a request waits for, and how long. In virtual time. Who is next is
// in line.test.ts; the other ends of a wait are in ends-of-waits.test.ts and leaving.test.ts.
import { Registry } from 'prom-client'
import t from 'tap'
import { callerKey, localAuthentication } from '../../lib/index.js'
import { quotaMetricsPlugin } from '../../lib/metrics.js'
import { assertQuotaOptions } from '../../lib/start/plugin-checks.js'
import { Gate } from '../support/gate.js'
import { matchExactly } from '../support/match-exactly.js'
import { until } from '../support/until.js'
import { createWaitingServer, pass, service, slots } from '../support/waiting-server.js'

const alice = localAuthentication('alice')

t.test('a request waits for a place, and runs when one is free', async (t) => {
  const host = await createWaitingServer(t, { slots: slots(1, 1000) })
  const first = await host.run('alice')
  const second = await host.queue('bob')
  host.time.advance(200)
  first.finish()
  t.equal((await first.response).statusCode, 200)
  await until('the second request runs', () => host.running.length === 2)
  matchExactly(t, host.decisions, [
    { outcome: 'admitted', waited: 0 },
    { outcome: 'admitted', waited: 200, count: 1 }
  ])
  t.same(host.seconds, [0.2])
  host.running[1]?.finish()
  t.equal((await second.response).statusCode, 200)
})

t.test('a request waits beside quotas that are off or in shadow mode', async (t) => {
  const host = await createWaitingServer(t, {
    off: { perDay: 0 },
    observed: { perDay: 9, mode: 'shadow' },
    calls: { perDay: 9 },
    slots: slots(1, 1000)
  })
  const first = await host.run('alice')
  await host.queue('bob')
  await host.queue('carol')
  t.equal((await host.ask('')).statusCode, 401, 'nobody waits without a caller')
  first.finish()
  await until('the second request runs', () => host.running.length === 2)
  t.same(
    host.running[1]?.request.quota.decisions.map(({ quota, outcome }) => [quota, outcome]),
    [['off', 'disabled'], ['observed', 'admitted'], ['calls', 'admitted'], ['slots', 'admitted']]
  )
})

t.test('a request is refused by the last decision, the only one that is published', async (t) => {
  const host = await createWaitingServer(t, { slots: slots(1, 1200) })
  await host.run('alice')
  const { response } = await host.queue('bob')
  host.asked.length = 0
  await pass(host.time, 1200)
  const { statusCode, headers, body } = await response
  t.equal(host.asked.length, 2, 'it asks every 500 ms')
  t.equal(statusCode, 429)
  t.equal(headers['retry-after'], '1')
  t.match(body, /Maximum 1 concurrent LLM requests\. Please wait\./)
  matchExactly(t, host.decisions.slice(1), [
    { outcome: 'rejected', waited: 1200, retryAfter: 1 }
  ])
  t.equal(host.waiting(), 0)
})

t.test('a request waits for the next window if that opens in time', async (t) => {
  const host = await createWaitingServer(t, { calls: { perMinute: 1, wait: 30_000 } })
  await host.run()
  host.time.advance(20_000)
  t.match(await host.ask(), { statusCode: 429, headers: { 'retry-after': '40' } })
  host.time.advance(20_000)
  await host.queue()
  await pass(host.time, 20_000, 1000)
  await until('the request runs', () => host.running.length === 2)
  t.same(
    host.decisions.map(({ outcome, waited }) => [outcome, waited]),
    [['admitted', 0], ['rejected', 0], ['admitted', 20_000]]
  )
})

t.test('a wait begins when its request arrives, however long its store takes', async (t) => {
  const gate = new Gate()
  const quotas = { calls: { perMinute: 1, wait: 30_000 } }
  const host = await createWaitingServer(t, quotas, { wrap: gate.wrap })
  await host.run()
  host.time.advance(20_000)
  gate.close()
  const response = host.ask()
  await until('the store is asked', () => gate.asking === 1)
  host.time.advance(12_000)
  gate.open()
  // The window ends in less than 30 s, but 12 s of them are over.
  t.match(await response, { statusCode: 429, headers: { 'retry-after': '28' } })
  t.same(host.seconds, [], 'it has not waited')
})

t.test('a request waits for the next day of a time zone, which is worked out anew', async (t) => {
  const host = await createWaitingServer(t, {
    calls: { perDay: 1, timeZone: 'UTC', wait: 60_000 }
  })
  const midnight = 86_400_000
  host.time.advance(midnight - (Date.now() % midnight) - 30_000)
  await host.run()
  await host.queue()
  await pass(host.time, 30_000, 500)
  await until('the request runs', () => host.running.length === 2)
  t.match(host.decisions[1], { outcome: 'admitted', count: 1, waited: 30_000 })
})

t.test('a request that can never have room is rejected at once', async (t) => {
  const host = await createWaitingServer(t, {
    tokens: { perMinute: { tokens: 10 }, cost: 11, wait: 1000 }
  })
  const { statusCode, headers } = await host.ask()
  t.equal(statusCode, 429)
  t.notOk('retry-after' in headers)
})

t.test('a request waits for what others hold, whenever their window ends', async (t) => {
  const host = await createWaitingServer(t, {
    tokens: { perMinute: { tokens: 100 }, cost: 60, wait: 1000 }
  })
  const first = await host.run()
  await host.queue()
  await first.request.quota.charge(20)
  first.finish()
  await until('the second request runs', () => host.running.length === 2)
  t.match(host.decisions[1], { outcome: 'admitted', count: 80, held: 60, granted: 60 })
})

t.test('a range with a small least does not wait while there is any room', async (t) => {
  const host = await createWaitingServer(t, {
    tokens: { perMinute: { tokens: 100 }, cost: { least: 1, most: 80 }, wait: 1000 }
  })
  const first = await host.run()
  await host.run()
  await host.queue()
  await first.request.quota.charge(50)
  first.finish()
  await until('the third request runs', () => host.running.length === 3)
  t.same(
    host.decisions.map(({ granted }) => granted),
    [80, 20, 30]
  )
})

t.test('a new request joins the end of the line, and asks nothing', async (t) => {
  const host = await createWaitingServer(t, {
    tokens: {
      perMinute: { tokens: 100 },
      cost: ({ headers }) => Number(headers['x-cost']),
      authentication: service,
      wait: 1000
    }
  })
  const run = (caller: string, cost: number) => host.ask(caller, { 'x-cost': cost })
  run('alice', 70)
  await host.queue('alice', { 'x-cost': 60 })
  const before = host.asked.length
  // There would be room for it.
  const { response } = await host.queue('bob', { 'x-cost': 10 })
  t.equal(host.asked.length, before)
  await pass(host.time, 1000)
  t.equal((await response).statusCode, 429)
  t.match(host.decisions.at(-1), { outcome: 'rejected', count: 70, held: 70, limit: 100 })
})

t.test('a request does not join a line if its window ends too late', async (t) => {
  const host = await createWaitingServer(t, {
    tokens: {
      perMinute: { tokens: 100 },
      cost: ({ headers }) => Number(headers['x-cost']),
      unreported: 40,
      wait: 1000
    }
  })
  const used = host.ask('alice', { 'x-cost': 40 })
  await until('the first request runs', () => host.running.length === 1)
  host.running[0]?.finish()
  await used
  host.ask('alice', { 'x-cost': 50 })
  await host.queue('alice', { 'x-cost': 60 })
  // What others hold is not enough for it.
  const rejected = await host.ask('alice', { 'x-cost': 80 })
  t.match(rejected, { statusCode: 429, headers: { 'retry-after': '60' } })
  t.match(host.decisions.at(-1), { outcome: 'rejected', waited: 0 })
})

t.test('callers of a shared counter take turns, by the authentication of the plugin', async (t) => {
  const host = await createWaitingServer(t, { slots: slots(1, { timeout: 1000 }) })
  await host.run('zoe')
  for (const caller of ['alice', 'alice', 'alice', 'bob', 'carol', 'bob']) await host.queue(caller)
  for (let served = 1; served <= 6; served++) {
    host.running[served - 1]?.finish()
    await until('the next request runs', () => host.running.length > served)
  }
  t.same(
    host.running.map(({ caller }) => caller),
    ['zoe', 'alice', 'bob', 'carol', 'alice', 'bob', 'alice']
  )
})

t.test('without queue, a hundred requests wait in this process at most', async (t) => {
  const host = await createWaitingServer(t, { slots: slots(1, 1000) })
  await host.run('zoe')
  for (let request = 0; request < 100; request++) await host.queue(`${request}`)
  t.match(await host.ask('one more'), { statusCode: 429 })
  t.equal(host.waiting(), 100)
})

t.test('the request that a full queue rejects gets its response at once', async (t) => {
  const host = await createWaitingServer(t, { slots: slots(1, { timeout: 1000, queue: 3 }) })
  await host.run('zoe')
  await host.queue('alice')
  await host.queue('alice')
  const third = await host.queue('alice')
  t.match(await host.ask('alice'), { statusCode: 429, headers: { 'retry-after': '1' } })
  const bob = host.ask('bob')
  t.match(await third.response, { statusCode: 429 })
  t.equal(host.waiting(), 3)
  await pass(host.time, 1000)
  t.equal((await bob).statusCode, 429)
})

t.test('a quota without wait rejects at once, even at the turn of a request', async (t) => {
  const host = await createWaitingServer(t, { calls: { perMinute: 1 }, slots: slots(1, 1000) })
  const first = await host.run('alice')
  t.match(await host.ask('alice'), { statusCode: 429 })
  await host.queue('bob')
  const { response } = await host.queue('bob')
  first.finish()
  t.match(await response, { statusCode: 429 })
  t.same(
    host.decisions.map(({ quota, outcome, waited }) => [quota, outcome, waited]),
    [
      ['calls', 'admitted', 0],
      ['slots', 'admitted', 0],
      ['slots', 'rejected', 0],
      ['calls', 'admitted', 0],
      ['slots', 'admitted', 0],
      ['slots', 'rejected', 0]
    ]
  )
})

t.test('a request waits for the shortest time of the quotas that reject it', async (t) => {
  const host = await createWaitingServer(t, {
    slots: slots(1, 1000),
    own: { concurrent: 1, wait: 300 }
  })
  await host.run('alice')
  const { response } = await host.queue('alice')
  await pass(host.time, 300)
  t.equal((await response).statusCode, 429)
  t.match(host.decisions.at(-1), { waited: 300 })
})

t.test('a request goes to the line of the quota that refuses it at its turn', async (t) => {
  const host = await createWaitingServer(t, {
    slots: slots(2, 1000),
    own: { concurrent: 1, wait: 1000 }
  })
  const alice = await host.run('alice')
  const bob = await host.run('bob')
  await host.queue('alice')
  await host.queue('carol')
  bob.finish()
  await until('carol runs', () => host.running.length === 3)
  t.equal(host.waiting(), 1)
  host.time.advance(100)
  alice.finish()
  await until('the second request of alice runs', () => host.running.length === 4)
  t.same(
    host.running.map(({ caller }) => caller),
    ['alice', 'bob', 'carol', 'alice']
  )
  t.same(host.seconds, [null, 0, 0.1])
})

t.test('a limit that is raised lets the first in line in within 500 ms', async (t) => {
  const preferences = new Map<string, unknown>()
  const host = await createWaitingServer(t, { slots: slots(1, 5000) }, { preferences })
  await host.run('alice')
  await host.queue('bob')
  preferences.set('rate-limit.slots.concurrent', 2)
  await pass(host.time, 500)
  await until('the second request runs', () => host.running.length === 2)
  t.match(host.decisions.at(-1), { limit: 2, count: 2, waited: 500 })
})

t.test('the caller and the cost of a request stay what they were when it arrived', async (t) => {
  const read = { callers: 0, costs: 0 }
  const host = await createWaitingServer(
    t,
    {
      tokens: {
        perMinute: { tokens: 10 },
        cost () {
          read.costs += 1
          return 6
        },
        wait: 5000
      }
    },
    {
      authentication () {
        read.callers += 1
        return alice
      }
    }
  )
  await host.run()
  await host.queue()
  await pass(host.time, 4000)
  t.same(read, { callers: 2, costs: 2 })
  t.equal(host.waiting(), 1)
})

t.test('a caller that is forgotten need not wait any longer', async (t) => {
  const host = await createWaitingServer(t, { calls: { perMinute: 1, wait: 60_000 } })
  await host.run()
  await host.queue()
  host.time.advance(10)
  await host.app.quotaForget(callerKey(alice) ?? '')
  await until('the second request runs', () => host.running.length === 2)
  t.match(host.decisions.at(-1), { outcome: 'admitted', waited: 10 })
})

t.test('of forty who wait for a window, those with no time left are rejected', async (t) => {
  const host = await createWaitingServer(t, {
    calls: { perMinute: 10, authentication: service, wait: 40_000 }
  })
  for (let request = 0; request < 10; request++) await host.run()
  host.time.advance(30_000)
  const responses = []
  for (let request = 0; request < 40; request++) responses.push(host.ask(`${request}`))
  await until('all wait', () => host.waiting() === 40)
  await pass(host.time, 29_000, 1000)
  host.asked.length = 0
  await pass(host.time, 1000)
  await until('nobody waits', () => host.waiting() === 0)
  // The first ten, the one that finds the window full, and the polls in the last second.
  t.ok(host.asked.length <= 13, `the store was asked ${host.asked.length} times`)
  t.equal(host.running.length, 20)
  for (const response of responses.slice(10)) {
    t.match(await response, { statusCode: 429, headers: { 'retry-after': '60' } })
  }
})

t.test('a shadow quota never makes a request wait', async (t) => {
  const host = await createWaitingServer(t, { slots: { ...slots(1, 1000), mode: 'shadow' } })
  await host.run('alice')
  await host.run('bob')
  t.same(
    host.decisions.map(({ outcome, waited }) => [outcome, waited]),
    [['admitted', 0], ['rejected', 0]]
  )
})

t.test('quotaAcquire waits alike, for a request and for authentications', async (t) => {
  const host = await createWaitingServer(t, { slots: slots(1, 1000) })
  const { app, run, time } = host
  const first = await run('alice')
  const ofRequest = app.quotaAcquire(first.request, 'slots')
  const ofJob = app.quotaAcquire({ slots: service() }, 'slots', { reference: 'job 7' })
  await until('both wait', () => host.waiting() === 2)
  time.advance(100)
  first.finish()
  // The request has ended with its response, and its permit with it.
  t.match(await ofRequest, { refusal: { outcome: 'rejected' } })
  const permit = await ofJob
  matchExactly(t, permit.decisions, [{ outcome: 'admitted', reference: 'job 7', waited: 100 }])
  t.equal(host.decisions.length, 2, 'that of the request is published to nobody')
  const late = app.quotaAcquire({ slots: service() }, 'slots')
  await until('another job waits', () => host.waiting() === 1)
  await pass(time, 1000)
  t.match(await late, { refusal: { outcome: 'rejected', waited: 1000, retryAfter: 1 } })
  await permit.end()
})

t.test('metrics and the log say who waits and how long', async (t) => {
  const registry = new Registry()
  const host = await createWaitingServer(
    t,
    { slots: slots(1, 1000) },
    {
      logged: 'debug',
      declare: (app) => app.register(quotaMetricsPlugin, { registry })
    }
  )
  // The metrics of a server that is open would count what later tests publish.
  t.teardown(() => host.app.close())
  const valuesOf = async (name: string) => (await registry.getSingleMetric(name)?.get())?.values
  const first = await host.run('alice')
  await host.queue('bob')
  const { response } = await host.queue('carol')
  const labels = { quota: 'slots', unit: 'concurrent-requests' }
  t.same(await valuesOf('llm_quota_waiting'), [{ labels, value: 2 }])
  await pass(host.time, 200)
  first.finish()
  await until('the second runs', () => host.running.length === 2)
  await pass(host.time, 800)
  await response
  t.same(await valuesOf('llm_quota_waiting'), [{ labels, value: 0 }])
  matchExactly(
    t,
    (await valuesOf('llm_quota_wait_seconds'))?.slice(-2),
    [{ labels, value: 1.2 }, { labels, value: 2 }],
    'their sum and number'
  )
  matchExactly(
    t,
    host.log.lines.filter(({ level, msg }) => level === 20 && /the quota/.test(String(msg))),
    [
      { quota: 'slots', waited: 200, msg: 'the quota admits a request that has waited for room' },
      { quota: 'slots', waited: 1000, msg: 'the quota refuses the request' }
    ]
  )
})

// A value of `wait`, and what the error says of it.
const invalid: [wait: unknown, message: RegExp][] = [
  [0, /quotas\.slots\.wait must be a number of milliseconds from 1 to 300000, .*; it got 0/],
  [0.5, /it got 0\.5/],
  [300_001, /it got 300001/],
  [Infinity, /it got Infinity/],
  [NaN, /it got NaN/],
  ['1000', /or \{ timeout, queue \}; it got "1000"/],
  [null, /it got null/],
  [true, /it got true/],
  [() => 1000, /it got a function/],
  [{}, /quotas\.slots\.wait\.timeout must be a number .*; it got undefined/],
  [{ queue: 5 }, /wait\.timeout must be a number .*; it got undefined/],
  [{ timeout: 0 }, /wait\.timeout must be a number .*; it got 0/],
  [{ timeout: 1000, queue: 0 }, /wait\.queue must be an integer of at least 1; it got 0/],
  [{ timeout: 1000, queue: 1.5 }, /wait\.queue must be an integer .*; it got 1\.5/],
  [{ timeout: 1000, queue: Infinity }, /wait\.queue must be an integer .*; it got Infinity/],
  [{ timeout: 1000, most: 5 }, /wait\.most does not exist; .* timeout, queue/]
]
t.test('start-up fails on a wait that is not possible', (t) => {
  const check = (wait: unknown) => () => {
    assertQuotaOptions({ quotas: { slots: { concurrent: 1, wait } } })
  }
  for (const [wait, message] of invalid) {
    t.throws(check(wait), { code: 'FST_ERR_LLM_QUOTA_OPTION', message }, String(message))
  }
  const ofPlugin = () => {
    assertQuotaOptions({ wait: 1000 })
  }
  t.throws(ofPlugin, { message: /the option wait must be defined in quotas/ })
  for (const wait of [1, 300_000, { timeout: 1, queue: 1 }, undefined]) {
    t.doesNotThrow(check(wait))
  }
  t.end()
})
