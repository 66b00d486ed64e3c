// A store on a server lost a place that was settled while a call was on its way that had stated it
// to the server: it stayed taken until its end, so that of several streams that ended together,
// most kept their places for half a minute.
import t from 'tap'
import { SharedStore } from '../../lib/store/shared/shared-store.js'
import type { Acquisition } from '../../lib/store/store.js'
import { acquireOne, demand, place } from '../support/demands.js'
import { DriverServer } from '../support/driver-server.js'

function createServer () {
  const driver = new DriverServer(() => performance.now())
  return { driver, count: (caller: string) => driver.places(demand(caller, place())).length }
}

const createStore = (driver: DriverServer) => new SharedStore({}, driver)

function free (store: SharedStore, { receipt }: Acquisition) {
  return store.settle(receipt, { count: 1, held: 1 })
}

/** Runs a step once, while the next call is on its way. Resolves when the step is done. */
function duringNextCall (driver: DriverServer, step: () => Promise<unknown>): Promise<unknown> {
  const decide = driver.decide.bind(driver)
  return new Promise((resolve, reject) => {
    driver.decide = (call) => {
      driver.decide = decide
      step().then(resolve, reject)
      return decide(call)
    }
  })
}

t.test('a place that is settled while another one is being settled is free', async (t) => {
  const { driver, count } = createServer()
  const store = createStore(driver)
  const first = await acquireOne(store, 'alice', place())
  const second = await acquireOne(store, 'alice', place())
  t.equal(count('alice'), 2)
  const settled = duringNextCall(driver, () => free(store, second))
  await free(store, first)
  await settled
  t.equal(count('alice'), 0)
})

t.test('a place that is settled while a request is being rejected is free', async (t) => {
  const { driver, count } = createServer()
  const store = createStore(driver)
  const held = await acquireOne(store, 'bob', place(2))
  await acquireOne(createStore(driver), 'bob', place(2))
  const settled = duringNextCall(driver, () => free(store, held))
  t.match(await acquireOne(store, 'bob', place(2)), { admitted: false })
  await settled
  t.equal(count('bob'), 1)
})
