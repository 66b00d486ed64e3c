// How the stores on servers send settlements, and how long requests wait.
import { mock } from 'node:test'
import t, { type Test } from 'tap'
import { NotRunError, TryAgainError, type Call, type Reply } from '../../lib/store/shared/driver.js'
import { SharedStore } from '../../lib/store/shared/shared-store.js'
import { DriverServer } from '../support/driver-server.js'
import { acquireOne, demand, estimate, place } from '../support/told-store.js'
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

async function turns (): Promise<void> {
  for (let count = 0; count < 10; count++) await new Promise(setImmediate)
}

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

t.test('the settlements of one window are one, and change it by their sum', async (t) => {
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
  t.match(await count('alice'), { count: 300, held: 0 }, 'none stays held')
})

t.test('settlements of two windows of a caller stay two, and each changes its own', async (t) => {
  let now = 0
  const { store, count } = createStore(new DriverServer(() => now))
  const day = estimate(5, { limit: 9, window: 86_400_000 })
  const earlier = await acquireOne(store, 'alice', day)
  now = 86_400_000
  const later = await acquireOne(store, 'alice', day)
  await Promise.all([store.settle(earlier, 1), store.settle(later, 3)])
  t.match(await count('alice', day), { count: 3, held: 0 })
})

t.test('the settlements of callers who share the overflow counter are one', async (t) => {
  const driver = new DriverServer(() => performance.now(), 1)
  const { store } = createStore(driver)
  const callers = ['alice', 'bob', 'carol', 'dave']
  const acquisitions = await Promise.all(
    callers.map((caller) => acquireOne(store, caller, estimate(5, { limit: 100 })))
  )
  const sent: Call[] = []
  const decide = driver.decide.bind(driver)
  driver.decide = async (call) => {
    sent.push(call)
    return await decide(call)
  }
  await Promise.all(acquisitions.map((each) => store.settle(each, 1)))
  t.same(
    sent.map(({ settlements }) =>
      settlements.map(({ overflow, lessCount }) => [overflow, lessCount])
    ),
    [[[false, 4], [true, 12]]]
  )
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

t.test('settling again with as much ends as the settlement that is under way', async (t) => {
  const { driver, store } = createStore()
  const acquisition = await acquireOne(store, 'alice', estimate(5))
  const taken = await acquireOne(store, 'alice', place(1))
  let sent = 0
  let lost = (): void => {}
  driver.decide = async () => {
    sent += 1
    await new Promise<void>((resolve) => {
      lost = resolve
    })
    throw new Error('the connection was lost')
  }
  const ended: string[] = []
  const settling = [
    [acquisition, 3],
    [acquisition, 3],
    [taken, 0],
    [taken, 0]
  ] as const
  const settled = settling.map(async ([each, used]) => {
    await store.settle(each, used).catch((error: unknown) => ended.push(String(error)))
  })
  await until('it is sent', () => sent === 1)
  t.same(ended, [], 'none has ended before')
  lost()
  await Promise.all(settled)
  t.same(ended, settling.map(() => 'Error: the connection was lost'))
})

t.test('settlements that are sent again stay the oldest, and join newer ones of their window',
  async (t) => {
    const tick = virtualTime(t)
    const { driver, store, count } = createStore()
    const callers = Array.from({ length: 10_000 }, (_, index) => `caller ${index}`)
    const acquisitions = await Promise.all(
      ['alice', 'bob', ...callers].map((caller) => acquireOne(store, caller, estimate(3)))
    )
    const [alice, bob, ...others] = acquisitions.map((acquisition) => ({
      settle: (used: number) =>
        store.settle(acquisition, used).then(() => 'settled', (error: Error) => error.message)
    }))
    let sent = 0
    let refuse = (): void => {}
    replaceNext(driver, async () => {
      sent += 1
      await new Promise<void>((resolve) => {
        refuse = resolve
      })
      throw new NotRunError(new Error('the connection is refused'))
    })
    const first = [alice?.settle(2), bob?.settle(2)]
    await until('they are sent', () => sent === 1)
    let ended = 0
    const rest = others.map(async (each) => {
      const result = await each.settle(1)
      ended += 1
      return result
    })
    const again = bob?.settle(1)
    refuse()
    await until('all others are settled', () => {
      tick(100)
      return ended === others.length
    })
    const tooMany = 'more than 10000 settlements wait for the server'
    t.same(await Promise.all([...first, again]), [tooMany, tooMany, tooMany])
    t.same(new Set(await Promise.all(rest)), new Set(['settled']))
    t.match(await count('bob'), { count: 3, held: 3 })
  }
)

t.test('a settlement whose window is over while the server fails is rejected and says so',
  async (t) => {
    const tick = virtualTime(t)
    const { driver, store } = createStore()
    const acquisition = await acquireOne(store, 'alice', estimate(3))
    replaceNext(driver, lose)
    await t.rejects(acquireOne(store, 'bob'), { message: 'the connection was lost' })
    const settled = store.settle(acquisition, 1)
    tick(60_000)
    await t.rejects(settled, { message: 'the settlement waited until its window was over' })
  }
)

t.test('a settlement of a window of a second waits for 5 s, in which a call can be sent',
  async (t) => {
    const tick = virtualTime(t)
    const { driver, store } = createStore()
    const acquisition = await acquireOne(store, 'alice', estimate(3, { window: 1_000 }))
    replaceNext(driver, lose)
    await t.rejects(acquireOne(store, 'bob'), { message: 'the connection was lost' })
    const settled = store.settle(acquisition, 1)
    tick(1_000)
    await t.resolves(settled)
  }
)

t.test('a call ends after 2.5 s, and a request waits for it for 2.5 s at most', async (t) => {
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
  const second = ask('bob')
  tick(1)
  const third = ask('carol')
  tick(2_498)
  t.same(failed, [])
  tick(1)
  await Promise.all([first, second])
  const message = 'TimeLimitError: no response within 2500 ms'
  t.same(failed, [`alice: ${message}`, `bob: ${message}`])
  await until('the second call is sent', () => sent === 2)
  tick(2_499)
  t.equal(failed.length, 2)
  tick(1)
  await third
  t.same(failed.slice(2), [`carol: ${message}`], 'after 5 s, less the millisecond')
})

t.test('a call that is sent again has no more time than one that is not', async (t) => {
  const tick = virtualTime(t)
  const { driver, store } = createStore()
  let sent = 0
  driver.decide = async () => {
    sent += 1
    if (sent === 1) throw new TryAgainError(new Error('the keys are moving'))
    return await new Promise(() => {})
  }
  let failure = ''
  acquireOne(store, 'alice').catch((error: unknown) => {
    failure = String(error)
  })
  await until('it is sent', () => sent === 1)
  let passed = 0
  await until('it is sent again', () => {
    tick(50)
    passed += 50
    return sent === 2
  })
  tick(2_499 - passed)
  t.equal(failure, '')
  tick(1)
  await until('it fails', () => failure !== '')
  t.equal(failure, 'TimeLimitError: no response within 2500 ms')
})

t.test('what is asked without a decision fails after 5 s, too', async (t) => {
  const tick = virtualTime(t)
  const { driver, store } = createStore()
  const silent = () => new Promise<never>(() => {})
  Object.assign(driver, { peek: silent, list: silent, inspect: silent, forget: silent })
  const failed: unknown[] = []
  const asked = [
    () => store.peek(demand('alice')),
    () => store.list('default'),
    () => store.inspect('default'),
    () => store.forget('alice', 'default')
  ]
  for (const ask of asked) ask().catch((error: unknown) => failed.push(String(error)))
  tick(4_999)
  t.same(failed, [])
  tick(1)
  await until('all have failed', () => failed.length === asked.length)
  t.same(failed, asked.map(() => 'TimeLimitError: no response within 5000 ms'))
})

t.test('under lasting overload, as many requests are admitted as the server decides on',
  async (t) => {
    const tick = virtualTime(t)
    const { driver, store } = createStore()
    const decide = driver.decide.bind(driver)
    let sent = 0
    driver.decide = async (call) => {
      sent += call.requests.length
      const reply = await decide(call)
      // The server decides on 500 requests a second.
      await new Promise((resolve) => setTimeout(resolve, call.requests.length * 2))
      return reply
    }
    let admitted = 0
    let failed = 0
    const unlimited = { limit: Number.MAX_SAFE_INTEGER }
    for (let second = 0; second < 20; second++) {
      for (let part = 0; part < 50; part++) {
        for (let request = 0; request < 15; request++) {
          acquireOne(store, 'alice', unlimited).then(
            () => (admitted += 1),
            () => (failed += 1)
          )
        }
        tick(20)
        await turns()
      }
    }
    const isNear = Math.abs(admitted - 20 * 500) < 300
    t.ok(isNear, `${admitted} of ${sent} requests that were sent are admitted, ${failed} failed`)
    t.ok(sent - admitted <= 128, 'only requests that were not sent have failed')
    t.match(await store.peek(demand('alice', unlimited)), { count: sent })
  }
)

t.test(
  'requests that arrive together, or while a call is under way, share a call, and are decided in ' +
    'their order',
  async (t) => {
    const { driver, store } = createStore()
    const sizes: number[] = []
    let go = (): void => {}
    const decide = driver.decide.bind(driver)
    driver.decide = async (call) => {
      sizes.push(call.requests.length)
      if (sizes.length === 1) {
        await new Promise<void>((resolve) => {
          go = resolve
        })
      }
      return await decide(call)
    }
    const ask = async () => (await acquireOne(store, 'alice', { limit: 130 })).count
    const first = ask()
    await until('the first call is under way', () => sizes.length === 1)
    const others = Promise.all(Array.from({ length: 130 }, ask))
    go()
    t.equal(await first, 1)
    t.same(await others, Array.from({ length: 130 }, (_, index) => Math.min(index + 2, 130)))
    t.same(sizes, [1, 128, 2], 'at most 128')
  }
)

t.test('the requests of one call fail together, and later ones do not', async (t) => {
  const { driver, store } = createStore()
  replaceNext(driver, lose)
  const asked = ['alice', 'bob'].map((caller) => acquireOne(store, caller))
  const lost = { message: 'the connection was lost' }
  for (const each of await Promise.allSettled(asked)) t.match(each, { reason: lost })
  t.match(await acquireOne(store, 'alice'), { admitted: true, count: 1 })
})

t.test('expired requests do not count among the demands of a call', async (t) => {
  const tick = virtualTime(t)
  const { driver, store } = createStore()
  driver.mostDemands = 2
  const sizes: number[] = []
  const decide = driver.decide.bind(driver)
  driver.decide = async (call) => {
    sizes.push(call.requests.length)
    return await decide(call)
  }
  replaceNext(driver, () => new Promise(() => {}))
  const failed = [acquireOne(store, 'alice').catch(String)]
  await until('the queue is empty', () => new Promise((resolve) => setImmediate(resolve, true)))
  for (let request = 0; request < 2; request++) failed.push(acquireOne(store, 'bob').catch(String))
  tick(1)
  const others = ['carol', 'dave'].map((caller) => acquireOne(store, caller))
  tick(2_499)
  await Promise.all([...failed, ...others])
  t.same(sizes, [2])
})

t.test('an outage without requests loses no settlement: an empty call a second shows its end',
  async (t) => {
    const tick = virtualTime(t)
    const { driver, store, count } = createStore()
    const callers = Array.from({ length: 10 }, (_, index) => `caller ${index}`)
    const acquisitions = await Promise.all(
      callers.map((caller) => acquireOne(store, caller, estimate(3)))
    )
    const decide = driver.decide.bind(driver)
    let calls = 0
    driver.decide = async () => {
      calls += 1
      throw new Error('the connection was lost')
    }
    await t.rejects(acquireOne(store, 'dave'), { message: 'the connection was lost' })
    const settled = Promise.all(acquisitions.map((each) => store.settle(each, 1)))
    await until('the first empty call is sent', () => calls === 2)
    for (let second = 1; second <= 20; second++) {
      await turns()
      tick(999)
      await turns()
      t.equal(calls, second + 1)
      tick(1)
      await until('the next call is sent', () => calls > second + 1)
    }
    driver.decide = decide
    await until('it is settled', async () => {
      tick(100)
      return (await count('caller 9'))?.count === 1
    })
    await settled
    for (const caller of callers) t.match(await count(caller), { count: 1, held: 0 })
  }
)

t.test(
  'a call of which nothing has run is sent again within its deadline, and a settlement waits',
  async (t) => {
    const tick = virtualTime(t)
    const { driver, store, count } = createStore()
    let sent = 0
    const decide = driver.decide.bind(driver)
    driver.decide = async (call) => {
      sent += 1
      if (sent < 4) throw new TryAgainError(new Error('the keys are moving'))
      return await decide(call)
    }
    const acquiring = acquireOne(store, 'alice', estimate(3))
    await until('it is sent for the fourth time', () => {
      tick(50)
      return sent === 4
    })
    const acquisition = await acquiring
    t.match(await count('alice'), { count: 3 })

    driver.decide = () => Promise.reject(new TryAgainError(new Error('the keys are moving')))
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
    driver.decide = () => Promise.reject(new NotRunError(refused))
    const settled = store.settle(acquisition, 1)
    let failure: unknown
    acquireOne(store, 'bob').catch((error: unknown) => {
      failure = error
    })
    // No time passes meanwhile.
    await until('the request fails', () => failure !== undefined)
    t.equal(failure, refused)
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
          throw new NotRunError(new Error('the schema is missing'))
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

t.test('a reply with more decisions than there are demands fails the request', async (t) => {
  virtualTime(t)
  const { driver, store } = createStore()
  const decide = driver.decide.bind(driver)
  driver.decide = async (call) => {
    const reply = await decide(call)
    return reply.map((decided) => [...decided, ...decided])
  }
  await t.rejects(acquireOne(store, 'alice'), {
    message: 'the demand of an acquisition is missing'
  })
})
