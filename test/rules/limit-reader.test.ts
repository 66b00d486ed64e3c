// docs/rules.md, "Limit": preference readers that fail, hang or recover, and the log lines about them.
import { mock } from 'node:test'
import t from 'tap'
import { alice, analyze, captureLog, createService, published } from '../support/service.js'
import { virtualPerformance } from '../support/virtual-performance.js'

const configured = 50
const key = 'rate-limit.per-minute'

function never (): Promise<unknown> {
  return new Promise(() => {})
}

/** A service with a reader that the test controls and a timeout of one millisecond, and the limits that it used. */
async function serviceReading (read: () => unknown) {
  const log = captureLog()
  const state = { read, asked: 0 }
  const preferences = { get () { state.asked += 1; return state.read() } }
  const app = await createService({ preferences, perMinute: configured, preferenceTimeout: 1 }, { logger: log.logger })
  const ask = async () => (await published(() => analyze(app, alice)))[0]?.decision.limit
  return { log, state, ask }
}

t.test('the configured limit applies, with one warning, if a reader does not answer in time', async (t) => {
  virtualPerformance(t)
  const { log, ask, state } = await serviceReading(never)
  t.equal(await ask(), configured)
  t.equal(await ask(), configured)
  t.equal(state.asked, 2, 'the reader is called for the next request again')
  t.match(log.lines.filter(({ level }) => level === 40), [{ timeout: 1, preference: key, configured, msg: /did not return in time; the configured limit applies/ }])
  t.equal(log.warnings().length, 1)
})

t.test('a reader that did not answer in time three times in a row is not called for one second, and a warning says so', async (t) => {
  const clock = virtualPerformance(t)
  const { log, state, ask } = await serviceReading(never)
  for (let request = 0; request < 3; request++) await ask()
  t.match(log.warnings(), [/did not return in time; the configured/, /3 times in a row; until it does, only one request per second calls it/])
  clock.advance(999.9)
  t.equal(await ask(), configured)
  t.equal(state.asked, 3)

  t.test('after one second, one request calls the reader again and no other request waits', async (t) => {
    clock.advance(0.1)
    const limits = await Promise.all([ask(), ask(), ask(), ask()])
    t.same(limits, [configured, configured, configured, configured])
    t.equal(state.asked, 4)
    await ask()
    t.equal(state.asked, 4, 'the second has begun again')
    t.equal(log.warnings().length, 2)
  })

  t.test('a reader that has answered is called for every request again', async (t) => {
    clock.advance(1000)
    state.read = async () => 7
    t.same([await ask(), await ask()], [7, 7])
    state.read = never
    t.same([await ask(), await ask()], [configured, configured])
    t.equal(state.asked, 8)
  })
})

t.test('timeouts that are not in a row do not make a reader rest', async (t) => {
  virtualPerformance(t)
  const { state, ask } = await serviceReading(never)
  for (let round = 0; round < 3; round++) {
    for (const read of [never, never, async () => 7]) {
      state.read = read
      await ask()
    }
  }
  t.equal(state.asked, 9)
})

t.test('an answer that arrives after the timeout has no effect', async (t) => {
  virtualPerformance(t)
  for (const settle of ['resolve', 'reject'] as const) {
    let settleLate = (): void => {}
    const { log, state, ask } = await serviceReading(() => new Promise((resolve, reject) => {
      settleLate = settle === 'resolve' ? () => { resolve(7) } : () => { reject(new Error('late')) }
    }))
    t.equal(await ask(), configured)
    settleLate()
    await new Promise(setImmediate)
    t.equal(await ask(), configured)
    t.equal(state.asked, 2)
    t.equal(log.warnings().length, 1)
  }
})

t.test('no timer remains after the reader has answered or failed', async (t) => {
  const timers = () => process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length
  for (const get of [async () => 7, async () => { throw new Error('gone') }]) {
    const app = await createService({ preferences: { get }, preferenceTimeout: 1_000_000 })
    const before = timers()
    await analyze(app, alice)
    t.equal(timers(), before)
  }
})

t.test('a reader that alternates between valid and invalid values does not flood the log', async (t) => {
  const clock = virtualPerformance(t)
  const { log, state, ask } = await serviceReading(() => 'many')
  const good = () => 7
  const bad = () => 'many'
  // Each step: the value that the reader returns, the milliseconds since the previous step, and the warnings so far.
  const steps: [() => unknown, number, number][] = [
    [bad, 0, 1], [good, 10, 1], [bad, 10, 1],
    [good, 0, 1], [good, 59_999, 1], [bad, 0, 1],
    [good, 120_000, 1], [bad, 1, 1],
    [good, 0, 1], [bad, 60_000, 2],
    [good, 0, 2], [good, 60_000, 2], [good, 1, 2], [bad, 0, 3], [bad, 600_000, 3]
  ]
  for (const [read, later, warnings] of steps) {
    clock.advance(later)
    state.read = read
    t.equal(await ask(), read === good ? 7 : configured)
    t.equal(log.warnings().length, warnings, `${read.name} at ${clock.now()} ms`)
  }
})

t.test('a warning contains strings and numbers, but no objects', async (t) => {
  const secret = 'hunter2'
  const values: [unknown, string][] = [
    ['many', '"many"'], [1.5, '1.5'], [4n, '4n'], [{ secret }, 'an object'], [Object.assign(() => {}, { secret }), 'a function'], [[secret], 'an array'], [`https://user:${secret}@host`, 'a URL']
  ]
  for (const [value, shown] of values) {
    const { log, ask } = await serviceReading(() => value)
    await ask()
    t.match(log.lines.filter(({ level }) => level === 40), [{ value: shown }])
    t.notMatch(JSON.stringify(log.lines), secret)
  }
})

t.test('the configured limit applies, with one warning that contains the error, if a reader fails', async (t) => {
  const failure = new Error('the preferences are down')
  const failing: [string, () => unknown][] = [
    ['throws', () => { throw failure }],
    ['rejects', async () => { throw failure }],
    ['returns an object whose then throws', () => ({ then () { throw failure } })]
  ]
  for (const [what, read] of failing) {
    const { log, ask } = await serviceReading(read)
    t.same([await ask(), await ask()], [configured, configured], what)
    t.match(log.lines.filter(({ level }) => level === 40), [{ preference: key, configured, err: { message: failure.message } }])
    t.equal(log.warnings().length, 1)
  }
})

t.test('a reader delays a request by one second at most by default, and an answer that has arrived by then is used', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => { mock.timers.reset() })
  let noteAsked = (): void => {}
  let answer = (_limit: number): void => {}
  const app = await createService({ preferences: { get: () => new Promise((resolve) => { answer = resolve; noteAsked() }) }, perMinute: 1 })
  for (const [status, isAnswered] of [[200, false], [429, false], [200, true]] as const) {
    const asked = new Promise<void>((resolve) => { noteAsked = resolve })
    const response = analyze(app, alice)
    await asked
    mock.timers.tick(1_000)
    // As after a stall of the event loop, in which the answer had arrived.
    if (isAnswered) answer(2)
    t.equal((await response).statusCode, status)
  }
})
