// How what waits is sent: one call at a time, with retries, late replies and time limits. The
// driver does what a test says, and time is virtual.
import t from 'tap'
import { CallQueue } from '../../lib/store/shared/call-queue.js'
import {
  NotRunError,
  TryAgainError,
  type Call,
  type Connection,
  type Reply
} from '../../lib/store/shared/driver.js'
import { RunningClock } from '../../lib/store/shared/running-clock.js'
import { Sender } from '../../lib/store/shared/sender.js'
import { VirtualClock } from '../../lib/testing.js'
import { demand, estimate, place } from '../support/demands.js'
import { DriverServer } from '../support/driver-server.js'

type Run = (call: Call) => Promise<Reply>

async function turns (count = 12): Promise<void> {
  for (let turn = 0; turn < count; turn++) await new Promise(setImmediate)
}

/** A sender whose connections and calls do what a test says. */
class Subject {
  readonly time = new VirtualClock()
  /** How long the event loop has stalled. */
  stalled = 0
  readonly now = (): number => this.time.now() + this.stalled
  readonly server = new DriverServer(this.now)
  /** When each call was sent, and how many requests it has. */
  readonly calls: [sentAt: number, requests: number][] = []
  released = 0
  connecting: () => Connection | Promise<Connection> = () => this.connection
  run: Run = (call) => this.server.decide(call)
  readonly ended: string[] = []
  readonly connection: Connection = {
    run: (call) => {
      this.calls.push([this.now(), call.requests.length])
      return this.run(call)
    },
    release: () => {
      this.released += 1
    }
  }

  readonly #running = new RunningClock(this.now, this.time)
  readonly #queue = new CallQueue({
    mostDemands: 384,
    hasJournal: false,
    canRepeat: false,
    ages: this.#running.now,
    recall: () => null,
    onGivenBack () {}
  })

  readonly #sender = new Sender({
    driver: Object.assign(this.server, { connect: () => this.connecting() }),
    queue: this.#queue,
    running: this.#running,
    clock: this.now,
    time: () => null,
    timers: this.time
  })

  ask (caller: string, more = {}): void {
    this.#queue.addRequest([demand(caller, more)], {
      resolve: ({ acquisitions }) => {
        this.ended.push(`${caller}: ${acquisitions[0]?.count}`)
      },
      reject: (error) => {
        this.ended.push(`${caller}: ${error instanceof Error ? error.message : error}`)
      }
    })
    this.#sender.wake()
  }

  /** Gives back one token that the caller has counted. */
  async settle (caller = 'alice'): Promise<void> {
    const id = this.server.window(demand(caller, estimate()))?.id ?? 0
    const [counters, window] = ['chat.tokens.day', 60_000]
    const settlement = { counters, row: caller, windowId: id, window, lessCount: 1 }
    return await new Promise((resolve, reject) => {
      this.#queue.addSettlement(
        { ...settlement, lessHeld: new Map(), once: null, reference: null },
        {
          resolve: () => {
            resolve()
          },
          reject
        }
      )
      this.#sender.wake()
    })
  }

  async pass (milliseconds: number): Promise<void> {
    for (let left = milliseconds; left > 0; left -= 50) {
      this.time.advance(Math.min(50, left))
      await turns()
    }
  }
}

const lose: Run = () => Promise.reject(new Error('the connection was lost'))

t.test('requests of one turn share a call, and those that come meanwhile the next', async (t) => {
  const subject = new Subject()
  let go = (): void => {}
  subject.run = async (call) => {
    await new Promise<void>((resolve) => {
      go = resolve
    })
    return await subject.server.decide(call)
  }
  for (const caller of ['alice', 'bob']) subject.ask(caller)
  await turns()
  for (const caller of ['carol', 'dave', 'alice']) subject.ask(caller)
  await turns()
  t.same(subject.calls, [[0, 2]], 'one call is under way')
  go()
  await turns()
  go()
  await turns()
  t.same(subject.calls, [[0, 2], [0, 3]])
  t.same(subject.ended, ['alice: 1', 'bob: 1', 'carol: 1', 'dave: 1', 'alice: 2'])
})

