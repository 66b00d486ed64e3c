// A store on a server gave back what a late reply had counted, but for up to a second, it rejected
// the caller's requests from memory by what the counter had held before.
import { mock } from 'node:test'
import t from 'tap'
import { SharedStore } from '../../lib/store/shared/shared-store.js'
import { acquireOne } from '../support/demands.js'
import { DriverServer } from '../support/driver-server.js'
import { virtualPerformance } from '../support/time.js'

t.test('what a late reply has counted is given back before the next request', async (t) => {
  const clock = virtualPerformance(t)
  clock.advance(1_000_000)
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => {
    mock.timers.reset()
  })
  const driver = new DriverServer(clock.now)
  const store = new SharedStore({}, driver)
  const pass = async (milliseconds: number) => {
    for (let left = milliseconds; left > 0; left -= 100) {
      clock.advance(100)
      mock.timers.tick(100)
      for (let turns = 0; turns < 8; turns++) await new Promise(setImmediate)
    }
  }

  let answer = (): void => {}
  const decide = driver.decide.bind(driver)
  driver.decide = async (call) => {
    driver.decide = decide
    const reply = await decide(call)
    await new Promise<void>((resolve) => {
      answer = resolve
    })
    return reply
  }
  const tooLate = { code: 'FST_ERR_LLM_QUOTA_TIME_LIMIT' }
  const late = t.rejects(acquireOne(store, 'alice', { limit: 1 }), tooLate)
  await pass(4_000)
  await late
  t.match(await acquireOne(store, 'alice', { limit: 1 }), { admitted: false, count: 1 })
  answer()
  await pass(100)
  t.match(await acquireOne(store, 'alice', { limit: 1 }), { admitted: true, count: 1 })
})
