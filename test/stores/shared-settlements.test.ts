// How the stores on servers send settlements.
import t from 'tap'
import type { Call, Reply } from '../../lib/store/shared/driver.js'
import { SharedStore } from '../../lib/store/shared/shared-store.js'
import { DirectDriver } from '../simulation/network.js'
import { rowOf, Server } from '../simulation/server.js'
import { acquireOne, demand, estimate } from '../support/told-store.js'

function createStore () {
  const server = new Server(
    () => performance.now(),
    () => {}
  )
  const driver = new DirectDriver(server)
  const store = new SharedStore({}, 1, () => driver)
  const count = (more = {}) => server.counters.get(rowOf(demand('alice', more)))
  return { driver, store, count }
}

t.test('of more than 10,000 settlements that wait, the oldest ones are rejected', async (t) => {
  const { store, count } = createStore()
  const counters = Array.from({ length: 10_002 }, (_, index) => ({ counters: `quota ${index}` }))
  const acquisitions = await store.acquire(
    counters.map((each) => demand('alice', estimate(3, each)))
  )
  const settled = await Promise.allSettled(
    acquisitions.map(async (each) => each === null || store.settle(each, 1, null))
  )
  const rejected = settled.filter(({ status }) => status === 'rejected')
  t.match(rejected, [
    { reason: { message: 'more than 10000 wait for the server' } },
    { reason: { message: 'more than 10000 wait for the server' } }
  ])
  t.equal(rejected.length, 2)
  t.same(
    counters.slice(0, 3).map((each) => count(each)?.count),
    [3, 3, 1]
  )
})

t.test('what is settled with more is sent again if the server asks for it', async (t) => {
  const { driver, store, count } = createStore()
  const acquisition = await acquireOne(store, 'alice', estimate(3))
  const decide = driver.decide.bind(driver)
  let refused = 0
  driver.decide = async (call: Call): Promise<Reply> => {
    const { decided, isLeaseKnown } = await decide({ ...call, requests: [] })
    if (call.requests.length === 0) return { decided, isLeaseKnown }
    refused += 1
    driver.decide = decide
    return { decided: call.requests.map(() => undefined), isLeaseKnown }
  }
  await store.settle(acquisition, 5, null)
  t.equal(refused, 1)
  t.match(count(estimate()), { count: 5, held: 0 })
})
