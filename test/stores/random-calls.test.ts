// Calls of several processes that are late, lost or rolled back in random orders, and what their
// server counts and which places it has in the end. Without promises, timers or servers.
import { deepEqual } from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import { required } from '../../lib/required.js'
import { periodLength } from '../../lib/store/counter.js'
import type { SentCall } from '../../lib/store/shared/batch.js'
import { CallQueue } from '../../lib/store/shared/call-queue.js'
import type { Reply } from '../../lib/store/shared/driver.js'
import { placeDuration } from '../../lib/store/shared/held-places.js'
import { readReceipt, settlementOf } from '../../lib/store/shared/receipts.js'
import { nobody } from '../../lib/store/shared/ended.js'
import type { Acquisitions, Demand } from '../../lib/store/store.js'
import { demand, estimate, place } from '../support/demands.js'
import { DriverServer, type Window } from '../support/driver-server.js'
import { assertProperty } from '../support/property.js'

// Of tokens in a window, and of places.
const limit = 6
const callers = ['alice', 'bob', 'carol']
const runs = Number(process.env.RANDOM_WALKS ?? 150)

/** A request, and what is true of it. */
interface Use {
  readonly process: Process
  readonly tokens: Demand
  readonly place: Demand | null
  state: 'asked' | 'admitted' | 'rejected' | 'failed'
  acquisitions: Acquisitions
  /** What was granted and not given back. */
  left: number
  held: number
  isRunning: boolean
  /** What the server has counted of it, and where. */
  counted: { readonly window: Window; readonly amount: number } | null
  /** Whether its user was told that what it counts may be wrong, or its process was killed. */
  isUncertain: boolean
}

/** A call that was sent; with its reply if the server has done it. */
interface Sending {
  readonly process: Process
  readonly sent: SentCall
  reply: Reply | null
}

class Process {
  isAlive = true
  /** The call that is under way. */
  sending: Sending | null = null
  readonly queue: CallQueue

  constructor (readonly ages: () => number) {
    // So few that what waits needs several calls.
    const mostDemands = 3
    this.queue = new CallQueue({
      mostDemands,
      hasJournal: false,
      canRepeat: false,
      ages,
      recall: () => null,
      onGivenBack () {}
    })
  }
}

type Asking =
  readonly ['ask', process: number, caller: number, least: number, more: number, place: boolean]
type Step =
  | Asking
  | readonly ['settle', use: number, used: number]
  | readonly ['send' | 'do' | 'succeed' | 'time out' | 'roll back' | 'kill', process: number]
  | readonly ['late' | 'lost', call: number]
  | readonly ['pass', milliseconds: number]
  | readonly ['lose all']

/** Processes, their server, and what is true, kept without the code of lib. */
class World {
  #time = 1_000_000
  readonly #server: DriverServer
  readonly #processes: Process[]
  readonly #uses: Use[] = []
  readonly #useOf = new Map<Demand, Use>()
  /** The calls that have failed for their processes, and may still arrive. */
  #late: Sending[] = []
  #hasLost = false
  #calls = 0

  constructor (cap: number) {
    const now = (): number => this.#time
    this.#server = new DriverServer(now, cap)
    this.#processes = [new Process(now), new Process(now)]
  }

  take (step: Step): void {
    switch (step[0]) {
      case 'ask':
        this.#ask(step)
        break
      case 'settle':
        this.#settle(this.#uses[step[1] % Math.max(1, this.#uses.length)], step[2])
        break
      case 'late':
      case 'lost':
        this.#arrive(step[0], step[1])
        break
      case 'pass':
        this.#time += step[1]
        break
      case 'lose all':
        this.#server.removeAll()
        break
      default:
        this.#act(step[0], step[1])
    }
    this.#assertLimits()
  }