t.test('while the client is not ready, nothing is sent and nothing is lost', async (t) => {
  const subject = new Subject()
  subject.ask('alice', estimate(3))
  await turns()
  subject.connecting = () => {
    throw new TryAgainError(new Error('the client is not connected'))
  }
  const settled = subject.settle()
  subject.ask('bob')
  await subject.pass(2_000)
  t.equal(subject.calls.length, 1)
  subject.connecting = () => subject.connection
  await subject.pass(50)
  t.same(subject.ended, ['alice: 3', 'bob: 1'])
  await settled
  t.match(subject.server.count(demand('alice', estimate())), { count: 2 })
})

t.test('a request that waits for a client for 2.5 s fails, and a settlement waits', async (t) => {
  const subject = new Subject()
  subject.ask('alice', estimate(3))
  await turns()
  subject.connecting = () => {
    throw new TryAgainError(new Error('the client is not connected'))
  }
  const settled = subject.settle()
  subject.ask('bob')
  await subject.pass(2_450)
  t.same(subject.ended.slice(1), [])
  await subject.pass(100)
  t.same(subject.ended.slice(1), ['bob: the client is not connected'])
  await subject.pass(20_000)
  subject.connecting = () => subject.connection
  await subject.pass(1_000)
  await settled
  t.match(subject.server.count(demand('alice', estimate())), { count: 2 })
})

t.test('a connection that fails has lost nothing, and requests fail at once', async (t) => {
  const failures = {
    'by an exception': () => {
      throw new Error('refused')
    },
    'by a rejection': () => Promise.reject(new Error('refused'))
  }
  for (const [how, fail] of Object.entries(failures)) {
    const subject = new Subject()
    subject.ask('alice', estimate(3))
    await turns()
    subject.connecting = fail
    const settled = subject.settle()
    subject.ask('bob')
    await turns()
    t.same(subject.ended, ['alice: 3', 'bob: refused'], how)
    subject.connecting = () => subject.connection
    await subject.pass(1_000)
    await settled
  }
})

t.test('a connection that does not come is waited for by each request for 5 s, and given up ' +
  'after 2.5 s', async (t) => {
  const subject = new Subject()
  let arrive = (): void => {}
  let asked = 0
  subject.connecting = () => {
    asked += 1
    return new Promise((resolve) => {
      arrive = () => {
        resolve(subject.connection)
      }
    })
  }
  subject.ask('alice')
  await turns()
  const late = arrive
  await subject.pass(2_000)
  subject.ask('bob')
  await subject.pass(600)
  t.same(subject.ended, ['alice: no response within 2500 ms'])
  await subject.pass(100)
  t.equal(asked, 2)
  late()
  await turns()
  t.equal(subject.released, 1, 'a connection that comes too late is released')
  arrive()
  await turns()
  t.same(subject.ended.slice(1), ['bob: 1'])
})

t.test('a call without a reply fails after 2.5 s, and what it counted is given back when the ' +
  'reply comes', async (t) => {
  const subject = new Subject()
  let reply = (): void => {}
  subject.run = (call) => new Promise((resolve) => {
    reply = () => {
      resolve(subject.server.decide(call))
    }
  })
  subject.ask('alice', estimate(3))
  subject.ask('alice', place())
  subject.ask('alice')
  await turns()
  await subject.pass(2_450)
  t.same(subject.ended, [])
  await subject.pass(50)
  const message = 'alice: no response within 2500 ms'
  t.same(subject.ended, [message, message, message])
  const late = reply
  subject.run = (call) => subject.server.decide(call)
  late()
  await subject.pass(1_000)
  t.match(subject.server.count(demand('alice', estimate())), { count: 0, held: 0 })
  t.match(subject.server.count(demand('alice', place())), { count: 0 })
  t.match(subject.server.count(demand('alice')), { count: 0 })
})

t.test('a stall of the event loop is no failure of the server', async (t) => {
  const subject = new Subject()
  subject.ask('alice')
  subject.stalled += 2_600
  await turns()
  t.same(subject.ended, ['alice: 1'], 'before the call is sent')
  let reply = (): void => {}
  subject.run = (call) => new Promise((resolve) => {
    reply = () => {
      resolve(subject.server.decide(call))
    }
  })
  subject.ask('alice')
  await turns()
  subject.ask('bob')
  subject.stalled += 2_600
  await subject.pass(100)
  reply()
  await turns()
  reply()
  await turns()
  t.same(subject.ended, ['alice: 1', 'alice: 2', 'bob: 1'], 'while a call is under way')
})

