// A server for the simulation: what a driver's server does, in memory and in the plainest form,
// with named places at which a test plants faults.
import { hasRoom, grantOf } from '../../lib/store/counter.js'
import type {
  Call,
  Decided,
  Holding,
  Lease,
  Reply,
  Settlement
} from '../../lib/store/shared/driver.js'
import type { Demand } from '../../lib/store/store.js'
import type { ServerTime } from './server-time.js'

/** How long a lease lasts after the latest call of its process, in milliseconds. */
export const leaseLength = 30_000

/** A window of a counter, as the server keeps it. */
export interface Counter {
  count: number
  held: number
  opened: number
  id: number
}

/** A lease, and what its process holds for each caller. */
interface Process {
  number: number
  ends: number
  generation: number
  readonly holdings: Map<string, { held: number; generation: number }>
}

/** What the server did with a demand. */
export interface Execution {
  readonly demand: Demand
  readonly decided: Decided
  readonly isCounted: boolean
}

/** What can be wrong with a server. Each is planted by a test, which must find it. */
export interface ServerFaults {
  /** How much more than its limit a counter admits. */
  readonly extraRoom?: number
  readonly grantsAll?: boolean
  readonly countsPartly?: boolean
  readonly settlesAnyWindow?: boolean
  readonly settlesTwice?: boolean
  readonly keepsHeld?: boolean
  readonly keepsCount?: boolean
  readonly acceptsLate?: boolean
  readonly addsHoldings?: boolean
  readonly freesNothing?: boolean
  readonly leaseLength?: number
  readonly keepsGenerations?: boolean
  readonly dropsGenerations?: boolean
  readonly windowPart?: number
  readonly reusesIds?: boolean
  readonly runsBackwards?: boolean
  readonly extraCallers?: number
  readonly settlesOwnCounter?: boolean
  readonly countsUndecided?: boolean
  readonly knowsEachLease?: boolean
  readonly forgetsTaken?: boolean
  readonly mixesReplies?: boolean
}

/** A server on which the processes of the simulation count. Each call is atomic. */
export class Server {
  readonly counters = new Map<string, Counter>()
  readonly totals = new Map<string, number>()
  readonly #processes = new Map<string, Process>()
  /** Of how many of the next calls every second request must be sent again. */
  busyCalls = 0
  readonly #time: ServerTime
  readonly #cap: number
  readonly #faults: ServerFaults
  readonly #executed: (executions: readonly Execution[]) => void
  #lastId = 1_000

  /**
   * @param executed Receives what was decided on the demands of a request.
   * @param cap How many callers of a quota have a counter of their own, for ever.
   */
  constructor (
    time: ServerTime,
    executed: (executions: readonly Execution[]) => void,
    cap = Infinity,
    faults: ServerFaults = {}
  ) {
    this.#time = time
    this.#executed = executed
    this.#cap = cap + (faults.extraCallers ?? 0)
    this.#faults = faults
  }

