// docs/rules.md, "Waiting": who is next in a line, and who finds no place in it. Without stores, in
// virtual time.
import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import type { Waiting } from '../../lib/permit/waiting/line.js'
import { Lines } from '../../lib/permit/waiting/lines.js'
import type { QuotaCount } from '../../lib/store/store.js'
import { VirtualClock } from '../../lib/testing.js'
import { heapUsed } from '../support/heap.js'
import { setWallClock } from '../support/time.js'

/** A counter with so much room, and the requests that wait for it. */
class Counter {
  room = 0
  /** When each request asked. */
  readonly askedAt: number[] = []
  readonly served: string[] = []
  readonly rejected: string[] = []
  readonly clock = new VirtualClock()
  readonly timers = new CountedTimers(this.clock)
  readonly lines: Lines<Request>

  constructor (queue = Infinity) {
    this.lines = new Lines(queue, { clock: this.clock.now, timers: this.timers })
  }

  /** Adds a request to a line. */
  join (name: string, turn: string, { needed = 1, count = full, line = 'counter' } = {}): void {
    this.lines.join(line, new Request(this, name, turn, needed), count)
  }

  /** Adds room, and waits until nobody asks any more. */
  async free (room: number): Promise<void> {
    this.room += room
    this.lines.freed('counter')
    await turn()
  }

  async advance (ms: number): Promise<void> {
    this.clock.advance(ms)
    await turn()
  }

  leave (name: string): void {
    for (const request of this.lines.waiting) {
      if (request.name === name) this.lines.leave(request)
    }
  }
}

class CountedTimers {
  running = 0
  readonly #clock: VirtualClock

  constructor (clock: VirtualClock) {
    this.#clock = clock
  }

  setTimeout (callback: () => void, delay: number): unknown {
    this.running += 1
    return this.#clock.setTimeout(() => {
      this.running -= 1
      callback()
    }, delay)
  }

  clearTimeout (timer: unknown): void {
    this.running -= 1
    this.#clock.clearTimeout(timer)
  }
}

class Request implements Waiting {
  constructor (
    readonly counter: Counter,
    readonly name: string,
    readonly turn: string,
    readonly needed: number
  ) {}

  async ask (): Promise<void> {
    const { counter } = this
    counter.askedAt.push(counter.clock.now())
    if (counter.room < this.needed) return
    counter.room -= this.needed
    counter.served.push(this.name)
    counter.lines.leave(this)
  }

  /** Leaves if its window ends more than a second later. */
  consider ({ windowRemaining }: QuotaCount): void {
    if (windowRemaining !== null && windowRemaining > 1000) this.counter.lines.leave(this)
  }

  fail (): void {
    this.counter.lines.leave(this)
  }

  reject (): void {
    this.counter.rejected.push(this.name)
  }

  close (): void {
    this.counter.lines.leave(this)
  }
}

const full: QuotaCount = { count: 10, held: 10, windowRemaining: null }

t.test('callers take turns, and the requests of one keep their order', async (t) => {
  const counter = new Counter()
  const expected: string[] = []
  for (let caller = 0; caller < 50; caller++) {
    for (let request = 0; request < 20; request++) {
      counter.join(`${caller}.${request}`, `${caller}`)
      // The first of each caller, the second of each, and so on.
      expected[request * 50 + caller] = `${caller}.${request}`
    }
  }
  await counter.free(400)
  await counter.free(600)
  t.same(counter.served, expected)
})

t.test('one request of a caller is next but one behind a hundred of another', async (t) => {
  const counter = new Counter()
  for (let request = 0; request < 100; request++) counter.join(`many ${request}`, 'many')
  counter.join('one', 'single')
  await counter.free(1)
  counter.join('two', 'single')
  await counter.free(3)
  t.same(counter.served, ['many 0', 'one', 'many 1', 'two'])
})

t.test('a caller whose first request leaves keeps its turn', async (t) => {
  const counter = new Counter()
  for (const request of ['1', '2', '3']) counter.join(`a${request}`, 'a')
  counter.join('b1', 'b')
  counter.leave('a1')
  await counter.free(4)
  t.same(counter.served, ['a2', 'b1', 'a3'])
})

t.test('a request that needs much room waits in front until there is as much', async (t) => {
  const counter = new Counter()
  counter.join('much', 'a', { needed: 5 })
  counter.join('little', 'b')
  await counter.free(4)
  t.same(counter.served, [])
  await counter.free(2)
  t.same(counter.served, ['much', 'little'])
})