  /** Lets everything come to its end, and compares. */
  finish (): void {
    while (this.#late.length > 0) this.#arrive('late', 0)
    // Longer than a place lasts, so that only those of requests that run are left.
    for (let passed = 0; passed < 45_000; passed += 1_000) {
      this.#time += 1_000
      this.#sendAll()
    }
    const asked = this.#uses.filter(({ state }) => state === 'asked')
    if (asked.length > 0) throw new Error(`${asked.length} requests are not answered`)
    this.#assertPlaces()
    for (const use of this.#uses) this.#settle(use, use.left)
    this.#sendAll()
    this.#assertPlaces()
    this.#assertCounts()
  }

  #ask ([, number, caller, least, more, takesPlace]: Asking): void {
    const process = required(this.#processes[number], 'a process')
    const callerKey = required(callers[caller], 'a caller')
    const asked = { most: least + more, limit, window: 60_000 }
    const tokens = demand(callerKey, { ...estimate(least), ...asked })
    const use: Use = {
      process,
      tokens,
      place: takesPlace ? demand(callerKey, place(limit)) : null,
      state: 'asked',
      acquisitions: [],
      left: 0,
      held: 0,
      isRunning: false,
      counted: null,
      isUncertain: false
    }
    this.#uses.push(use)
    this.#useOf.set(tokens, use)
    process.queue.addRequest(use.place === null ? [tokens] : [tokens, use.place], {
      resolve: ({ acquisitions }) => {
        decide(use, acquisitions)
      },
      reject: () => {
        use.state = 'failed'
      }
    })
  }

  /** Reports what was used, and frees the place. */
  #settle (use: Use | undefined, used: number): void {
    if (use?.process.isAlive !== true || use.state !== 'admitted') return
    const [ofTokens, ofPlace] = use.acquisitions
    const read = readReceipt(ofTokens?.receipt)
    if (read.kind === 'window') {
      const less = { count: Math.max(0, use.left - used), held: use.held }
      use.left -= less.count
      use.held = 0
      use.process.queue.addSettlement(settlementOf(read.counted, less, null), {
        resolve () {},
        reject: () => {
          use.isUncertain = true
        }
      })
    }
    if (!use.isRunning) return
    const taken = readReceipt(ofPlace?.receipt)
    if (taken.kind === 'place') use.process.queue.addFreed(taken.place, nobody)
    use.isRunning = false
  }

  #act (kind: 'send' | 'do' | 'succeed' | 'time out' | 'roll back' | 'kill', number: number): void {
    const process = required(this.#processes[number], 'a process')
    const { queue, sending } = process
    if (kind === 'kill') return this.#kill(process, number)
    if (kind === 'send') {
      if (sending !== null) return
      this.#calls += 1
      const sent = queue.next(this.#time, {
        text: `process:${this.#calls}`,
        number: this.#calls
      })
      process.sending = sent && { process, sent, reply: null }
      return
    }
    if (sending === null) return
    if (kind === 'do') return this.#do(sending)
    if (kind === 'succeed') {
      if (sending.reply === null) return
      queue.succeeded(sending.reply)
    } else if (kind === 'time out') {
      queue.failed('unknown', new Error('no response'))
      this.#late.push(sending)
    } else {
      if (sending.reply !== null) return
      queue.failed('not-run', new Error('rolled back'))
    }
    process.sending = null
  }

  #do (sending: Sending): void {
    if (sending.reply !== null) return
    this.#calls += 1
    sending.reply = this.#server.apply({
      process: 'any',
      number: this.#calls,
      time: null,
      placeDuration,
      periodLength,
      firstWindowId: 100 * this.#calls,
      ...sending.sent.content
    })
    for (const [index, { demands: [tokens] }] of sending.sent.content.requests.entries()) {
      const [decided, ...others] = sending.reply.decided[index] ?? []
      if (tokens === undefined || decided === undefined) throw new Error('nothing was decided')
      if (![decided, ...others].every(({ admitted }) => admitted)) continue
      const window = required(this.#server.window(tokens, decided.overflow), 'the window')
      const use = required(this.#useOf.get(tokens), 'the request')
      use.counted = { window, amount: decided.granted }
    }
  }

  /** A call that has failed for its process arrives and is answered, or one of both is lost. */
  #arrive (kind: 'late' | 'lost', number: number): void {
    const [sending] = this.#late.splice(number % Math.max(1, this.#late.length), 1)
    if (sending === undefined) return
    if (kind === 'lost') {
      this.#hasLost = true
      return
    }
    this.#do(sending)
    const { process, sent, reply } = sending
    if (process.isAlive) process.queue.arrivedLate(sent, required(reply, 'the reply'))
  }

  #kill (process: Process, number: number): void {
    process.isAlive = false
    this.#hasLost = true
    for (const use of this.#uses) {
      if (use.process !== process) continue
      use.isRunning = false
      use.isUncertain = true
      if (use.state === 'asked') use.state = 'failed'
    }
    this.#processes[number] = new Process(process.ages)
  }

  #sendAll (): void {
    for (const number of this.#processes.keys()) {
      let isSending = true
      while (isSending) {
        for (const kind of ['do', 'succeed', 'send'] as const) this.#act(kind, number)
        isSending = this.#processes[number]?.sending !== null
      }
    }
  }

  #assertLimits (): void {
    const kept = new Map<Window, number>()
    for (const { state, counted, left } of this.#uses) {
      if (state !== 'admitted') continue
      const { window } = required(counted, 'what the server has counted')
      const sum = (kept.get(window) ?? 0) + left
      if (sum > limit) throw new Error(`${sum} is granted in a window of ${limit}`)
      kept.set(window, sum)
    }
  }

  #assertPlaces (): void {
    for (const caller of callers) {
      const found = this.#server.places(demand(caller, place()))
      const running = this.#uses.filter((use) => use.isRunning && use.place?.callerKey === caller)
      const expected = running.map((use) => nameOfPlace(use))
      deepEqual(found.sort(), expected.sort(), `the places of ${caller}`)
    }
  }

  #assertCounts (): void {
    for (const caller of callers) {
      for (const overflow of [true, false]) {
        const window = this.#server.window(demand(caller, estimate()), overflow)
        if (window !== undefined) this.#assertCounted(window)
      }
    }
  }

  #assertCounted (window: Window): void {
    // What is late is counted in the end. A settlement waits for as long as a window lasts.
    const isExact = !this.#hasLost && window.ends > this.#time
    let least = 0
    let uncertain = 0
    let mostHeld = 0
    for (const { state, counted, left, isUncertain } of this.#uses) {
      if (counted?.window !== window) continue
      const due = state === 'admitted' ? left : 0
      least += due
      if (isExact || (state === 'admitted' && !isUncertain)) continue
      uncertain += counted.amount - due
      mostHeld += counted.amount
    }
    const { count, heldByPeriod } = window
    if (count < least || count > least + uncertain) {
      throw new Error(`a window counts ${count}, not ${least} to ${least + uncertain}`)
    }
    for (const held of heldByPeriod.values()) {
      if (held < 0 || held > mostHeld) {
        throw new Error(`a window holds ${held}, not 0 to ${mostHeld}`)
      }
    }
  }
}

