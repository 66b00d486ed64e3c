// docs/rules.md, "Limit": preference readers that fail, hang or recover, and the log lines about
// them.
import { mock } from 'node:test'
import t from 'tap'
import { preferenceFailures } from '../../lib/channels.js'
import { matchExactly } from '../support/match-exactly.js'
import { published } from '../support/published.js'
import { asAlice, createServer } from '../support/server.js'
import { virtualPerformance } from '../support/time.js'

const configured = 50
const key = 'rate-limit.per-minute'
const never = async () => new Promise(() => {})
const good = () => 7
const bad = () => 'many'
const fail = () => {
  throw new Error('gone')
}

/**
 * A service with a reader that the test controls and a timeout of one millisecond, and the limits
 * that it used.
 */
async function serviceReading (read: () => unknown) {
  const state = { read, asked: 0 }
  const preferences = {
    get () {
      state.asked += 1
      return state.read()
    }
  }
  const server = await createServer({ preferences, perMinute: configured, preferenceTimeout: 1 })
  const ask = async () => (await published(server.ask))[0]?.decision.limit
  return { log: server.log, state, ask }
}

t.test(
  'a reader that does not answer in time is warned of once, and is left alone for a second ' +
    'after three times in a row',
  async (t) => {
    const clock = virtualPerformance(t)
    const { log, state, ask } = await serviceReading(never)
    // Each step: the milliseconds before it, what the reader does, the requests at once, and the
    // calls of the reader so far.
    const steps: [later: number, read: () => unknown, requests: number, asked: number][] = [
      [0, never, 1, 1],
      [0, never, 1, 2],
      [0, good, 1, 3],
      [0, never, 1, 4],
      [0, never, 1, 5],
      [0, never, 1, 6],
      [0, never, 1, 6],
      [999.9, never, 1, 6],
      [0.1, never, 4, 7],
      [0, good, 1, 7],
      [1_000, good, 1, 8],
      [0, good, 1, 9],
      [0, never, 1, 10],
      [0, never, 1, 11]
    ]
    for (const [later, read, requests, asked] of steps) {
      clock.advance(later)
      state.read = read
      const isAsked = state.asked < asked
      const limits = await Promise.all(Array.from({ length: requests }, ask))
      t.same(limits, limits.map(() => (isAsked && read === good ? 7 : configured)))
      t.equal(state.asked, asked)
    }
    matchExactly(t, log.problems(), [
      {
        level: 40,
        timeout: 1,
        preference: key,
        configured,
        msg: /did not return in time; .*after 3 timeouts in a row, only one request per second/
      }
    ])
  }
)

t.test('a reader that answers with errors is asked again for each request', async (t) => {
  const clock = virtualPerformance(t)
  const { state, ask } = await serviceReading(async () => {
    throw new Error('gone')
  })
  for (let request = 1; request <= 5; request++) {
    t.equal(await ask(), configured)
    t.equal(state.asked, request)
    clock.advance(1)
  }
})

for (const [what, between] of [
  ['answers', good],
  ['answers with what is no limit', bad],
  ['answers with an error', fail],
  ['rejects', async () => fail()]
] as const) {
  t.test(`timeouts between which the reader ${what} do not leave it alone`, async (t) => {
    virtualPerformance(t)
    const { state, ask } = await serviceReading(never)
    for (const read of [never, never, between, never, never, good]) {
      state.read = read
      t.equal(await ask(), read === good ? 7 : configured)
    }
    t.equal(state.asked, 6)
  })
}

for (const [what, working] of [['returned limits', good], ['had none', () => null]] as const) {
  t.test(`a reader that fails after a minute in which it ${what} is warned of again`, async (t) => {
    const clock = virtualPerformance(t)
    const { log, state, ask } = await serviceReading(bad)
    await ask()
    state.read = working
    // As often as requests come, and not only at the beginning of the minute.
    for (const later of [0, 30_000, 30_000]) {
      clock.advance(later)
      await ask()
    }
    state.read = bad
    await ask()
    t.equal(log.warnings().length, 2)
  })
}

t.test('each request for which a preference failed is published, and one warned of', async (t) => {
  virtualPerformance(t)
  const preferences = new Map([[key, 'many']])
  const { app, ask, log } = await createServer({ preferences })
  const failures = await published(async () => {
    for (let request = 0; request < 3; request++) await ask()
  }, preferenceFailures.name)
  matchExactly(t, failures, Array(3).fill({ server: app.server, preference: key }))
  t.equal(log.warnings().length, 1)
})

t.test('a permit that is taken before the server is ready has the preference, too', async (t) => {
  const { app } = await createServer({ preferences: new Map([[key, 1]]), perMinute: configured })
  const { decisions } = await app.quotaAcquire(asAlice(), 'default')
  matchExactly(t, decisions, [{ limit: 1 }])
})

t.test('a preference that fails or is left alone does not affect another', async (t) => {
  virtualPerformance(t)
  const asked: string[] = []
  const preferences = {
    get: (key: string) => {
      asked.push(key)
      return key.includes('chat') ? never() : 7
    }
  }
  const { ask } = await createServer({
    mark: ['default', 'chat'],
    preferences,
    preferenceTimeout: 1,
    quotas: { chat: {} }
  })
  for (let request = 0; request < 5; request++) {
    matchExactly(t, (await ask()).json(), [{ limit: 7 }, { limit: 10 }])
  }
  t.same(asked.filter((key) => key.includes('chat')), Array(3).fill('rate-limit.chat.per-minute'))
})

/** How many timers keep the process alive. */
function timersRunning (): number {
  return process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length
}

