// How the stores on servers send settlements, and how long requests wait.
import { mock } from 'node:test'
import t, { type Test } from 'tap'
import { NotRunError, type Call, type Reply } from '../../lib/store/shared/driver.js'
import { SharedStore } from '../../lib/store/shared/shared-store.js'
import type { Acquisition } from '../../lib/store/store.js'
import { DriverServer } from '../support/driver-server.js'
import { acquireOne, demand, estimate } from '../support/told-store.js'
import { until } from '../support/until.js'
import { virtualPerformance } from '../support/virtual-performance.js'

function createStore (driver = new DriverServer(() => performance.now())) {
  const store = new SharedStore({}, 1, () => driver)
  const count = async (caller: string, more = estimate()) =>
    await driver.peek(demand(caller, more))
  return { driver, store, count }
}

/** Replaces the next call. */
function replaceNext (driver: DriverServer, replacement: (call: Call) => Promise<Reply>): void {
  const decide = driver.decide.bind(driver)
  driver.decide = async (call) => {
    driver.decide = decide
    return await replacement(call)
  }
}

const lose = () => Promise.reject(new Error('the connection was lost'))

/** Timers and a clock that a test sets. */
function virtualTime (t: Test) {
  mock.timers.enable({ apis: ['setTimeout', 'setInterval'] })
  t.teardown(() => {
    mock.timers.reset()
  })
  const clock = virtualPerformance(t)
  clock.advance(1_000_000)
  return (milliseconds: number) => {
    clock.advance(milliseconds)
    mock.timers.tick(milliseconds)
  }
}

t.test('a server that answers loses no settlement, however many come together', async (t) => {
  const { store, count } = createStore()
  const permits = Array.from({ length: 700 }, (_, permit) => `caller ${permit}`)
  const grants = Array.from({ length: 16 }, (_, grant) =>
    estimate(3, { counters: `quota ${grant}`, limit: 1_000_000 })
  )
  const acquisitions = await Promise.all(
    permits.flatMap((caller) => grants.map((grant) => acquireOne(store, caller, grant)))
  )
  await Promise.all(acquisitions.map((each) => store.settle(each, 1)))
  for (const caller of permits) {
    for (const grant of grants) {
      const counted = await count(caller, grant)
      if (counted?.count !== 1 || counted.held !== 0) t.match(counted, { count: 1, held: 0 })
    }
  }
  t.equal(acquisitions.length, 11_200)
})

t.test('the settlements of one window are one', async (t) => {
  const { driver, store, count } = createStore()
  const unlimited = { limit: 1_000_000 }
  const acquisitions = await Promise.all(
    Array.from({ length: 300 }, () => acquireOne(store, 'alice', estimate(3, unlimited)))
  )
  const sent: Call[] = []
  const decide = driver.decide.bind(driver)
  driver.decide = async (call) => {
    sent.push(call)
    return await decide(call)
  }
  await Promise.all(acquisitions.map((each) => store.settle(each, 1)))
  t.match(sent.map(({ settlements }) => settlements.map(({ lessCount }) => lessCount)), [[600]])
  t.match(await count('alice'), { count: 300, held: 0 })
})

t.test('of more than 10,000 settlements that wait while the server fails, the oldest ones are ' +
  'rejected', async (t) => {
  const tick = virtualTime(t)
  const { driver, store, count } = createStore()
  const callers = Array.from({ length: 10_100 }, (_, index) => `caller ${index}`)
  const acquisitions = await Promise.all(
    callers.map((caller) => acquireOne(store, caller, estimate(3)))
  )
  replaceNext(driver, lose)
  await t.rejects(acquireOne(store, 'dave'), { message: 'the connection was lost' })
  const settled = Promise.allSettled(acquisitions.map((each) => store.settle(each, 1)))
  tick(1_000)
  const reasons = (await settled).flatMap((each) =>
    each.status === 'rejected' ? [String(each.reason)] : []
  )
  t.same(
    reasons,
    callers.slice(0, 100).map(() => 'Error: more than 10000 settlements wait for the server')
  )
  t.match(await count('caller 99'), { count: 3, held: 3 })
  t.match(await count('caller 100'), { count: 1, held: 0 })
})

