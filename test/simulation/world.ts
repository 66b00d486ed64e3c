// A simulation: processes whose stores count on servers, over a network and with clocks that the
// test controls.
import { setImmediate as turn } from 'node:timers/promises'
import { InsuredQuotaStore, MemoryQuotaStore } from '../../lib/index.js'
import { SharedStore } from '../../lib/store/shared/shared-store.js'
import type { Acquisition, Demand, QuotaStore } from '../../lib/store/store.js'
import { demandOf, Ledger, usedBy, type Use } from './ledger.js'
import { Network, SimulatedDriver, type NetworkFaults } from './network.js'
import { rowOf, Server, type ServerFaults } from './server.js'
import { VirtualTime } from './virtual-time.js'

const windowLength = 60_000
const limit = 6
// How much time passes at once, so that timers run in their order and none is very late.
const tick = 500
// Turns of the event loop in which nothing happens, after which nothing more will. A store sends
// after one turn, and waits for five after a time limit.
const fewTurns = 2
const manyTurns = 7

/** The store that the processes of a simulation have. */
export type Kind = 'shared' | 'two shards' | 'insured'

/** One thing that happens. Numbers choose among what there is. */
export type Step =
  | readonly ['ask', process: number, caller: number, least: number, most: number, place: boolean]
  | readonly ['report', use: number, used: number]
  | readonly ['deliver' | 'lose' | 'repeat' | 'reset', message: number]
  | readonly ['pass', ms: number]
  | readonly ['crash' | 'start', process: number]
  | readonly ['lose all', server: number]

/** What is planted. */
export interface Faults {
  readonly server?: ServerFaults
  readonly network?: NetworkFaults
  /** Changes the store of a process. */
  readonly store?: (store: SettlingStore) => SettlingStore
}

export type SettlingStore = QuotaStore & Required<Pick<QuotaStore, 'settle'>>

class SimulatedProcess {
  isAlive = true
  readonly store: SettlingStore

  constructor (create: (process: SimulatedProcess) => SettlingStore) {
    this.store = create(this)
  }
}

/** Everything of one run. */
export class World {
  readonly #time = new VirtualTime()
  readonly #ledger = new Ledger(() => this.#time.now, windowLength)
  readonly #network = new Network()
  readonly #servers: readonly Server[]
  readonly #processes: SimulatedProcess[]
  readonly #kind: Kind
  readonly #faults: Faults
  readonly #acquisitions = new Map<Use, Acquisition[]>()
  #openPromises = 0
  // How many promises were answered so far.
  #answered = 0

