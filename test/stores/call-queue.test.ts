// What a process asks of a server: in which order it is sent, what goes into a call, and what
// becomes of it when a call fails. Without promises, timers or servers.
import t from 'tap'
import { required } from '../../lib/required.js'
import type { CallContent, SentCall } from '../../lib/store/shared/batch.js'
import { CallQueue } from '../../lib/store/shared/call-queue.js'
import type { Decided, NamedPlace, Reply, Settlement } from '../../lib/store/shared/driver.js'
import type { Ended } from '../../lib/store/shared/ended.js'
import type { Acquisitions, Demand } from '../../lib/store/store.js'
import { demand, estimate, place } from '../support/demands.js'

const mostDemands = 8
const lost = new Error('the connection was lost')

/** A queue whose clocks a test sets, and what has ended, in its order. */
class Subject {
  age = 0
  now = 0
  known: Acquisitions | null = null
  #calls = 0
  readonly ended: string[] = []
  readonly queue: CallQueue

  constructor ({ canRepeat = false } = {}) {
    this.queue = new CallQueue({
      mostDemands,
      hasJournal: false,
      canRepeat,
      ages: () => this.age,
      recall: () => this.known,
      onGivenBack () {}
    })
  }

  ask (caller: string, more: Partial<Demand> = {}): void {
    this.queue.addRequest([demand(caller, more)], this.#note(`request of ${caller}`))
  }

  look (caller: string, more: Partial<Demand> = {}): void {
    this.queue.addStanding(demand(caller, more), this.#note(`standing of ${caller}`))
  }

  settle (caller: string, more: Partial<Settlement> = {}): void {
    this.queue.addSettlement(settlementOf(caller, more), this.#note(`settlement of ${caller}`))
  }

  free (caller: string, name: string): void {
    this.queue.addFreed(placeOf(caller, name), this.#note(`place ${name}`))
  }

  /** Takes the next call, and shows what it does. */
  next (): readonly string[] | null {
    const sent = this.take()
    return sent && shown(sent.content)
  }

  take (): SentCall | null {
    this.#calls += 1
    return this.queue.next(this.now, { text: String(this.#calls), number: this.#calls })
  }

  /** Takes the next call and lets it succeed, each request having room. Shows what it does. */
  send (): readonly string[] | null {
    const sent = this.take()
    if (sent === null) return null
    this.queue.succeeded(replyTo(sent.content))
    return shown(sent.content)
  }

  /** Sends all calls, and shows what each does. */
  sendAll (): (readonly string[])[] {
    const calls: (readonly string[])[] = []
    while (this.queue.hasRequests || this.queue.hasDuties(this.now)) {
      calls.push(required(this.send(), 'a call'))
    }
    return calls
  }

  #note (what: string): Ended<unknown> {
    return {
      resolve: (result) => {
        const isRejected = JSON.stringify(result)?.includes('"admitted":false')
        this.ended.push(isRejected ? `${what} is rejected` : `${what} is done`)
      },
      reject: (error) => {
        this.ended.push(`${what}: ${error instanceof Error ? error.message : error}`)
      }
    }
  }
}

function settlementOf (callerKey: string, more: Partial<Settlement> = {}): Settlement {
  return {
    counters: 'default',
    row: callerKey,
    windowId: 1,
    window: 60_000,
    lessCount: 1,
    lessHeld: new Map(),
    once: null,
    reference: null,
    ...more
  }
}

function placeOf (callerKey: string, name: string): NamedPlace {
  return { counters: 'streams.concurrent', callerKey, name }
}

function shown (content: CallContent): readonly string[] {
  return [
    ...content.freed.map(({ name }) => `free ${name}`),
    ...content.renewed.map(({ name }) => `renew ${name}`),
    ...content.settlements.map(({ row, lessCount }) => `settle ${row} by ${lessCount}`),
    ...content.requests.map(({ demands }) => `ask ${demands[0]?.callerKey}`),
    ...content.standings.map(({ callerKey }) => `look ${callerKey}`)
  ]
}

function replyTo ({ settlements, requests, standings }: CallContent): Reply {
  const decided: Decided = {
    admitted: true,
    granted: 1,
    count: 1,
    held: 0,
    windowRemaining: 60_000,
    overflow: false,
    windowId: 1
  }
  return {
    period: 0,
    applied: settlements.map(() => true),
    decided: requests.map(({ demands }) => demands.map(() => decided)),
    standings: standings.map(() => null)
  }
}

const numbers = (count: number) => Array.from({ length: count }, (_, index) => index)

t.test('what waits goes into one call, in the order of what the server does', (t) => {
  const subject = new Subject()
  subject.look('carol')
  subject.ask('alice')
  subject.settle('bob')
  subject.free('bob', 'one')
  t.same(subject.next(), ['free one', 'settle bob by 1', 'ask alice', 'look carol'])
  t.end()
})

t.test('there is no call where nothing waits', (t) => {
  const { queue } = new Subject()
  t.equal(queue.isIdle, true)
  t.equal(queue.next(0, { text: 'call', number: 1 }), null)
  t.end()
})

t.test('a request is decided after all that was given back in its counters before', (t) => {
  const subject = new Subject()
  for (const index of numbers(100)) {
    subject.free(`caller-${index}`, `place of ${index}`)
    subject.settle(`caller-${index}`)
  }
  // Their duties are among the newest.
  for (const index of [97, 98]) {
    subject.ask(`caller-${index}`, place())
    subject.ask(`caller-${index}`)
  }
  const done = required(subject.send(), 'a call')
  for (const index of [97, 98]) {
    t.ok(done.includes(`free place of ${index}`))
    t.ok(done.includes(`settle caller-${index} by 1`))
  }
  t.same(done.slice(-4), ['ask caller-97', 'ask caller-97', 'ask caller-98', 'ask caller-98'])
  t.end()
})

t.test('a request whose counter has more duties than a call waits, and no other one does', (t) => {
  const subject = new Subject()
  for (const index of numbers(20)) subject.free('alice', `place ${index}`)
  subject.ask('alice', place())
  subject.ask('bob', place())
  const calls = subject.sendAll()
  t.same(
    calls.map((call) => call.filter((each) => each.startsWith('ask'))),
    [['ask bob'], [], ['ask alice']]
  )
  t.same(calls.map((call) => call.filter((each) => each.startsWith('free')).length), [8, 8, 4])
  t.end()
})

t.test('duties do not fall behind requests, nor requests behind duties', (t) => {
  const subject = new Subject()
  let isBehind = false
  for (const round of numbers(100)) {
    for (const index of numbers(mostDemands)) {
      subject.ask(`caller-${round} ${index}`)
      subject.settle(`other caller-${round} ${index}`)
      subject.free(`other caller-${round} ${index}`, `place ${round} ${index}`)
    }
    const call = required(subject.send(), 'a call')
    if (call.length !== 3 * mostDemands) isBehind = true
  }
  t.equal(isBehind, false)
  t.equal(subject.queue.isIdle, true)
  t.end()
})

t.test('the oldest duties are in a call even if its requests have as many as it takes', (t) => {
  const subject = new Subject()
  subject.settle('oldest')
  for (const index of numbers(40)) subject.free('alice', `place ${index}`)
  for (const index of numbers(40)) subject.settle('alice', { windowId: index })
  subject.ask('alice')
  t.ok(subject.next()?.includes('settle oldest by 1'))
  t.end()
})

t.test('standings are in a call beside as many demands as it takes', (t) => {
  const subject = new Subject()
  for (const index of numbers(100)) {
    subject.ask(`caller-${index}`)
    subject.look(`caller-${index}`)
  }
  const call = required(subject.send(), 'a call')
  t.equal(call.filter((each) => each.startsWith('ask')).length, mostDemands)
  t.equal(call.filter((each) => each.startsWith('look')).length, mostDemands / 4)
  t.end()
})

t.test('equal standings are one, and all are answered', (t) => {
  const subject = new Subject()
  for (let asked = 0; asked < 5; asked++) subject.look('alice', { limit: asked + 1 })
  subject.look('alice', { start: 0, end: 1 })
  t.same(subject.send(), ['look alice', 'look alice'])
  t.same(subject.ended, numbers(6).map(() => 'standing of alice is done'))
  t.end()
})

t.test('requests keep their order, and one with more demands than a call has is alone', (t) => {
  const subject = new Subject()
  const many = (caller: string) =>
    subject.queue.addRequest(
      numbers(mostDemands + 1).map((index) => demand(caller, { counters: `quota ${index}` })),
      { resolve () {}, reject () {} }
    )
  subject.ask('alice')
  many('bob')
  many('carol')
  subject.ask('dave')
  subject.ask('erin')
  t.same(subject.sendAll(), [['ask alice'], ['ask bob'], ['ask carol'], ['ask dave', 'ask erin']])
  t.end()
})

t.test('settlements of one window are one, and change it by their sum', (t) => {
  const subject = new Subject()
  subject.settle('alice', { lessCount: 2, lessHeld: new Map([[1, 5]]) })
  subject.settle('alice', { lessCount: 3, lessHeld: new Map([[1, 5], [2, 1]]) })
  subject.settle('alice', { windowId: 2 })
  subject.settle('bob')
  t.strictSame(subject.take()?.content.settlements, [
    settlementOf('alice', { lessCount: 5, lessHeld: new Map([[1, 10], [2, 1]]) }),
    settlementOf('alice', { windowId: 2 }),
    settlementOf('bob')
  ])
  t.end()
})

t.test('joined settlements give back the largest count at most', (t) => {
  const subject = new Subject()
  const most = Number.MAX_SAFE_INTEGER
  for (const lessCount of [most, most, 1]) {
    subject.settle('alice', { lessCount, lessHeld: new Map([[1, lessCount]]) })
  }
  t.strictSame(subject.take()?.content.settlements, [
    settlementOf('alice', { lessCount: most, lessHeld: new Map([[1, most]]) })
  ])
  t.end()
})

t.test('settlements that are remembered or written down are not joined', (t) => {
  const subject = new Subject()
  for (const more of [{ once: 'text' }, { reference: 'request 1' }]) {
    for (const each of [more, more]) subject.settle('alice', each)
  }
  t.equal(subject.send()?.length, 4)
  t.end()
})

t.test('whether a settlement with a text was the first is what the server says', (t) => {
  const { queue } = new Subject()
  const results: unknown[] = []
  const note = { resolve: (result: unknown) => results.push(result), reject () {} }
  queue.addSettlement(settlementOf('alice', { once: 'text' }), note)
  queue.addSettlement(settlementOf('alice', { once: 'text' }), note)
  queue.addSettlement(settlementOf('alice'), note)
  const sent = required(queue.next(0, { text: 'call', number: 1 }), 'a call')
  queue.succeeded({ ...replyTo(sent.content), applied: [true, false, true] })
  t.same(results, [true, false, undefined])
  t.end()
})

t.test('what is known to be rejected is rejected among those who wait, before each call', (t) => {
  const subject = new Subject()
  subject.ask('alice')
  subject.send()
  subject.ask('alice')
  subject.ask('alice')
  const rejection = { admitted: false, granted: 0, count: 1, held: 0, windowRemaining: 1 }
  subject.known = [rejection]
  t.equal(subject.next(), null)
  t.same(subject.ended.slice(1), numbers(2).map(() => 'request of alice is rejected'))
  t.end()
})

t.test('a request waits for 2.5 s in which the event loop runs, then it fails', (t) => {
  const subject = new Subject()
  subject.ask('alice')
  subject.look('alice')
  subject.age = 1
  subject.ask('bob')
  subject.age = 2_500
  t.same(subject.next(), ['ask bob'])
  const message = 'no response within 2500 ms'
  t.same(subject.ended, [`request of alice: ${message}`, `standing of alice: ${message}`])
  t.end()
})

t.test('who waits too long while the server answers is told of overload', (t) => {
  for (const kind of [null, 'try-again'] as const) {
    const subject = new Subject()
    for (const index of numbers(mostDemands)) subject.ask(`caller-${index}`)
    subject.ask('alice')
    subject.look('alice')
    subject.look('bob')
    subject.look('carol')
    subject.look('dave')
    subject.age = 1
    subject.ask('erin')
    subject.send()
    // What has been asked since then gets the reason of the attempts.
    subject.age = 2
    subject.ask('frank')
    subject.age = 2_502
    subject.ended.length = 0
    if (kind === null) subject.next()
    else subject.queue.failed(kind, lost)
    const overload =
      'more requests arrive than the quota store decides: after 2500 ms, the request was not sent'
    t.same(subject.ended, [
      `request of alice: ${overload}`,
      `request of erin: ${kind === null ? 'no response within 2500 ms' : lost.message}`,
      `request of frank: ${kind === null ? 'no response within 2500 ms' : lost.message}`,
      `standing of carol: ${overload}`,
      `standing of dave: ${overload}`
    ])
  }
  t.end()
})

t.test('a settlement waits as long as its window lasts, and 5 s at least', (t) => {
  const cases = [
    [60_000, 59_999, true],
    [60_000, 60_000, false],
    [1_000, 4_999, true],
    [1_000, 5_000, false]
  ] as const
  for (const [window, age, isSent] of cases) {
    const subject = new Subject()
    subject.settle('alice', { window })
    subject.age = age
    t.same(subject.send(), isSent ? ['settle alice by 1'] : null, `${age} of ${window} ms`)
    const message = 'settlement of alice: the settlement waited until its window was over'
    t.same(subject.ended, [isSent ? 'settlement of alice is done' : message])
  }
  t.end()
})

t.test('a place that has waited to be freed for 30 s has ended, and is free', (t) => {
  const subject = new Subject()
  subject.free('alice', 'one')
  subject.age = 30_000
  t.equal(subject.next(), null)
  t.same(subject.ended, ['place one is done'])
  t.end()
})

const everything = ['free one', 'settle alice by 1', 'ask bob', 'look carol']

function failedCall (kind: 'try-again' | 'not-run' | 'unknown'): Subject {
  const subject = new Subject()
  subject.settle('alice')
  subject.free('alice', 'one')
  subject.ask('bob')
  subject.look('carol')
  subject.next()
  subject.queue.failed(kind, lost)
  return subject
}

t.test('a call that can succeed in a moment has lost nothing, and all of it is sent again', (t) => {
  const subject = failedCall('try-again')
  t.same(subject.ended, [])
  t.same(subject.send(), everything)
  t.end()
})

t.test('a call that has not run has lost no duty, and its requests fail', (t) => {
  const subject = failedCall('not-run')
  t.same(subject.ended, [`request of bob: ${lost.message}`, `standing of carol: ${lost.message}`])
  t.same(subject.send(), ['free one', 'settle alice by 1'])
  t.end()
})

t.test('what a refused call settles is sent again as it was, if it may have run before', (t) => {
  const subject = new Subject({ canRepeat: true })
  subject.settle('alice')
  subject.free('bob', 'one')
  const refused = required(subject.take(), 'a call')
  subject.queue.failed('not-run', lost)
  subject.settle('alice', { lessCount: 2 })
  subject.ask('alice')
  for (const kind of ['try-again', 'not-run'] as const) {
    const repeated = required(subject.take(), 'the call again')
    t.same(shown(repeated.content), ['settle alice by 1'], 'nothing else, and no newer settlement')
    t.equal(repeated.number, refused.number)
    subject.queue.failed(kind, lost)
  }
  t.same(subject.ended, [`request of alice: ${lost.message}`], 'with the second refusal')
  subject.ask('alice')
  t.same(subject.sendAll(), [
    ['settle alice by 1'],
    ['free one', 'settle alice by 2', 'ask alice']
  ])
  t.equal(subject.queue.isIdle, true)
  t.end()
})

t.test('of a call that may have run, only what can be done twice is sent again', (t) => {
  const subject = failedCall('unknown')
  t.same(subject.ended.sort(), [
    `place one: ${lost.message}`,
    `request of bob: ${lost.message}`,
    `settlement of alice: ${lost.message}`,
    `standing of carol: ${lost.message}`
  ])
  t.same(subject.send(), ['free one'])
  t.end()
})

t.test('a call that could not be sent at all fails those who wait, and nothing else', (t) => {
  for (const [kind, ended] of [
    ['try-again', []],
    ['not-run', [`request of alice: ${lost.message}`, `standing of alice: ${lost.message}`]]
  ] as const) {
    const subject = new Subject()
    subject.ask('alice')
    subject.look('alice')
    subject.settle('alice')
    subject.queue.failed(kind, lost)
    t.same(subject.ended, ended, kind)
    t.ok(subject.next()?.includes('settle alice by 1'))
  }
  t.end()
})

t.test('a request fails with the reason of the attempts when its time is over', (t) => {
  const subject = new Subject()
  subject.ask('alice')
  subject.age = 2_500
  subject.queue.failed('try-again', lost)
  t.same(subject.ended, [`request of alice: ${lost.message}`])
  t.end()
})

t.test('places that a call may have taken are freed', (t) => {
  const subject = new Subject()
  subject.ask('alice', place())
  subject.next()
  subject.queue.failed('unknown', lost)
  t.same(subject.send(), ['free 1:0'])
  t.equal(subject.queue.isIdle, true)
  t.end()
})

t.test('after a call without a reply, one without settlements shows that the server works', (t) => {
  const subject = failedCall('unknown')
  subject.send()
  subject.settle('alice')
  subject.ask('dave')
  subject.next()
  subject.queue.failed('unknown', lost)
  subject.settle('bob')
  subject.settle('bob', { windowId: 2 })
  subject.ask('bob')
  t.same(subject.send(), [], 'an empty call, since bob cannot be decided before')
  t.same(subject.send(), ['settle bob by 1', 'settle bob by 1', 'ask bob'])
  t.end()
})

t.test('a request that waits for such a call fails with it', (t) => {
  for (const kind of ['not-run', 'unknown'] as const) {
    const subject = new Subject()
    subject.ask('dave')
    subject.next()
    subject.queue.failed('unknown', lost)
    subject.settle('bob')
    subject.ask('bob')
    t.same(subject.next(), [])
    subject.ask('carol')
    subject.queue.failed(kind, lost)
    t.same(subject.ended.slice(1), [`request of bob: ${lost.message}`], kind)
    t.ok(subject.next()?.includes('ask carol'))
  }
  t.end()
})

t.test('while the server fails, as many as 10,000 settlements wait, the newest ones', (t) => {
  const subject = new Subject()
  subject.queue.failed('not-run', lost)
  for (const index of numbers(10_002)) subject.settle(`caller-${index}`)
  for (const index of numbers(10_001)) subject.free('alice', `place-${index}`)
  const message = 'more than 10000 settlements or freed places wait for the server'
  t.equal(subject.ended.pop(), `place place-0: ${message}`, 'places, too')
  t.same(
    subject.ended,
    ['caller-0', 'caller-1'].map((caller) => `settlement of ${caller}: ${message}`)
  )
  t.end()
})

t.test('while the server answers, any number waits', (t) => {
  const subject = new Subject()
  for (const index of numbers(10_100)) subject.settle(`caller-${index}`)
  subject.sendAll()
  t.equal(subject.ended.filter((each) => each.endsWith('done')).length, 10_100)
  t.end()
})

t.test('settlements that wait again stay the oldest, and join newer ones of their window', (t) => {
  const subject = new Subject()
  subject.settle('alice')
  subject.settle('bob')
  subject.next()
  subject.settle('carol')
  subject.settle('bob')
  subject.queue.failed('not-run', lost)
  t.same(subject.send(), ['settle alice by 1', 'settle bob by 2', 'settle carol by 1'])
  t.same(
    subject.ended,
    ['alice', 'bob', 'bob', 'carol'].map((caller) => `settlement of ${caller} is done`)
  )
  t.end()
})

t.test('a place is renewed 10 s after it was taken or renewed, until it is freed', (t) => {
  const subject = new Subject()
  subject.ask('alice', place())
  subject.send()
  t.equal(subject.queue.isIdle, false)
  subject.now = 9_999
  t.equal(subject.queue.hasDuties(subject.now), false)
  for (const now of [10_000, 20_000]) {
    subject.now = now
    t.same(subject.send(), ['renew 1:0'])
    t.equal(subject.next(), null)
  }
  subject.free('alice', '1:0')
  t.same(subject.send(), ['free 1:0'])
  t.equal(subject.queue.isIdle, true)
  t.end()
})

t.test('places of the caller that have ended are renewed before it takes more', (t) => {
  const subject = new Subject()
  for (const caller of ['alice', ...numbers(20).map(() => 'bob')]) subject.ask(caller, place(99))
  subject.sendAll()
  subject.now = 30_000
  subject.ask('bob', place(99))
  subject.ask('carol', place(99))
  const calls = subject.sendAll()
  const isAsked = (caller: string) => calls.findIndex((call) => call.includes(`ask ${caller}`))
  t.equal(isAsked('carol'), 0)
  t.ok(isAsked('bob') >= 2, 'after two calls of renewals')
  t.end()
})

t.test('places of one caller that have ended are renewed, however many others are not', (t) => {
  const subject = new Subject()
  for (let taken = 0; taken < 20; taken++) subject.ask('alice', place(99))
  subject.sendAll()
  subject.now = 10_000
  subject.send()
  // 8 places last until 40 s, and 12 have ended.
  subject.now = 35_000
  subject.ask('alice', place(99))
  const calls = subject.sendAll()
  t.equal(calls.findIndex((call) => call.includes('ask alice')), 1)
  t.end()
})

t.test('what a late reply has counted is given back', (t) => {
  const subject = new Subject()
  subject.ask('alice', estimate(1))
  subject.ask('bob', place())
  const sent = required(subject.take(), 'a call')
  subject.queue.failed('unknown', lost)
  t.same(subject.send(), ['free 1:1'])
  subject.queue.arrivedLate(sent, replyTo(sent.content))
  t.same(subject.send(), ['free 1:1', 'settle alice by 1'])
  t.end()
})

t.test('a late reply that has rejected a request gives nothing back', (t) => {
  const subject = new Subject()
  subject.ask('alice')
  const sent = required(subject.take(), 'a call')
  subject.queue.failed('unknown', lost)
  const reply = replyTo(sent.content)
  const decided = reply.decided.map((each) =>
    each.map((one) => ({ ...one, admitted: false, granted: 0 }))
  )
  subject.queue.arrivedLate(sent, { ...reply, decided })
  t.equal(subject.queue.isIdle, true)
  t.end()
})