t.test(
  'an answer that arrives after the timeout has no effect, and no timer remains after one in time',
  async (t) => {
    for (const settle of ['resolve', 'reject'] as const) {
      let settleLate = (): void => {}
      const { log, state, ask } = await serviceReading(
        () =>
          new Promise((resolve, reject) => {
            settleLate =
              settle === 'resolve'
                ? () => {
                    resolve(7)
                  }
                : () => {
                    reject(new Error('late'))
                  }
          })
      )
      t.equal(await ask(), configured)
      settleLate()
      await new Promise(setImmediate)
      t.equal(await ask(), configured)
      t.same([state.asked, log.warnings().length], [2, 1])
    }
    for (const get of [
      async () => 7,
      async () => {
        throw new Error('gone')
      }
    ]) {
      const { ask } = await createServer({ preferences: { get }, preferenceTimeout: 1_000_000 })
      const before = timersRunning()
      await ask()
      t.equal(timersRunning(), before)
    }
  }
)

t.test(
  'a reader that alternates between valid and invalid values does not flood the log',
  async (t) => {
    const clock = virtualPerformance(t)
    const { log, state, ask } = await serviceReading(bad)
    // Each step: the value that the reader returns, the milliseconds since the previous step, and
    // the warnings so far.
    const steps: [() => unknown, number, number][] = [
      [bad, 0, 1],
      [good, 10, 1],
      [bad, 10, 1],
      [good, 0, 1],
      [good, 59_999, 1],
      [bad, 0, 1],
      [good, 120_000, 1],
      [bad, 1, 1],
      [good, 0, 1],
      [bad, 60_000, 2],
      [good, 0, 2],
      [good, 60_000, 2],
      [good, 1, 2],
      [bad, 0, 3],
      [bad, 600_000, 3]
    ]
    for (const [read, later, warnings] of steps) {
      clock.advance(later)
      state.read = read
      t.equal(await ask(), read === good ? 7 : configured)
      t.equal(log.warnings().length, warnings, `${read.name} at ${clock.now()} ms`)
    }
  }
)

t.test(
  'one warning tells why a reader failed: its error, or the type of what it returned, or a number',
  async (t) => {
    const secret = 'hunter2'
    const failure = Object.assign(new Error('the preferences are down'), { secret })
    const failing: [read: () => unknown, shown: object][] = [
      ...[
        () => {
          throw failure
        },
        async () => {
          throw failure
        },
        () => ({
          then () {
            throw failure
          }
        })
      ].map((read): [() => unknown, object] => [read, { err: { message: failure.message } }]),
      ...(
        [
          [secret, 'a string'],
          [1.5, '1.5'],
          [4n, '4n'],
          [{ secret }, 'an object'],
          [Object.assign(() => {}, { secret }), 'a function'],
          [[secret], 'an array'],
          [`https://user:${secret}@host`, 'a string'],
          [Symbol(secret), 'a symbol']
        ] as const
      ).map(([value, shown]): [() => unknown, object] => [() => value, { value: shown }])
    ]
    const clock = virtualPerformance(t)
    const { log, state, ask } = await serviceReading(good)
    for (const [read, shown] of failing) {
      // It works for a minute.
      state.read = good
      await ask()
      clock.advance(60_000)
      log.lines.length = 0
      state.read = read
      t.same([await ask(), await ask()], [configured, configured])
      matchExactly(t, log.problems(), [{ level: 40, preference: key, configured, ...shown }])
      t.notMatch(JSON.stringify(log.lines), secret)
    }
  }
)

t.test('a thenable that is fulfilled with a promise has no more time than a promise', async (t) => {
  const thenable = {
    then: (fulfil: (value: unknown) => void) => {
      fulfil(never())
    }
  }
  const { ask, log } = await serviceReading(() => thenable)
  t.equal(await ask(), configured)
  matchExactly(t, log.warnings(), [/did not return in time/])
})

t.test(
  'a reader delays a request by one second at most by default, and an answer that has ' +
    'arrived by then is used',
  async (t) => {
    mock.timers.enable({ apis: ['setTimeout'] })
    t.teardown(() => {
      mock.timers.reset()
    })
    let noteAsked = (): void => {}
    let answer = (_limit: number): void => {}
    const { ask } = await createServer({
      preferences: {
        get: () =>
          new Promise((resolve) => {
            answer = resolve
            noteAsked()
          })
      },
      perMinute: 1
    })
    for (const [status, isAnswered] of [[200, false], [429, false], [200, true]] as const) {
      const asked = new Promise<void>((resolve) => {
        noteAsked = resolve
      })
      const response = ask()
      await asked
      for (let passed = 0; passed < 1_000; passed += 10) mock.timers.tick(10)
      // As after a stall of the event loop, in which the answer had arrived.
      if (isAnswered) answer(2)
      t.equal((await response).statusCode, status)
    }
  }
)

t.test(
  'a process with nothing else to do waits for the configured limit, and for the decision ' +
    'without one',
  async (t) => {
    const { app } = await createServer({
      preferences: { get: (name) => (name === key ? never() : undefined) },
      preferenceTimeout: 20,
      quotas: { chat: { perDay: async () => new Promise(() => {}) } }
    })
    await app.ready()
    for (const [name, outcome, limit] of [
      ['default', 'admitted', 10],
      ['chat', 'unavailable', 0]
    ] as const) {
      const before = timersRunning()
      const permit = app.quotaAcquire(asAlice(), name)
      t.equal(timersRunning(), before + 1)
      matchExactly(t, (await permit).decisions, [{ outcome, limit }])
    }
  }
)
