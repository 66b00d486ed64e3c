// A simulation: processes whose stores count on servers, over a network and with clocks that the
// test controls.
import { setImmediate as turn } from 'node:timers/promises'
import { InsuredQuotaStore, MemoryQuotaStore, ShardedQuotaStore } from '../../lib/index.js'
import { required } from '../../lib/required.js'
import type { Call, Reply } from '../../lib/store/shared/driver.js'
import { SharedStore } from '../../lib/store/shared/shared-store.js'
import type { Demand } from '../../lib/store/store.js'
import { DriverServer } from '../support/driver-server.js'
import { demand } from '../support/told-store.js'
import { Ledger, Violation, type Use } from './ledger.js'
import { Network, type Link, type Message } from './network.js'
import { ObservedStore, type SettlingStore } from './observed-store.js'
import { Permits, type Asked } from './permits.js'
import { VirtualTime } from './virtual-time.js'

// Of tokens in a window, and of places.
const limit = 6
// How many callers have a counter of their own, where the cap is what a simulation is about.
const smallCap = 1
// How long a process waits for a reply.
const longestCallTime = 2_500
// How much time passes at once, so that timers run in their order and none is very late.
const tick = 500
// Turns of the event loop in which nothing happens, after which nothing more will. A store sends
// after one turn, and waits for five after a time limit.
const fewTurns = 2
const manyTurns = 7

/** The store that the processes of a simulation have, or what they have on top of it. */
export type Kind = 'shared' | 'two stores' | 'insured' | 'at the cap' | 'permits'

/** One thing that happens. Numbers choose among what there is. */
export type Step =
  | readonly ['ask', process: number, caller: number, least: number, most: number, place: boolean]
  | readonly ['report', request: number, amount: number]
  | readonly ['end', request: number]
  | readonly ['deliver' | 'lose' | 'repeat' | 'reset', message: number]
  | readonly ['pass', milliseconds: number]
  | readonly ['kill' | 'start', process: number]
  | readonly ['lose all', server: number]

/** A server that tells the ledger what it decides. */
class NotedServer extends DriverServer {
  readonly #ledger: Ledger

  constructor (ledger: Ledger, cap: number) {
    super(() => performance.now(), cap)
    this.#ledger = ledger
  }

  override async decide (call: Call): Promise<Reply> {
    const reply = await super.decide(call)
    this.#ledger.note(this, call, reply)
    return reply
  }
}

/** A process whose store counts on the servers. */
class SimulatedProcess {
  isAlive = true
  /** How many of its promises are not answered. */
  openPromises = 0
  readonly links: ReadonlyMap<DriverServer, Link>
  readonly store: ObservedStore
  readonly permits: Permits

  constructor (kind: Kind, servers: readonly DriverServer[], network: Network, ledger: Ledger) {
    this.links = new Map(
      servers.map((server) => [server, { isAlive: true, troubledAt: -Infinity }])
    )
    const drivers = [...this.links].map(([server, link]) => network.driverTo(server, link))
    const stores = drivers.map((driver) => new SharedStore({}, driver))
    const [shared] = stores
    const store = storeOf(kind, required(shared, 'a store'), stores, ledger)
    this.store = new ObservedStore(store, (demands) => ledger.begin(this, this.links, demands))
    this.permits = new Permits(this.store)
  }

  kill (): void {
    this.isAlive = false
    for (const link of this.links.values()) link.isAlive = false
  }

  /** Counts a promise until it is answered. What it rejects with, the store has noted. */
  async wait (promise: Promise<unknown>): Promise<void> {
    this.openPromises += 1
    try {
      await promise
    } catch {}
    this.openPromises -= 1
  }
}

/** The store of a process, over a store on each server. */
function storeOf (
  kind: Kind,
  shared: SharedStore,
  stores: readonly SharedStore[],
  ledger: Ledger
): SettlingStore {
  if (kind === 'insured') return insure(shared, ledger)
  if (kind !== 'two stores') return shared
  const sharded = new ShardedQuotaStore(stores)
  return {
    acquire: (demands) => sharded.acquire(demands),
    settle: (receipt, less) => sharded.settle?.(receipt, less)
  }
}

function insure (primary: SharedStore, ledger: Ledger): SettlingStore {
  const fallback = new MemoryQuotaStore()
  const acquire = fallback.acquire.bind(fallback)
  fallback.acquire = (demands) => {
    for (const each of demands) ledger.useOf(each).isElsewhere = true
    return acquire(demands)
  }
  const insured = new InsuredQuotaStore({ primary, fallback, timeout: 1_000, coolDown: 5_000 })
  return {
    acquire: (demands) => insured.acquire(demands),
    settle: (receipt, less) => insured.settle?.(receipt, less)
  }
}

/** Everything of one run. */
export class World {
  readonly #kind: Kind
  readonly #time = new VirtualTime()
  readonly #ledger = new Ledger()
  readonly #network = new Network()
  readonly #servers: readonly DriverServer[]
  readonly #processes: SimulatedProcess[] = []

  constructor (kind: Kind) {
    this.#kind = kind
    const cap = kind === 'at the cap' ? smallCap : Infinity
    const length = kind === 'two stores' ? 2 : 1
    this.#servers = Array.from({ length }, () => new NotedServer(this.#ledger, cap))
  }

  async start (): Promise<void> {
    this.#time.start()
    for (const number of [0, 1]) await this.#startProcess(number)
  }

  stop (): void {
    this.#time.stop()
  }