t.test('what a failed call may have settled is not sent again', async (t) => {
  const { driver, store, count } = createStore()
  const acquisition = await acquireOne(store, 'alice', estimate(5))
  replaceNext(driver, lose)
  await t.rejects(store.settle(acquisition, 3), { message: 'the connection was lost' })
  t.match(await count('alice'), { count: 5, held: 5 })
  await store.settle(acquisition, 3)
  t.match(await count('alice'), { count: 5, held: 5 }, 'it is not sent again')
  await store.settle(acquisition, 2)
  t.match(await count('alice'), { count: 4, held: 5 }, 'only the difference is sent')
})

t.test('settling lowers only, can be repeated, and needs the very object', async (t) => {
  const { store, count } = createStore()
  const acquisition = await acquireOne(store, 'alice', estimate(5))
  for (const [used, expected] of [[9, 5], [4, 4], [5, 4], [0, 0]] as const) {
    await store.settle(acquisition, used)
    t.match(await count('alice'), { count: expected, held: 0 })
  }
  const other = createStore().store
  const strangers: [SharedStore, Acquisition][] = [
    [store, { ...acquisition }],
    [other, acquisition]
  ]
  for (const [settler, stranger] of strangers) {
    await t.rejects(settler.settle(stranger, 0), {
      name: 'TypeError',
      message: /settles only the very object that its function acquire returned/
    })
  }
  await acquireOne(store, 'bob', { limit: 1 })
  const rejected = await acquireOne(store, 'bob', { limit: 1 })
  const remembered = await acquireOne(store, 'bob', { limit: 1 })
  t.equal(remembered.isRemembered, true)
  for (const each of [rejected, remembered]) await store.settle(each, 0)
  t.match(await count('bob', {}), { count: 1 }, 'a rejected one has counted nothing')
})

t.test('a silent server holds a request for 5 s, its time in the queue included', async (t) => {
  const tick = virtualTime(t)
  const { driver, store } = createStore()
  const silent: Promise<Reply> = new Promise(() => {})
  let sent = 0
  driver.decide = () => {
    sent += 1
    return silent
  }
  const failed: string[] = []
  const ask = (caller: string) =>
    acquireOne(store, caller).catch((error: unknown) => failed.push(`${caller}: ${error}`))
  const first = ask('alice')
  await until('the first call is sent', () => sent === 1)
  tick(3_000)
  const second = ask('bob')
  tick(1_999)
  t.same(failed, [])
  tick(1)
  await first
  await until('the second call is sent', () => sent === 2)
  tick(2_999)
  t.same(failed, ['alice: TimeLimitError: no response within 5000 ms'])
  tick(1)
  await second
  t.same(failed.length, 2)
})

t.test('what was counted is settled with 0 if the reply comes too late', async (t) => {
  const tick = virtualTime(t)
  const { driver, store, count } = createStore()
  const decide = driver.decide.bind(driver)
  let answer = (): void => {}
  replaceNext(driver, async (call) => {
    const reply = await decide(call)
    await new Promise<void>((resolve) => {
      answer = resolve
    })
    return reply
  })
  const asked = acquireOne(store, 'alice', estimate(3))
  const rejected = t.rejects(asked, { message: /no response/ })
  await until('it is counted', async () => (await count('alice'))?.count === 3)
  tick(5_000)
  await rejected
  answer()
  await until('it is settled', async () => (await count('alice'))?.count === 0)
  t.match(await count('alice'), { count: 0, held: 0 })
})