t.test('while a call has failed, an empty one a second shows the end of that', async (t) => {
  const subject = new Subject()
  subject.ask('alice', estimate(3))
  await turns()
  subject.run = lose
  subject.ask('bob')
  await turns()
  const settled = subject.settle()
  await turns()
  await subject.pass(10_000)
  t.same(
    subject.calls.slice(2),
    Array.from({ length: 11 }, (_, second) => [second * 1_000, 0])
  )
  subject.run = (call) => subject.server.decide(call)
  await subject.pass(1_000)
  await settled
  t.match(subject.server.count(demand('alice', estimate())), { count: 2 })
})

t.test('a call that the server has refused is sent again if it can succeed', async (t) => {
  const subject = new Subject()
  let refusals = 3
  subject.run = (call) => {
    refusals -= 1
    if (refusals >= 0) return Promise.reject(new TryAgainError(new Error('the keys are moving')))
    return subject.server.decide(call)
  }
  subject.ask('alice')
  await turns()
  await subject.pass(150)
  t.same(subject.calls, [[0, 1], [50, 1], [100, 1], [150, 1]])
  t.same(subject.ended, ['alice: 1'])
})

t.test('requests fail with the error of a call that has not run', async (t) => {
  const subject = new Subject()
  subject.run = () => Promise.reject(new NotRunError(new Error('the server is full')))
  subject.ask('alice')
  await turns()
  t.same(subject.ended, ['alice: the server is full'])
})

t.test('a place is renewed every 10 s, without requests', async (t) => {
  const subject = new Subject()
  subject.ask('alice', place())
  await turns()
  await subject.pass(60_000)
  t.match(subject.server.count(demand('alice', place())), { count: 1 })
  t.same(
    subject.calls.map(([sentAt]) => Math.round(sentAt / 1_000)),
    [0, 10, 20, 30, 40, 50, 60].slice(0, subject.calls.length)
  )
  t.ok(subject.calls.length >= 6)
})

t.test('settlements do not fall behind admissions, with round trips of 100 ms', async (t) => {
  const subject = new Subject()
  subject.run = async (call) => {
    const reply = await subject.server.decide(call)
    await new Promise<void>((resolve) => {
      subject.time.setTimeout(resolve, 100)
    })
    return reply
  }
  const unlimited = { limit: Number.MAX_SAFE_INTEGER }
  let longestWait = 0
  // 800 requests a second, and as many settlements in other windows, which no request takes along.
  for (let step = 0; step < 100; step++) {
    for (let index = 0; index < 40; index++) {
      const caller = `caller-${step}-${index}`
      subject.ask(caller, unlimited)
      subject.ask(caller, estimate(3, unlimited))
      const askedAt = subject.now()
      subject.settle(`earlier ${caller}`).then(() => {
        longestWait = Math.max(longestWait, subject.now() - askedAt)
      })
    }
    await subject.pass(50)
  }
  await subject.pass(500)
  t.equal(subject.ended.length, 100 * 40 * 2)
  t.ok(longestWait <= 300, `the longest settlement has waited for ${longestWait} ms`)
})

t.test('under lasting overload, as many requests are admitted as the server decides on',
  async (t) => {
    const subject = new Subject()
    let sent = 0
    subject.run = async (call) => {
      sent += call.requests.length
      const reply = await subject.server.decide(call)
      // The server decides on 500 requests a second.
      await new Promise<void>((resolve) => {
        subject.time.setTimeout(resolve, call.requests.length * 2)
      })
      return reply
    }
    for (let step = 0; step < 400; step++) {
      for (let request = 0; request < 38; request++) {
        subject.ask('alice', { limit: Number.MAX_SAFE_INTEGER })
      }
      await subject.pass(50)
    }
    const failed = subject.ended.filter((each) => each.endsWith('within 2500 ms')).length
    const admitted = subject.ended.length - failed
    t.ok(admitted > 9_000, `${admitted} of ${sent} requests that were sent are admitted`)
    t.ok(sent - admitted <= 384, `only requests that were not sent have failed: ${failed}`)
  }
)
