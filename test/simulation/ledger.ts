// What is true in a simulation, kept without the code of lib: which requests run, what they were
// granted and used, in which windows the server counted it, and what their users were told.
import type { Demand } from '../../lib/store/store.js'
import { leaseLength, overflowRowOf, rowOf, type Execution, type Server } from './server.js'
import type { ServerTime } from './server-time.js'

/** What should always be true is not. */
export class Violation extends Error {}

/** A window of a row, by the time that its server should count with. */
interface TrueWindow {
  readonly time: ServerTime
  readonly opened: number
  readonly limit: number
}

/** What a server has counted of a request, in a window. */
interface Part {
  readonly window: TrueWindow
  readonly amount: number
}

/** A request of a user, from the demand to the last report. */
export interface Use {
  readonly process: object
  /** The time of the server that has decided; null before that. */
  time: ServerTime | null
  readonly row: string
  readonly placeRow: string | null
  readonly limit: number
  readonly least: number
  readonly most: number
  state: 'asked' | 'running' | 'rejected' | 'failed' | 'ended'
  granted: number
  /** What was reported, the first at the end of the request. */
  readonly reports: number[]
  /** What servers have counted: what was granted, then what was reported beyond it. */
  readonly counted: Part[]
  /** Whether its user was told that what it counts may be wrong, or its process has crashed. */
  isUncertain: boolean
  /** Whether the fallback of an insured store has decided. */
  isElsewhere: boolean
}

const useOf: unique symbol = Symbol('the use of a demand')

/** Marks a demand, and what is copied from it, as one of a request. */
export function demandOf (demand: Demand, use: Use): Demand {
  return Object.assign({}, demand, { [useOf]: use })
}

/** Returns the request of a demand that was marked. */
export function usedBy (demand: Demand): Use | undefined {
  return Reflect.get(demand, useOf)
}

/** The truth of a simulation, with which a store is compared. */
export class Ledger {
  readonly uses: Use[] = []
  readonly #windowLength: number
  readonly #cap: number
  readonly #windows = new Map<string, TrueWindow>()
  // The callers that have a counter of their own, by the row of the overflow counter.
  readonly #tracked = new Map<string, Set<string>>()
  // When each server last did a call that renewed the lease of a process.
  readonly #renewedAt = new Map<object, Map<ServerTime, number>>()
  // The rows of places that a server can have given to others: a documented loss.
  readonly #lostPlaces = new Set<string>()

  // The first one that has reached another counter than its own.
  #misled: Use | undefined

  /** @param cap How many callers of a quota have a counter of their own. */
  constructor (windowLength: number, cap: number) {
    this.#windowLength = windowLength
    this.#cap = cap
  }

  /** Notes what the server has decided on the demands of a request. */
  note (executions: readonly Execution[], time: ServerTime): void {
    for (const { demand, decided, isCounted } of executions) {
      const use = usedBy(demand)
      if (use === undefined) throw new Error('the server has decided on a demand of nobody')
      use.time = time
      if (demand.window === null) continue
      const isOverflowing = this.#isOverflowing(demand)
      if (decided.overflow !== isOverflowing) {
        // Thrown later: here, the driver would take it for an error of the server.
        this.#misled ??= use
      }
      const row = isOverflowing ? overflowRowOf(demand) : rowOf(demand)
      const window = this.#reach(row, time, use.limit)
      if (isCounted) use.counted.push({ window, amount: decided.granted })
    }
  }

  noteRenewal (process: object, time: ServerTime): void {
    const renewed = this.#renewedAt.get(process) ?? new Map<ServerTime, number>()
    this.#renewedAt.set(process, renewed)
    renewed.set(time, time.look())
  }

  /** Notes that a server is about to lose everything: a documented loss. */
  noteLoss ({ counters, totals }: Server): void {
    for (const row of counters.keys()) {
      this.#windows.delete(row)
      for (const tracked of this.#tracked.values()) tracked.delete(row)
    }
    for (const row of totals.keys()) this.#lostPlaces.add(row)
  }

  /** Notes that a process has stopped without a word. */
  noteCrash (process: object): void {
    for (const use of this.uses) {
      if (use.process !== process || use.state === 'rejected') continue
      if (use.state === 'running') {
        use.state = 'ended'
        use.isUncertain = true
      }
      if (use.state === 'asked') {
        use.state = 'failed'
        use.isUncertain = true
      }
    }
  }

  /** Throws unless what is true at any moment is true. */
  assertAlways (): void {
    if (this.#misled !== undefined) {
      throw new Violation(`a demand of ${this.#misled.row} has not reached its counter`)
    }
    const granted = new Map<TrueWindow, number>()
    const places = new Map<string, number>()
    for (const use of this.uses) {
      if (use.state === 'running' && use.granted < Math.min(use.most, Math.max(use.least, 1))) {
        throw new Violation(`a request is admitted with ${use.granted}, not with ${use.least}`)
      }
      const window = use.counted[0]?.window
      const isGranted = use.state === 'running' || use.state === 'ended'
      if (window === undefined || !isGranted || use.isElsewhere) continue
      // What is reported beyond the grant is added whatever the limit.
      const kept = Math.min(use.granted, ...use.reports)
      granted.set(window, (granted.get(window) ?? 0) + kept)
      if (use.placeRow === null || use.state !== 'running' || use.time === null) continue
      places.set(use.placeRow, (places.get(use.placeRow) ?? 0) + 1)
      const renewedAt = this.#renewedAt.get(use.process)?.get(use.time) ?? 0
      const isLost = use.time.look() - renewedAt >= leaseLength
      if (isLost) this.#lostPlaces.add(use.placeRow)
    }
    for (const [window, sum] of granted) {
      if (sum > window.limit) {
        throw new Violation(
          `more is granted in a window than its limit: ${sum}, not ${window.limit}`
        )
      }
    }
    this.#assertPlaces(places)
  }

  #assertPlaces (places: ReadonlyMap<string, number>): void {
    for (const [row, running] of places) {
      const limit = this.#limitOf(row)
      if (running <= limit) this.#lostPlaces.delete(row)
      else if (!this.#lostPlaces.has(row)) {
        throw new Violation(`more requests run than places: ${running}, not ${limit}`)
      }
    }
  }

