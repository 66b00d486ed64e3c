// A simulation: processes whose stores count on servers, over a network and with clocks that the
// test controls.
import { setImmediate as turn } from 'node:timers/promises'
import { InsuredQuotaStore, MemoryQuotaStore } from '../../lib/index.js'
import { SharedStore } from '../../lib/store/shared/shared-store.js'
import { required } from '../../lib/required.js'
import type { Acquisition, Demand } from '../../lib/store/store.js'
import { Ledger, usedBy, Violation, type Use } from './ledger.js'
import { Network, SimulatedDriver, type NetworkFaults } from './network.js'
import { ObservedStore, type SettlingStore } from './observed-store.js'
import { Permits, type Asked } from './permits.js'
import { ServerTime } from './server-time.js'
import { rowOf, Server, type Execution, type ServerFaults } from './server.js'
import { VirtualTime } from './virtual-time.js'

const windowLength = 60_000
const limit = 6
// How many callers have a counter of their own, where the cap is what a simulation is about.
const smallCap = 1
// How much time passes at once, so that timers run in their order and none is very late.
const tick = 500
// Turns of the event loop in which nothing happens, after which nothing more will. A store sends
// after one turn, and waits for five after a time limit.
const fewTurns = 2
const manyTurns = 7

/** The store that the processes of a simulation have, or what they have on top of it. */
export type Kind = 'shared' | 'two shards' | 'insured' | 'at the cap' | 'permits'

/** One thing that happens. Numbers choose among what there is. */
export type Step =
  | readonly ['ask', process: number, caller: number, least: number, most: number, place: boolean]
  | readonly ['report' | 'extend', use: number, amount: number]
  | readonly ['end', use: number]
  | readonly ['deliver' | 'lose' | 'repeat' | 'reset', message: number]
  | readonly ['pass', ms: number]
  | readonly ['crash' | 'start', process: number]
  | readonly ['lose all', server: number]
  | readonly ['set clock', server: number, ms: number]
  | readonly ['busy', server: number, calls: number]

/** What is planted. */
export interface Faults {
  readonly server?: ServerFaults
  readonly network?: NetworkFaults
  /** Changes the store of a process. */
  readonly store?: (store: SettlingStore) => SettlingStore
  /** Changes what the permits of a process ask of its store. */
  readonly asked?: (store: SettlingStore) => SettlingStore
}

/** A process whose store counts on the servers. */
interface SimulatedProcess {
  isAlive: boolean
  /** How many of its promises are not answered. */
  openPromises: number
  readonly store: ObservedStore
  readonly permits: Permits
}

/** Everything of one run. */
export class World {
  readonly #time = new VirtualTime()
  readonly #ledger: Ledger
  readonly #network = new Network()
  readonly #times: readonly ServerTime[]
  readonly #servers: readonly Server[]
  readonly #processes: SimulatedProcess[] = []
  readonly #kind: Kind
  readonly #faults: Faults
  // How many promises were answered so far.
  #answered = 0