  constructor (kind: Kind, faults: Faults = {}) {
    this.#time.start()
    this.#kind = kind
    this.#faults = faults
    const servers = kind === 'two shards' ? 2 : 1
    this.#servers = Array.from({ length: servers }, () => this.#createServer())
    this.#processes = [this.#createProcess(), this.#createProcess()]
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
        this.#start(step[1])
        break
      case 'lose all':
        this.#loseAll(step[1])
    }
    await this.#rest(fewTurns)
    this.#ledger.assertAlways()
  }

  /** Lets everything come to its end, and compares. */
  async finish (): Promise<void> {
    await this.#deliverAll()
    // Longer than a lease, so that only the places of requests that run are left.
    for (let passed = 0; passed < 45_000; passed += tick) {
      await this.#pass(tick)
      await this.#deliverAll()
    }
    this.#ledger.assertAnswered()
    if (this.#openPromises > 0) throw new Error(`${this.#openPromises} promises are not answered`)
    for (const server of this.#servers) this.#ledger.assertPlacesOn(server)

    for (const [index, use] of this.#ledger.uses.entries()) {
      if (use.state === 'running') this.#report(index, use.granted)
    }
    await this.#rest(fewTurns)
    await this.#deliverAll()
    for (const server of this.#servers) {
      this.#ledger.assertCountsOn(server)
      this.#ledger.assertPlacesOn(server)
    }
    if (this.#openPromises > 0) throw new Error(`${this.#openPromises} promises are not answered`)
  }

  #createServer (): Server {
    return new Server(
      () => this.#time.now,
      (executions) => {
        this.#ledger.note(executions)
      },
      this.#faults.server
    )
  }

  #createProcess (): SimulatedProcess {
    return new SimulatedProcess((process) => {
      const shared = new SharedStore({}, this.#servers.length, (_cap, shard) => {
        const server = this.#servers[shard]
        if (server === undefined) throw new Error(`there is no server ${shard}`)
        const renewed = (): void => {
          this.#ledger.noteRenewal(process)
        }
        return new SimulatedDriver(this.#network, server, process, renewed, this.#faults.network)
      })
      const store = this.#kind === 'insured' ? this.#insure(shared) : shared
      return this.#faults.store?.(store) ?? store
    })
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

  #ask ([, number, caller, least, most, withPlace]: Extract<Step, readonly ['ask', ...unknown[]]>) {
    const process = this.#processes[number]
    if (process?.isAlive !== true) return
    const callerKey = ['alice', 'bob'][caller] ?? 'carol'
    const window: Demand = {
      counters: 'tokens',
      callerKey,
      limit,
      least,
      most: Math.max(least, most),
      isEstimate: most > 0,
      window: windowLength,
      end: null
    }
    const place = {
      ...window,
      counters: 'places',
      least: 1,
      most: 1,
      isEstimate: true,
      window: null
    }
    const use: Use = {
      process,
      row: rowOf(window),
      placeRow: withPlace ? rowOf(place) : null,
      limit,
      least,
      most: window.most,
      state: 'asked',
      granted: 0,
      reports: [],
      counted: [],
      isUncertain: false,
      isElsewhere: false
    }
    this.#ledger.uses.push(use)
    const demands = withPlace
      ? [demandOf(window, use), demandOf(place, use)]
      : [demandOf(window, use)]
    this.#await(process, this.#acquire(process, use, demands))
  }

  async #acquire (process: SimulatedProcess, use: Use, demands: readonly Demand[]): Promise<void> {
    try {
      const acquisitions = await process.store.acquire(demands)
      if (use.state !== 'asked') return
      const admitted: Acquisition[] = []
      for (const acquisition of acquisitions) {
        if (acquisition?.admitted === true) admitted.push(acquisition)
      }
      if (admitted.length < demands.length) {
        use.state = 'rejected'
        return
      }
      use.state = 'running'
      use.granted = admitted[0]?.granted ?? 0
      this.#acquisitions.set(use, admitted)
    } catch {
      if (use.state !== 'asked') return
      use.state = 'failed'
      use.isUncertain = true
    }
  }

  #report (number: number, used: number): void {
    const use = this.#ledger.uses[number % Math.max(1, this.#ledger.uses.length)]
    const process = this.#processes.find((each) => each === use?.process)
    if (use === undefined || process?.isAlive !== true) return
    const acquisitions = this.#acquisitions.get(use)
    if (acquisitions === undefined) return
    use.state = 'ended'
    use.reports.push(used)
    const [window, place] = acquisitions
    if (window !== undefined) this.#settle(process, use, window, used)
    if (place !== undefined) this.#settle(process, use, place, 0)
  }

  #settle (process: SimulatedProcess, use: Use, acquisition: Acquisition, used: number): void {
    const settled = async (): Promise<void> => {
      try {
        await process.store.settle(acquisition, used, null)
      } catch {
        use.isUncertain = true
      }
    }
    this.#await(process, settled())
  }

  /** Counts the promises of processes that live until they are answered. */
  #await (process: SimulatedProcess, promise: Promise<void>): void {
    this.#openPromises += 1
    const open = this.#openOf.get(process) ?? { count: 0 }
    this.#openOf.set(process, open)
    open.count += 1
    promise.finally(() => {
      this.#answered += 1
      if (!process.isAlive) return
      open.count -= 1
      this.#openPromises -= 1
    })
  }

  readonly #openOf = new Map<SimulatedProcess, { count: number }>()

  #crash (number: number): void {
    const process = this.#processes[number]
    if (process?.isAlive !== true) return
    process.isAlive = false
    this.#openPromises -= this.#openOf.get(process)?.count ?? 0
    // A report that is on its way may not arrive.
    for (const use of this.#ledger.uses) {
      if (use.process === process && use.state === 'ended') use.isUncertain = true
    }
    this.#ledger.noteCrash(process)
  }

  #start (number: number): void {
    if (this.#processes[number]?.isAlive === false) this.#processes[number] = this.#createProcess()
  }

  #loseAll (number: number): void {
    const server = this.#servers[number % this.#servers.length]
    if (server === undefined) return
    this.#ledger.noteLoss(server)
    server.loseAll()
    // Its connections are lost as well. A call that it did before and after would count twice.
    this.#network.loseOld()
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