  async run (step: Step): Promise<void> {
    await this.#do(step)
    await this.#rest(fewTurns)
    for (const { link, sentAt } of this.#network.messages) {
      if (performance.now() - sentAt >= longestCallTime) link.troubledAt = performance.now()
    }
    this.#ledger.assertAlways()
  }

  /** Lets everything come to its end, and compares. */
  async finish (): Promise<void> {
    await this.#deliverAll()
    // Longer than a place, so that only those of requests that run are left.
    for (let passed = 0; passed < 45_000; passed += tick) {
      await this.#pass(tick)
      await this.#deliverAll()
    }
    this.#assertAnswered()
    this.#ledger.assertPlaces(this.#servers)

    this.#endAll()
    await this.#rest(fewTurns)
    await this.#deliverAll()
    this.#assertAnswered()
    this.#ledger.assertPlaces(this.#servers)
    this.#ledger.assertCounts()
    if (this.#kind !== 'permits') return
    for (const { isAlive, permits } of this.#processes) if (isAlive) permits.assertSettled()
  }

  async #do (step: Step): Promise<void> {
    switch (step[0]) {
      case 'ask':
        return this.#ask(step)
      case 'report':
        return this.#report(step[1], step[2])
      case 'end':
        return this.#withPermit(step[1], (permits, number) => permits.end(number))
      case 'deliver':
        return this.#network.take(step[1])?.arrive()
      case 'lose':
        return this.#lose(this.#network.take(step[1]))
      case 'repeat': {
        const message = this.#network.look(step[1])
        return message?.canBeRepeated === true ? message.arrive() : undefined
      }
      case 'reset': {
        const message = this.#network.look(step[1])
        this.#lose(message)
        return message?.reset()
      }
      case 'pass':
        return await this.#pass(step[1])
      case 'kill':
        return this.#kill(step[1])
      case 'start':
        if (this.#processes[step[1]]?.isAlive === false) await this.#startProcess(step[1])
        return
      case 'lose all': {
        const server = required(this.#servers[step[1] % this.#servers.length], 'the server')
        this.#ledger.noteLossOf(server)
        await server.clear()
      }
    }
  }

  async #startProcess (number: number): Promise<void> {
    const process = new SimulatedProcess(this.#kind, this.#servers, this.#network, this.#ledger)
    this.#processes[number] = process
    if (this.#kind === 'permits') await process.permits.start(limit)
  }

  #ask ([, number, caller, least, most, place]: Extract<Step, readonly ['ask', ...unknown[]]>) {
    const process = this.#processes[number]
    if (process?.isAlive !== true) return
    const asked = { caller: callerOf(caller), least, most: Math.max(least, most), place }
    const { store, permits } = process
    process.wait(
      this.#kind === 'permits' ? permits.acquire(asked) : store.acquire(demandsOf(asked))
    )
  }

  #report (number: number, used: number): void {
    if (this.#kind === 'permits') {
      this.#withPermit(number, (permits, permit) => permits.charge(permit, used))
      return
    }
    const { uses } = this.#ledger
    const use = uses[number % Math.max(1, uses.length)]
    if (use !== undefined) this.#settle(use, used)
  }

  #settle (use: Use, used: number): void {
    const process = this.#processes.find((each) => each === use.process)
    if (process?.isAlive !== true) return
    process.wait(process.store.settleUse(use, used))
  }

  /** Does something with a permit of a process that lives, if there is one. */
  #withPermit (number: number, act: (permits: Permits, permit: number) => Promise<void>): void {
    const process = this.#processes[number % 2]
    if (process?.isAlive !== true) return
    process.wait(act(process.permits, Math.floor(number / 2)))
  }

  /** Ends what runs. */
  #endAll (): void {
    for (const process of this.#processes) {
      if (process.isAlive) process.wait(process.permits.endAll())
    }
    if (this.#kind === 'permits') return
    for (const use of this.#ledger.uses) this.#settle(use, use.granted)
  }

  #lose (message: Message | undefined): void {
    if (message === undefined) return
    message.link.troubledAt = performance.now()
    this.#ledger.hasLost = true
  }

  #kill (number: number): void {
    const process = this.#processes[number]
    if (process?.isAlive !== true) return
    process.kill()
    this.#ledger.hasLost = true
    this.#ledger.noteKill(process)
  }

  #assertAnswered (): void {
    this.#ledger.assertAnswered()
    for (const { isAlive, openPromises } of this.#processes) {
      if (isAlive && openPromises > 0) {
        throw new Violation(`${openPromises} promises are not answered`)
      }
    }
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

  async #pass (milliseconds: number): Promise<void> {
    for (let left = milliseconds; left > 0; left -= tick) {
      this.#time.advance(Math.min(left, tick))
      await this.#rest(manyTurns)
    }
  }

  /** Waits until nothing more happens without a message or the clock. */
  async #rest (turns: number): Promise<void> {
    const state = (): string => {
      const open = this.#processes.map(({ openPromises }) => openPromises)
      return `${this.#network.sent} ${open.join()}`
    }
    let quietTurns = 0
    while (quietTurns < turns) {
      const before = state()
      await turn()
      quietTurns = state() === before ? quietTurns + 1 : 0
    }
  }
}

/** The demands of a request, by which it takes tokens and perhaps a place. */
function demandsOf ({ caller, least, most, place }: Asked): Demand[] {
  const isEstimate = most > 0
  const tokens = demand(caller, { counters: 'tokens', limit, least, most, isEstimate })
  if (!place) return [tokens]
  return [tokens, demand(caller, { counters: 'places', limit, isEstimate: true, window: null })]
}

function callerOf (number: number): string {
  return required(['alice', 'bob', 'carol'][number], 'the caller')
}