  constructor (kind: Kind, faults: Faults = {}) {
    this.#kind = kind
    this.#faults = faults
    const cap = kind === 'at the cap' ? smallCap : Infinity
    this.#ledger = new Ledger(windowLength, cap)
    const length = kind === 'two shards' ? 2 : 1
    this.#times = Array.from({ length }, () => new ServerTime(() => this.#time.now))
    this.#servers = this.#times.map((time) => {
      const executed = (executions: readonly Execution[]): void => {
        this.#ledger.note(executions, time)
      }
      return new Server(time, executed, cap, faults.server)
    })
  }

  async start (): Promise<void> {
    this.#time.start()
    for (const number of [0, 1]) this.#processes[number] = await this.#createProcess()
  }

  stop (): void {
    this.#time.stop()
  }

  async run (step: Step): Promise<void> {
    switch (step[0]) {
      case 'ask':
        this.#ask(step)
        break
      case 'report':
        this.#report(step[1], step[2])
        break
      case 'extend':
        this.#withPermit(step[1], (permits, number) => permits.extend(number, step[2]))
        break
      case 'end':
        this.#withPermit(step[1], (permits, number) => permits.end(number))
        break
      case 'deliver':
        this.#network.take(step[1])?.arrive()
        break
      case 'lose':
        this.#network.take(step[1])
        break
      case 'repeat': {
        const message = this.#network.look(step[1])
        if (message?.canBeRepeated === true) message.arrive()
        break
      }
      case 'reset':
        this.#network.look(step[1])?.reset()
        break
      case 'pass':
        await this.#pass(step[1])
        break
      case 'crash':
        this.#crash(step[1])
        break
      case 'start':
        await this.#restart(step[1])
        break
      case 'lose all':
        this.#loseAll(step[1])
        break
      case 'set clock':
        this.#timeOf(step[1]).ahead += step[2]
        break
      case 'busy':
        this.#serverOf(step[1]).busyCalls = step[2]
    }
    await this.#rest(fewTurns)
    this.#ledger.assertAlways()
  }

  /** Lets everything come to its end, and compares. */
  async finish (): Promise<void> {
    // Where a clock was set back, the time goes on with the next call.
    for (const time of this.#times) time.tell()
    await this.#deliverAll()
    // Longer than a lease, so that only the places of requests that run are left.
    for (let passed = 0; passed < 45_000; passed += tick) {
      await this.#pass(tick)
      await this.#deliverAll()
    }
    this.#assertAnswered()
    for (const server of this.#servers) this.#ledger.assertPlacesOn(server)

    this.#endAll()
    await this.#rest(fewTurns)
    await this.#deliverAll()
    for (const server of this.#servers) {
      this.#ledger.assertCountsOn(server)
      this.#ledger.assertPlacesOn(server)
    }
    this.#assertAnswered()
    if (this.#kind !== 'permits') return
    for (const { isAlive, permits } of this.#processes) if (isAlive) permits.assertSettled()
  }

  #assertAnswered (): void {
    this.#ledger.assertAnswered()
    for (const { isAlive, openPromises } of this.#processes) {
      if (isAlive && openPromises > 0) {
        throw new Violation(`${openPromises} promises are not answered`)
      }
    }
  }

  async #createProcess (): Promise<SimulatedProcess> {
    // What the store and the service need to know of their process.
    const identity = { isAlive: true, openPromises: 0 }
    const store = new ObservedStore(this.#createStore(identity), (demands) =>
      this.#begin(identity, demands)
    )
    const permits = new Permits(store)
    const process = Object.assign(identity, { store, permits })
    if (this.#kind === 'permits') await permits.start(this.#faults.asked?.(store) ?? store, limit)
    return process
  }

  #createStore (process: { readonly isAlive: boolean }): SettlingStore {
    const shared = new SharedStore({}, this.#servers.length, (_cap, shard) => {
      const renewed = (): void => {
        this.#ledger.noteRenewal(process, this.#timeOf(shard))
      }
      const { network } = this.#faults
      return new SimulatedDriver(this.#network, this.#serverOf(shard), process, renewed, network)
    })
    const store = this.#kind === 'insured' ? this.#insure(shared) : shared
    return this.#faults.store?.(store) ?? store
  }

  #insure (primary: SharedStore): SettlingStore {
    const fallback = new MemoryQuotaStore()
    const acquire = fallback.acquire.bind(fallback)
    fallback.acquire = (demands) => {
      for (const demand of demands) {
        const use = usedBy(demand)
        if (use !== undefined) {
          use.isElsewhere = true
          use.isUncertain = true
        }
      }
      return acquire(demands)
    }
    const insured = new InsuredQuotaStore({ primary, fallback, timeout: 1_000, coolDown: 5_000 })
    const { settle } = insured
    if (settle === undefined) throw new Error('an insured store of such stores settles')
    return {
      acquire: (demands) => insured.acquire(demands),
      settle: (acquisition, used, end) => settle.call(insured, acquisition, used, end)
    }
  }

  /** Begins a use: the demands of one call of `acquire`. */
  #begin (process: object, demands: readonly Demand[]): Use {
    const window = required(
      demands.find((demand) => demand.window !== null),
      'the demand of a window'
    )
    const place = demands.find((demand) => demand.window === null)
    const use: Use = {
      process,
      time: null,
      row: rowOf(window),
      placeRow: place === undefined ? null : rowOf(place),
      limit,
      least: window.least,
      most: window.most,
      state: 'asked',
      granted: 0,
      reports: [],
      counted: [],
      isUncertain: false,
      isElsewhere: false
    }
    this.#ledger.uses.push(use)
    this.#processes.find((each) => each === process)?.permits.noteBegun(use)
    return use
  }

  #ask ([, number, caller, least, most, place]: Extract<Step, readonly ['ask', ...unknown[]]>) {
    const process = this.#processes[number]
    if (process?.isAlive !== true) return
    const asked = { caller: callerOf(caller), least, most: Math.max(least, most), place }
    if (this.#kind === 'permits') {
      this.#await(process, process.permits.acquire(asked))
      return
    }
    this.#await(process, this.#acquire(process, asked))
  }

  async #acquire ({ store }: SimulatedProcess, asked: Asked): Promise<void> {
    try {
      await store.acquire(demandsOf(asked))
    } catch {
      // The use is uncertain.
    }
  }

  #report (number: number, used: number): void {
    if (this.#kind === 'permits') {
      this.#withPermit(number, (permits, permit) => permits.charge(permit, used))
      return
    }
    const use = this.#ledger.uses[number % Math.max(1, this.#ledger.uses.length)]
    const process = this.#processes.find((each) => each === use?.process)
    if (use === undefined || process?.isAlive !== true) return
    const [window, place] = process.store.acquisitionsOf(use)
    if (window === undefined) return
    use.state = 'ended'
    this.#await(process, this.#settle(process, window, used))
    if (place !== undefined) this.#await(process, this.#settle(process, place, 0))
  }

  async #settle (
    { store }: SimulatedProcess,
    acquisition: Acquisition,
    used: number
  ): Promise<void> {
    try {
      await store.settle(acquisition, used, null)
    } catch {
      // The use is uncertain.
    }
  }

  /** Does something with a permit of a process that lives, if there is one. */
  #withPermit (number: number, act: (permits: Permits, permit: number) => Promise<void>): void {
    const process = this.#processes[number % 2]
    if (process?.isAlive !== true) return
    this.#await(process, act(process.permits, Math.floor(number / 2)))
  }

  /** Ends what runs. */
  #endAll (): void {
    for (const process of this.#processes) {
      if (process.isAlive) this.#await(process, process.permits.endAll())
    }
    if (this.#kind === 'permits') return
    for (const [index, use] of this.#ledger.uses.entries()) {
      if (use.state === 'running') this.#report(index, use.granted)
    }
  }

  /** Counts the promises of a process until they are answered. */
  async #await (process: SimulatedProcess, promise: Promise<void>): Promise<void> {
    process.openPromises += 1
    await promise
    this.#answered += 1
    process.openPromises -= 1
  }

  #crash (number: number): void {
    const process = this.#processes[number]
    if (process?.isAlive !== true) return
    process.isAlive = false
    // A report that is on its way may not arrive.
    for (const use of this.#ledger.uses) {
      if (use.process === process && use.state === 'ended') use.isUncertain = true
    }
    this.#ledger.noteCrash(process)
  }

  async #restart (number: number): Promise<void> {
    if (this.#processes[number]?.isAlive !== false) return
    this.#processes[number] = await this.#createProcess()
  }

  #loseAll (number: number): void {
    const server = this.#serverOf(number)
    this.#ledger.noteLoss(server)
    server.loseAll()
  }

  #serverOf (number: number): Server {
    return required(this.#servers[number % this.#servers.length], 'the server')
  }

  #timeOf (number: number): ServerTime {
    return required(this.#times[number % this.#times.length], 'the time of the server')
  }

  async #deliverAll (): Promise<void> {
    for (
      let message = this.#network.take(0);
      message !== undefined;
      message = this.#network.take(0)
    ) {
      message.arrive()
      await this.#rest(fewTurns)
    }
  }

  async #pass (ms: number): Promise<void> {
    for (let left = ms; left > 0; left -= tick) {
      this.#time.advance(Math.min(left, tick))
      await this.#rest(manyTurns)
    }
  }

  /** Waits until nothing more happens without a message or the clock. */
  async #rest (turns: number): Promise<void> {
    let quietTurns = 0
    while (quietTurns < turns) {
      const before = this.#network.sent + this.#answered
      await turn()
      quietTurns = this.#network.sent + this.#answered === before ? quietTurns + 1 : 0
    }
  }
}

/** The demands of a request, by which it takes tokens and perhaps a place. */
function demandsOf ({ caller, least, most, place }: Asked): Demand[] {
  const tokens: Demand = {
    counters: 'tokens',
    callerKey: caller,
    limit,
    least,
    most,
    isEstimate: most > 0,
    window: windowLength,
    end: null
  }
  if (!place) return [tokens]
  const one = { least: 1, most: 1, isEstimate: true, window: null }
  return [tokens, { ...tokens, ...one, counters: 'places' }]
}

function callerOf (number: number): string {
  return required(['alice', 'bob', 'carol'][number], 'the caller')
}