t.test(
  'a call of which nothing has run is sent again within its deadline, and a settlement waits',
  async (t) => {
    const tick = virtualTime(t)
    const { driver, store, count } = createStore()
    let sent = 0
    const decide = driver.decide.bind(driver)
    driver.decide = async (call) => {
      sent += 1
      if (sent < 4) throw new NotRunError(new Error('the keys are moving'), true)
      return await decide(call)
    }
    const acquiring = acquireOne(store, 'alice', estimate(3))
    await until('it is sent for the fourth time', () => {
      tick(50)
      return sent === 4
    })
    const acquisition = await acquiring
    t.match(await count('alice'), { count: 3 })

    driver.decide = () => Promise.reject(new NotRunError(new Error('the keys are moving'), true))
    const settled = store.settle(acquisition, 1)
    let failure = ''
    acquireOne(store, 'bob').catch((error: unknown) => {
      failure = String(error)
    })
    await until('the request fails', () => {
      tick(50)
      return failure !== ''
    })
    t.equal(failure, 'Error: the keys are moving')
    driver.decide = decide
    tick(1_000)
    await settled
    t.match(await count('alice'), { count: 1, held: 0 })
  }
)

t.test(
  'while the server is down, a request fails at once with the error of the client, and a ' +
    'settlement waits',
  async (t) => {
    const tick = virtualTime(t)
    const { driver, store, count } = createStore()
    const acquisition = await acquireOne(store, 'alice', estimate(3))
    const refused = new Error('the connection is refused')
    const decide = driver.decide.bind(driver)
    driver.decide = () => Promise.reject(new NotRunError(refused, false))
    const settled = store.settle(acquisition, 1)
    await t.rejects(acquireOne(store, 'bob'), refused)
    driver.decide = decide
    tick(1_000)
    await settled
    t.match(await count('alice'), { count: 1, held: 0 })
  }
)

t.test(
  'a settlement waits until its window is over at most, whether or not requests come meanwhile',
  async (t) => {
    for (const requests of [0, 1]) {
      await t.test(`${requests} requests a second`, async (t) => {
        const tick = virtualTime(t)
        const { driver, store } = createStore()
        const hourly = estimate(3, { counters: 'chat.tokens.hour', window: 3_600_000 })
        const older = await acquireOne(store, 'alice', hourly)
        const acquisition = await acquireOne(store, 'alice', estimate(3, { window: 60_000 }))
        let calls = 0
        driver.decide = async () => {
          calls += 1
          throw new NotRunError(new Error('the schema is missing'), false)
        }
        const ended: string[] = []
        const note = (name: string) => (error: unknown) => ended.push(`${name}: ${error}`)
        store.settle(older, 1).catch(note('older'))
        store.settle(acquisition, 1).catch(note('settlement'))
        await until('they were sent', () => calls > 0)
        for (let second = 0; second <= 60; second++) {
          t.same(ended, [])
          const before = calls
          tick(1_000)
          for (let request = 0; request < requests; request++) {
            await t.rejects(acquireOne(store, 'bob'), { message: 'the schema is missing' })
          }
          await until('the next call has failed', () => calls > before)
          if (ended.length > 0) break
        }
        t.same(ended, ['settlement: Error: the settlement waited until its window was over'])
      })
    }
  }
)

t.test('a request with more demands than a call takes is sent alone', async (t) => {
  const { driver, store } = createStore()
  const quotas = Array.from({ length: driver.mostDemands + 1 }, (_, index) => `quota ${index}`)
  const requests = ['alice', 'bob'].map(
    async (caller) => await store.acquire(quotas.map((counters) => demand(caller, { counters })))
  )
  for (const acquisitions of await Promise.all(requests)) {
    t.equal(acquisitions.filter((each) => each?.admitted).length, quotas.length)
  }
  t.equal(driver.calls, 2)
})

t.test('a cursor of a driver can contain colons', async (t) => {
  const { driver, store } = createStore()
  const cursors: unknown[] = []
  driver.list = async (_counters, cursor) => {
    cursors.push(cursor)
    return { callers: [], cursor: cursor === null ? 'user:01000:x' : null }
  }
  const { cursor } = await store.list('chat.tokens.day')
  t.same(await store.list('chat.tokens.day', String(cursor)), { callers: [], cursor: null })
  t.same(cursors, [null, 'user:01000:x'])
})