t.test('only the first in a line asks, every 500 ms and when something came free', async (t) => {
  const counter = new Counter()
  for (let request = 0; request < 1000; request++) counter.join(`${request}`, `${request % 50}`)
  await counter.advance(400)
  await counter.free(0)
  for (let step = 0; step < 25; step++) await counter.advance(100)
  t.same(counter.askedAt, [400, 900, 1400, 1900, 2400, 2900])
  t.equal(counter.timers.running, 1)
})

t.test('the first asks again at once for what came free while it asked', async (t) => {
  const counter = new Counter()
  counter.join('first', 'a')
  counter.lines.freed('counter')
  // The request has asked, and its line does not know yet that it stays.
  counter.room = 1
  counter.lines.freed('counter')
  await turn()
  t.same(counter.served, ['first'])
  t.same(counter.askedAt, [0, 0])
})

const wallClock = Date.parse('2026-03-01T12:00:00Z')
const windows: [name: string, count: QuotaCount][] = [
  ['the rest of a window', { count: 10, held: 0, windowRemaining: 170 }],
  ['the end of a day', { count: 10, held: 0, windowRemaining: null, end: wallClock + 170 }]
]
for (const [name, count] of windows) {
  t.test(`the first in a line asks when its window ends, with ${name}`, async (t) => {
    const counter = new Counter()
    setWallClock(t)(wallClock)
    counter.join('first', 'a', { count })
    await counter.advance(169)
    t.same(counter.askedAt, [])
    await counter.advance(1)
    t.same(counter.askedAt, [170])
  })
}

t.test('an end that has passed does not make the first ask all the time', async (t) => {
  const counter = new Counter()
  setWallClock(t)(wallClock)
  const count = { count: 10, held: 0, windowRemaining: null, end: wallClock - 1 }
  counter.join('first', 'a', { count })
  await counter.advance(499)
  t.same(counter.askedAt, [])
})

t.test('a line says what its counter held last, and how much of the window is left', async (t) => {
  const counter = new Counter()
  counter.join('first', 'a', { count: { count: 10, held: 3, windowRemaining: 300 } })
  counter.clock.advance(100)
  const line = counter.lines.lineOf('counter')
  t.same(line?.count, { count: 10, held: 3, windowRemaining: 200 })
  line?.note({ count: 9, held: 0, windowRemaining: 50 })
  counter.clock.advance(20)
  t.same(line?.count, { count: 9, held: 0, windowRemaining: 30 })
})

t.test('a full queue rejects the newest request of the caller with the most', async (t) => {
  const counter = new Counter(5)
  for (const request of ['1', '2', '3', '4', '5']) counter.join(`a${request}`, 'a')
  // For each arriving request, the one that is rejected.
  const arriving: [name: string, turn: string, rejected: string][] = [
    ['a6', 'a', 'a6'],
    ['b1', 'b', 'a5'],
    ['b2', 'b', 'a4'],
    // With it, b has as many as a.
    ['b3', 'b', 'b3'],
    ['c1', 'c', 'a3'],
    // Each has at most two.
    ['d1', 'd', 'b2'],
    ['e1', 'e', 'a2'],
    ['f1', 'f', 'f1']
  ]
  for (const [name, turn] of arriving) counter.join(name, turn)
  t.same(
    counter.rejected,
    arriving.map(([, , rejected]) => rejected)
  )
  await counter.free(9)
  t.same(counter.served, ['a1', 'b1', 'c1', 'd1', 'e1'])
})

t.test('the bound of a quota is that of all its lines together', async (t) => {
  const counter = new Counter(2)
  const names = ['a', 'b', 'c']
  for (const name of names) counter.join(name, name, { line: name })
  t.same(counter.rejected, ['c'])
  t.same(
    names.map((name) => counter.lines.lineOf(name) === undefined),
    [false, false, true]
  )
})

t.test('nothing is left behind by 20,000 requests that have waited', async (t) => {
  const counter = new Counter(1000)
  const before = heapUsed()
  for (let thousand = 0; thousand < 20; thousand++) {
    for (let request = 0; request < 1000; request++) counter.join('', `${request % 50}`)
    for (const waiting of counter.lines.waiting.slice(0, 500)) counter.lines.leave(waiting)
    await counter.free(500)
    counter.served.length = 0
    counter.askedAt.length = 0
  }
  t.equal(counter.timers.running, 0)
  t.same(counter.lines.waiting, [])
  t.equal(counter.lines.lineOf('counter'), undefined)
  t.ok(heapUsed() - before < 600_000, 'thirty bytes for each at most')
})
