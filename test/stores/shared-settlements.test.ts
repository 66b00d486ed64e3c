// How the stores on servers send settlements.
import { mock } from 'node:test'
import t from 'tap'
import type { Call, Reply } from '../../lib/store/shared/driver.js'
import { SharedStore } from '../../lib/store/shared/shared-store.js'
import { DirectDriver } from '../simulation/network.js'
import { rowOf, Server } from '../simulation/server.js'
import { ServerTime } from '../simulation/server-time.js'
import { acquireOne, demand, estimate } from '../support/told-store.js'
import { until } from '../support/until.js'
import { virtualPerformance } from '../support/virtual-performance.js'

function createStore () {
  const server = new Server(new ServerTime(() => performance.now()), () => {})
  const driver = new DirectDriver(server)
  const store = new SharedStore({}, 1, () => driver)
  const count = (caller: string, more = {}) => server.counters.get(rowOf(demand(caller, more)))
  return { driver, store, count }
}

t.test('of more than 10,000 settlements that wait, the oldest ones are rejected', async (t) => {
  // None waits too long, however busy the machine is.
  virtualPerformance(t)
  const { store, count } = createStore()
  const quotas = Array.from({ length: 101 }, (_, index) => `quota ${index}`)
  const callers = Array.from({ length: 100 }, (_, index) => `caller ${index}`)
  const acquisitions = await Promise.all(
    quotas.map((counters) =>
      store.acquire(callers.map((caller) => demand(caller, estimate(3, { counters }))))
    )
  )
  const settled = await Promise.allSettled(
    acquisitions.flat().map(async (each) => each === null || store.settle(each, 1, null))
  )
  const reasons = settled.flatMap((each) => (each.status === 'rejected' ? [each.reason] : []))
  t.same(
    reasons.map(String),
    callers.map(() => 'Error: more than 10000 wait for the server')
  )
  t.same(
    ['quota 0', 'quota 1', 'quota 100'].map((counters) => count('caller 99', { counters })?.count),
    [3, 1, 1]
  )
})

t.test('what is settled with more is sent again if the server asks for it', async (t) => {
  const { driver, store, count } = createStore()
  const acquisition = await acquireOne(store, 'alice', estimate(3))
  const decide = driver.decide.bind(driver)
  let refused = 0
  driver.decide = async (call: Call): Promise<Reply> => {
    const { decided, latestNumber } = await decide({ ...call, requests: [] })
    if (call.requests.length === 0) return { decided, latestNumber }
    refused += 1
    driver.decide = decide
    return { decided: call.requests.map(() => undefined), latestNumber }
  }
  await store.settle(acquisition, 5, null)
  t.equal(refused, 1)
  t.match(count('alice', estimate()), { count: 5, held: 0 })
})

t.test('what was settled with more stays counted if the reply comes too late', async (t) => {
  const longestWait = 5_000
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => {
    mock.timers.reset()
  })
  const time = virtualPerformance(t)
  const { driver, store, count } = createStore()
  const acquisition = await acquireOne(store, 'alice', estimate(3))
  const decide = driver.decide.bind(driver)
  let reply = (): void => {}
  driver.decide = async (call: Call): Promise<Reply> => {
    const decided = await decide(call)
    driver.decide = decide
    await new Promise<void>((resolve) => {
      reply = resolve
    })
    return decided
  }
  const settled = store.settle(acquisition, 5, null)
  await until('it is counted', () => count('alice', estimate())?.count === 5)
  time.advance(longestWait)
  mock.timers.tick(longestWait)
  await t.rejects(settled, { message: /5000/ })
  reply()
  await acquireOne(store, 'bob')
  t.match(count('alice', estimate()), { count: 5, held: 0 })
})

t.test('what may have been counted is neither counted again nor taken back', async (t) => {
  const { driver, store, count } = createStore()
  const acquisition = await acquireOne(store, 'alice', estimate(3))
  const decide = driver.decide.bind(driver)
  driver.decide = () => Promise.reject(new Error('the connection was lost'))
  await t.rejects(store.settle(acquisition, 5, null), { message: 'the connection was lost' })
  driver.decide = decide
  await store.settle(acquisition, 9, null)
  t.match(count('alice', estimate()), { count: 7 }, 'the 2 that were lost are not counted')
  await store.settle(acquisition, 1, null)
  t.match(count('alice', estimate()), { count: 1 })
})

t.test('a request with more demands than a call takes is sent alone', async (t) => {
  const { driver, store } = createStore()
  const quotas = Array.from({ length: driver.mostDemands + 1 }, (_, index) => `quota ${index}`)
  const requests = ['alice', 'bob'].map(
    async (caller) => await store.acquire(quotas.map((counters) => demand(caller, { counters })))
  )
  for (const acquisitions of await Promise.all(requests)) {
    t.equal(acquisitions.filter((each) => each?.admitted).length, quotas.length)
  }
})

t.test('a cursor of a driver can contain colons', async (t) => {
  const { driver, store } = createStore()
  const cursors: unknown[] = []
  Reflect.set(driver, 'list', async (_counters: string, cursor: string | null) => {
    cursors.push(cursor)
    return { callers: [], cursor: cursor === null ? 'user:01000:x' : null }
  })
  const { cursor } = await store.list('chat.tokens.day')
  t.same(await store.list('chat.tokens.day', String(cursor)), { callers: [], cursor: null })
  t.same(cursors, [null, 'user:01000:x'])
})
