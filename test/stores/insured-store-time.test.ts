// When an insured store takes its primary for silent, and the effect of a stalled event loop.
import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import type { Acquisitions, Demand, QuotaStore } from '../../lib/store/store.js'
import { MemoryQuotaStore } from '../../lib/store/memory/memory-store.js'
import { VirtualClock } from '../../lib/testing/virtual-clock.js'
import { demand } from '../support/demands.js'
import { answered, insure, pass } from '../support/told-store.js'
import { until } from '../support/until.js'

// After a time limit, a result that arrives within five turns of the event loop is used.
const moreThanGrace = 7

async function passTurns (turns: number): Promise<void> {
  for (let passed = 0; passed < turns; passed++) await turn()
}

/** An insured store whose primary hangs, and a request that waits for it. */
function wait (options?: Parameters<typeof insure>[0], clock?: VirtualClock) {
  const insured = insure(options, clock)
  insured.primary.manner = 'hangs'
  const asked = insured.store.acquire([demand('a')])
  return { ...insured, count: async () => (await answered(insured.clock, asked))[0]?.count }
}

/** A store whose requests wait in a queue of this process. A test says when one is answered. */
class QueuedStore implements QuotaStore {
  readonly memory: MemoryQuotaStore
  readonly #queue: (() => void)[] = []
  isRemembered = false
  hasFailed = false

  constructor (clock: VirtualClock) {
    this.memory = new MemoryQuotaStore({ clock: clock.now })
  }

  async acquire (demands: readonly Demand[]): Promise<Acquisitions> {
    await new Promise<void>((resolve) => {
      this.#queue.push(resolve)
    })
    if (this.hasFailed) throw new Error('no connection')
    const decided = this.memory.acquire(demands)
    if (!this.isRemembered) return decided
    return decided.map((each) => ({ ...each, isRemembered: true }))
  }

  answerNext (): void {
    this.#queue.shift()?.()
  }
}

for (const timeout of [0.5, 1, 30, 1_000]) {
  t.test(`the fallback is used after a timeout of ${timeout} ms, and not earlier`, async (t) => {
    const inTime = wait({ timeout })
    await pass(inTime.clock, Math.ceil(timeout) - 1)
    inTime.primary.answerNow()
    t.equal(await inTime.count(), 77, 'a result just before the timeout is used')
    t.equal(inTime.store.state, 'primary')

    const tooLate = wait({ timeout })
    tooLate.clock.advance(Math.ceil(timeout))
    await until('the primary has failed', () => tooLate.store.state === 'fallback')
    tooLate.primary.answerNow()
    t.equal(await tooLate.count(), 1, 'a later result is not used')
    t.equal(tooLate.store.state, 'fallback')
  })
}

t.test(
  'a healthy primary is kept although a thousand requests in one write wait for longer than the ' +
    'timeout, and nobody gets a second limit',
  async (t) => {
    const clock = new VirtualClock()
    const primary = new QueuedStore(clock)
    const { store, fallback } = insure({ primary }, clock)
    const asked = Promise.all(
      Array.from({ length: 1_000 }, () => store.acquire([demand('a', { limit: 20 })]))
    )
    for (let request = 0; request < 1_000; request++) {
      await pass(clock, 2)
      primary.answerNext()
    }
    const admitted = (await asked).filter(([acquisition]) => acquisition?.admitted === true)
    t.equal(admitted.length, 20)
    t.equal(clock.now(), 2_000)
    t.same(store.decisions, { primary: 1_000, fallback: 0 })
    t.equal(store.state, 'primary')
    t.equal(fallback.inspect('default').trackedCallers, 0)
  }
)

t.test('all that wait use the fallback when a primary that answered is silent', async (t) => {
  const clock = new VirtualClock()
  const primary = new QueuedStore(clock)
  const { store } = insure({ primary }, clock)
  const asked = Promise.all(Array.from({ length: 10 }, () => store.acquire([demand('a')])))
  for (let request = 0; request < 4; request++) {
    await pass(clock, 25)
    primary.answerNext()
  }
  await pass(clock, 29)
  t.equal(store.state, 'primary')
  const since = clock.now()
  await answered(clock, asked)
  t.ok(clock.now() - since < 10)
  t.same(store.decisions, { primary: 4, fallback: 6 })
  t.equal(store.state, 'fallback')
})

for (const [what, manner, decisions] of [
  ['what a primary remembers', { isRemembered: true }, { primary: 1, fallback: 2 }],
  ['a call that fails', { hasFailed: true }, { primary: 0, fallback: 3 }]
] as const) {
  t.test(`${what} is no sign that the server of a primary answers`, async (t) => {
    const clock = new VirtualClock()
    const primary = new QueuedStore(clock)
    const { store } = insure({ primary }, clock)
    primary.memory.acquire([demand('a', { limit: 1 })])
    Object.assign(primary, manner)
    const asked = Promise.all([1, 2, 3].map(() => store.acquire([demand('a', { limit: 1 })])))
    await pass(clock, 20)
    primary.answerNext()
    await pass(clock, 20)
    await answered(clock, asked)
    t.same(store.decisions, decisions)
    t.ok(clock.now() < 50)
  })
}

t.test('standings are no sign that decisions are answered', async (t) => {
  const clock = new VirtualClock()
  const queued = new QueuedStore(clock)
  const primary = {
    acquire: (demands: readonly Demand[]) => queued.acquire(demands),
    peek: async (asked: Demand) => queued.memory.peek(asked)
  }
  const { store } = insure({ primary }, clock)
  const asked = store.acquire([demand('a')])
  for (let time = 0; time < 40; time += 5) {
    await store.peek?.(demand('a'))
    await pass(clock, 5)
  }
  t.equal(store.state, 'fallback')
  await answered(clock, asked)
})

t.test('a result that is read within a few turns after the timeout is used', async (t) => {
  for (const [turns, expected] of [[0, 77], [1, 77], [4, 77], [moreThanGrace, 1]] as const) {
    const { clock, primary, count } = wait()
    clock.advance(30)
    await passTurns(turns)
    primary.answerNow()
    t.equal(await count(), expected, `${turns} turns`)
  }
})

t.test('a stall of the event loop counts as a tenth of the timeout at most', async (t) => {
  for (const [answerAfter, expected] of [[26, 77], [28, 1]] as const) {
    const clock = new VirtualClock()
    const stalls = [10_000]
    const timers = {
      setTimeout: (callback: () => void, delay: number) =>
        clock.setTimeout(callback, delay + (stalls.shift() ?? 0)),
      clearTimeout: clock.clearTimeout
    }
    const { primary, count } = wait({ timers }, clock)
    clock.advance(10_003)
    await pass(clock, answerAfter)
    await passTurns(moreThanGrace)
    primary.answerNow()
    t.equal(await count(), expected, `${answerAfter} ms after the stall`)
  }
})

t.test('no timer remains after a result', async (t) => {
  const pending = new Set<unknown>()
  const timers = {
    setTimeout () {
      const timer = {}
      pending.add(timer)
      return timer
    },
    clearTimeout (timer: unknown) {
      pending.delete(timer)
    }
  }
  const { primary, store } = insure({ timers })
  for (const manner of ['promises', 'rejects'] as const) {
    primary.manner = manner
    const asked = store.acquire([demand('a')])
    t.equal(pending.size, 1)
    await asked
    t.equal(pending.size, 0, manner)
  }
})