  /** Throws unless the places of a server are those of the requests that run. */
  assertPlacesOn (server: Server): void {
    const running = new Map<string, number>()
    for (const { placeRow, isElsewhere } of this.#running()) {
      if (placeRow === null || isElsewhere) continue
      running.set(placeRow, (running.get(placeRow) ?? 0) + 1)
    }
    server.freeEnded()
    for (const [row, known] of server.totals) {
      const expected = running.get(row) ?? 0
      if (known > expected) {
        throw new Violation(`places are lost: ${known} of ${row}, not ${expected}`)
      }
      if (known < expected) {
        throw new Violation(`places in use are free: ${known} of ${row}, not ${expected}`)
      }
    }
  }

  /** Throws unless a server counts what was used, when nothing runs any more. */
  assertCountsOn (server: Server): void {
    for (const [row, window] of this.#windows) {
      const counter = server.counters.get(row)
      if (counter === undefined || this.#isOver(window)) continue
      let certain = 0
      let uncertain = 0
      let held = 0
      for (const use of this.uses) {
        if (use.isUncertain) {
          uncertain += sumIn(use.counted, window)
          if (use.row.startsWith(row)) held += use.most
        } else {
          certain += sumIn(countedInTheEnd(use), window)
        }
      }
      if (counter.count < certain || counter.count > certain + uncertain) {
        throw new Violation(
          `${row} counts ${counter.count}, not ${certain}` +
            (uncertain > 0 ? ` to ${certain + uncertain}` : '')
        )
      }
      if (counter.held > held) throw new Violation(`${row} holds ${counter.held}, not ${held}`)
    }
  }

  /** Throws unless each promise of a process that lives was answered. */
  assertAnswered (): void {
    for (const use of this.uses) {
      if (use.state === 'asked') throw new Violation('a promise is not answered')
    }
  }

  #running (): Use[] {
    return this.uses.filter(({ state }) => state === 'running')
  }

  #limitOf (placeRow: string): number {
    return this.uses.find((use) => use.placeRow === placeRow)?.limit ?? 0
  }

  /** Tracks a caller, as long as there is room for its own counter. */
  #isOverflowing (demand: Demand): boolean {
    const row = rowOf(demand)
    const overflowRow = overflowRowOf(demand)
    const tracked = this.#tracked.get(overflowRow) ?? new Set<string>()
    this.#tracked.set(overflowRow, tracked)
    if (tracked.has(row)) return false
    if (tracked.size >= this.#cap) return true
    tracked.add(row)
    return false
  }

  #reach (row: string, time: ServerTime, limit: number): TrueWindow {
    const found = this.#windows.get(row)
    if (found !== undefined && !this.#isOver(found)) return found
    const window = { opened: time.look(), time, limit }
    this.#windows.set(row, window)
    return window
  }

  #isOver ({ opened, time }: TrueWindow): boolean {
    return time.look() - opened >= this.#windowLength
  }
}

/** What a request counts after all of its reports, as the rules word it. */
function countedInTheEnd ({ counted, reports }: Use): Part[] {
  const [first, ...more] = counted
  if (first === undefined) return []
  let parts = [first]
  for (const used of reports) {
    const missing = used - sumOf(parts)
    if (missing > 0) {
      const next = more.shift()
      if (next?.amount !== missing) {
        throw new Violation(`a report of ${used} has added ${next?.amount}, not ${missing}`)
      }
      parts.push(next)
    } else {
      parts = reduced(parts, -missing)
    }
  }
  if (more.length > 0) throw new Violation('more was added than was reported')
  return parts
}

/** Takes an amount from the parts, from the latest first. */
function reduced (parts: readonly Part[], amount: number): Part[] {
  let excess = amount
  const left: Part[] = []
  for (const { window, amount } of parts.toReversed()) {
    const less = Math.min(excess, amount)
    excess -= less
    left.unshift({ window, amount: amount - less })
  }
  return left
}

function sumIn (parts: readonly Part[], window: TrueWindow): number {
  return sumOf(parts.filter((part) => part.window === window))
}

function sumOf (parts: readonly Part[]): number {
  return parts.reduce((sum, { amount }) => sum + amount, 0)
}