function decide (use: Use, acquisitions: Acquisitions): void {
  const [ofTokens] = acquisitions
  if (acquisitions.some((acquisition) => acquisition?.admitted !== true)) {
    use.state = 'rejected'
    return
  }
  use.state = 'admitted'
  use.acquisitions = acquisitions
  use.left = ofTokens?.granted ?? 0
  use.held = use.left
  use.isRunning = use.place !== null
}

function nameOfPlace ({ acquisitions: [, ofPlace] }: Use): string {
  const read = readReceipt(ofPlace?.receipt)
  return read.kind === 'place' ? read.place.name : 'no place'
}

const anyProcess = fc.nat({ max: 1 })
const anyNumber = fc.nat({ max: 20 })
const times = [1, 100, 1_000, 6_000, 12_000, 31_000, 60_000]
const choices: readonly (readonly [weight: number, arbitrary: fc.Arbitrary<Step>])[] = [
  [
    6,
    fc.tuple(
      fc.constant('ask'),
      anyProcess,
      fc.nat({ max: 2 }),
      fc.nat({ max: 2 }),
      fc.nat({ max: 3 }),
      fc.boolean()
    )
  ],
  [5, fc.tuple(fc.constant('settle'), anyNumber, fc.nat({ max: 6 }))],
  [14, fc.tuple(fc.constantFrom('send', 'do', 'succeed'), anyProcess)],
  [2, fc.tuple(fc.constantFrom('time out', 'roll back'), anyProcess)],
  [2, fc.tuple(fc.constantFrom('late', 'lost'), anyNumber)],
  [2, fc.tuple(fc.constant('pass'), fc.constantFrom(...times))],
  [1, fc.tuple(fc.constant('kill'), anyProcess)],
  [1, fc.constant(['lose all'] as const)]
]
const anyStep = fc.oneof(...choices.map(([weight, arbitrary]) => ({ weight, arbitrary })))

for (const [what, step] of [
  ['a window counts no less than what was used', anyStep],
  [
    'if no call is lost for ever, a window counts exactly what was used',
    anyStep.filter(([kind]) => kind !== 'lost' && kind !== 'kill')
  ]
] as const) {
  t.test(`however calls are late or fail, ${what}, and places are those in use`, async () => {
    const steps = fc.array(step, { minLength: 1, maxLength: 120, size: 'max' })
    const cap = fc.constantFrom(1, Infinity)
    const property = fc.asyncProperty(cap, steps, async (cap, steps) => {
      const world = new World(cap)
      for (const each of steps) world.take(each)
      world.finish()
    })
    await assertProperty(property, { numRuns: runs, endOnFailure: false })
  })
}