  /** Loses everything, as a server without persistence that restarts. */
  loseAll (): void {
    this.counters.clear()
    this.totals.clear()
    this.#processes.clear()
    if (this.#faults.reusesIds === true) this.#lastId = 1_000
  }

  /** Takes what processes without a lease held from the totals, as any call does. */
  freeEnded (now = this.#time.look()): void {
    if (this.#faults.freesNothing === true) return
    for (const [name, process] of this.#processes) {
      if (now < process.ends) continue
      for (const [row, { held }] of process.holdings) this.#addToTotal(row, -held)
      this.#processes.delete(name)
    }
  }

  decide (call: Call): Reply {
    const told = this.#time.tell()
    const now = this.#faults.runsBackwards === true ? this.#time.clock : told
    this.freeEnded(now)
    const latestNumber = this.#renew(call, now)
    for (const settlement of call.settlements) {
      this.#settle(settlement)
      if (this.#faults.settlesTwice === true) this.#settle(settlement)
    }
    this.busyCalls = Math.max(0, this.busyCalls - 1)
    const decided = call.requests.map((demands, index) => {
      const isDecided = (this.busyCalls + index) % 2 === 0 || this.busyCalls === 0
      if (!isDecided && this.#faults.countsUndecided !== true) return undefined
      const decided = this.#decideRequest(demands, call, now)
      return isDecided ? decided : undefined
    })
    if (this.#faults.mixesReplies === true) decided.reverse()
    return { decided, latestNumber }
  }

  /** Whether the server would do a call again that it has done before, although it has a number. */
  hasForgotten ({ lease }: Call): boolean {
    this.freeEnded()
    return lease !== null && !this.#isNumberKnown(lease)
  }

  #isNumberKnown ({ process, number }: Lease): boolean {
    const known = this.#processes.get(process)
    return known !== undefined && number <= known.number
  }

  /** Returns the number of the call before that was known. Throws if the call is late. */
  #renew ({ lease, holdings }: Call, now: number): number {
    if (lease === null) return 0
    const { number } = lease
    if (this.#isNumberKnown(lease) && this.#faults.acceptsLate !== true) {
      throw new Error('LATE a later call of this process has changed what it holds')
    }
    const known = this.#processes.get(lease.process)
    const latestNumber = this.#faults.knowsEachLease === true ? number - 1 : (known?.number ?? 0)
    const process = known ?? {
      number: 0,
      ends: 0,
      generation: lease.generation,
      holdings: new Map<string, { held: number; generation: number }>()
    }
    process.number = Math.max(process.number, number)
    process.ends = now + (this.#faults.leaseLength ?? leaseLength)
    this.#processes.set(lease.process, process)
    for (const holding of holdings) this.#hold(process, lease.generation, holding)
    const isDropped = lease.isComplete || this.#faults.dropsGenerations === true
    if (isDropped && this.#faults.keepsGenerations !== true) {
      process.generation = lease.generation
      this.#dropEarlier(process)
    }
    return latestNumber
  }

  #hold (process: Process, generation: number, holding: Holding): void {
    const row = rowOf(holding)
    const before = process.holdings.get(row)?.held ?? 0
    const held = this.#faults.addsHoldings === true ? before + holding.held : holding.held
    process.holdings.set(row, { held, generation })
    this.#addToTotal(row, held - before)
  }

  #dropEarlier (process: Process): void {
    for (const [row, { held, generation }] of process.holdings) {
      if (generation >= process.generation) continue
      this.#addToTotal(row, -held)
      process.holdings.delete(row)
    }
  }

  #addToTotal (row: string, more: number): void {
    this.totals.set(row, Math.max(0, (this.totals.get(row) ?? 0) + more))
  }

  #settle (settlement: Settlement): void {
    const isOwn = !settlement.overflow || this.#faults.settlesOwnCounter === true
    const counter = this.counters.get(isOwn ? rowOf(settlement) : overflowRowOf(settlement))
    if (counter === undefined) return
    if (counter.id !== settlement.windowId && this.#faults.settlesAnyWindow !== true) return
    if (this.#faults.keepsCount !== true) {
      counter.count = Math.max(0, counter.count - settlement.lessCount)
    }
    if (this.#faults.keepsHeld !== true) {
      counter.held = Math.max(0, counter.held - settlement.lessHeld)
    }
  }

  #decideRequest (demands: readonly Demand[], call: Call, now: number): readonly Decided[] {
    const counters = demands.map((demand) => this.#reach(demand, now))
    const rooms = demands.map((demand, index) => this.#hasRoom(counters[index]?.count ?? 0, demand))
    const isAdmitted = rooms.every((room) => room)
    const executions = demands.map((demand, index) => {
      const admitted = rooms[index] === true
      const isCounted = isAdmitted || (this.#faults.countsPartly === true && admitted)
      const before = counters[index]?.count ?? 0
      const granted = isCounted ? this.#grantOf(before, demand) : 0
      const counter = this.#take(demand, granted, counters[index], call)
      const decided = {
        admitted,
        granted: isAdmitted ? granted : 0,
        count: counter.count,
        held: counter.held,
        overflow: this.#isOverflowing(demand),
        windowId: counter.id,
        windowRemaining: demand.window === null ? null : demand.window - (now - counter.opened)
      }
      return { demand, decided, isCounted: isAdmitted }
    })
    this.#executed(executions)
    return executions.map(({ decided }) => decided)
  }

  #hasRoom (count: number, demand: Demand): boolean {
    return hasRoom(count - (this.#faults.extraRoom ?? 0), demand)
  }

  #grantOf (count: number, demand: Demand): number {
    if (this.#faults.grantsAll === true) return demand.most
    return Math.max(grantOf(count, demand), demand.window === null ? 1 : 0)
  }

  /** Returns the counter of a demand, with a new window if the last one is over. */
  #reach (demand: Demand, now: number): Counter {
    if (demand.window === null) {
      const total = this.totals.get(rowOf(demand)) ?? 0
      return { count: total, held: total, opened: now, id: 0 }
    }
    const row = this.#isOverflowing(demand) ? overflowRowOf(demand) : rowOf(demand)
    const found = this.counters.get(row)
    const length = demand.window * (this.#faults.windowPart ?? 1)
    if (found !== undefined && now - found.opened < length) return found
    if (this.#faults.reusesIds !== true || found === undefined) this.#lastId += 1
    const counter = { count: 0, held: 0, opened: now, id: this.#lastId }
    this.counters.set(row, counter)
    return counter
  }

  /** Whether a demand reaches the overflow counter of its quota, for want of one of its own. */
  #isOverflowing (demand: Demand): boolean {
    if (demand.window === null || this.#cap === Infinity) return false
    if (this.counters.has(rowOf(demand))) return false
    const overflow = overflowRowOf(demand)
    let tracked = 0
    for (const row of this.counters.keys()) {
      if (row.startsWith(overflow) && row !== overflow) tracked += 1
    }
    return tracked >= this.#cap
  }

  #take (demand: Demand, granted: number, counter: Counter | undefined, { lease }: Call): Counter {
    if (counter === undefined) throw new Error('a demand has not reached its counter')
    counter.count += granted
    if (demand.isEstimate) counter.held += granted
    if (demand.window !== null || granted === 0) return counter
    const row = rowOf(demand)
    const process = lease === null ? undefined : this.#processes.get(lease.process)
    if (lease === null || process === undefined) throw new Error('a place needs a lease')
    this.#addToTotal(row, granted)
    if (this.#faults.forgetsTaken === true) return counter
    const before = process.holdings.get(row)?.held ?? 0
    process.holdings.set(row, { held: before + granted, generation: lease.generation })
    return counter
  }
}

/** The name of a caller's row. */
export function rowOf ({ counters, callerKey }: Pick<Demand, 'counters' | 'callerKey'>): string {
  return `${counters} ${callerKey}`
}

/** The name of the row of the counter that callers of a quota share at the cap. */
export function overflowRowOf ({ counters }: Pick<Demand, 'counters'>): string {
  return `${counters} `
}
