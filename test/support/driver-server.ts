// A server for stores on servers, in this process: what the interface of a driver says, written
// plainly. Tests make its messages late, lost or repeated.
import { grantedAlike, grantOf, hasRoom } from '../../lib/store/counter.js'
import type {
  Call,
  Connection,
  Decided,
  Driver,
  QuotaCaller,
  Reply,
  RequestOfCall,
  Settlement
} from '../../lib/store/shared/driver.js'
import { rowOf } from '../../lib/store/shared/stored-names.js'
import type { CallerPage, Demand, QuotaCount, QuotaStoreState } from '../../lib/store/store.js'

/** What a row has counted in a window. */
export interface Window {
  readonly id: number
  readonly ends: number
  count: number
  readonly heldByPeriod: Map<number, number>
}

const nameOf = (counters: string, row: string) => JSON.stringify([counters, row])

/** A server with a clock of its own. */
export class DriverServer implements Driver {
  mostDemands = 384
  hasJournal = false
  canRepeat = false
  /** How many calls have reached the server. */
  calls = 0
  readonly #clock: () => number
  readonly #cap: number
  readonly #windows = new Map<string, Window>()
  /** When each place of a caller ends, by its name. */
  readonly #places = new Map<string, Map<string, number>>()
  /** The settlements that were applied once. */
  readonly #once = new Set<string>()

  constructor (clock: () => number, cap = Infinity) {
    this.#clock = clock
    this.#cap = cap
  }

  connect (): Connection | Promise<Connection> {
    return { run: (call) => this.decide(call), release () {} }
  }

  async decide (call: Call): Promise<Reply> {
    return this.apply(call)
  }

  /** Does all of a call. */
  apply (call: Call): Reply {
    this.calls += 1
    for (const place of call.freed) this.#placesOf(place).delete(place.name)
    for (const place of call.renewed) this.#hold(place, place.name, call)
    const applied = call.settlements.map((settlement) => this.#settle(settlement))
    let nextId = call.firstWindowId
    const decided = call.requests.map((request) =>
      this.#decideOn(request, call, () => nextId++)
    )
    const standings = call.standings.map((demand) => this.count(demand, call.periodLength))
    const period = Math.floor(this.#clock() / call.periodLength)
    return { period, applied, decided, standings }
  }

  /** The count that a demand would find. */
  count (demand: Demand, periodLength = 600_000): QuotaCount | null {
    if (demand.window === null) return placesCount(this.places(demand).length)
    const { window, overflow } = this.#find(demand)
    if (window === undefined || window.ends <= (demand.start ?? this.#clock())) return null
    return this.#stateOf(window, demand, overflow, periodLength)
  }

  async forget (counters: string, callerKey: string): Promise<void> {
    this.#windows.delete(nameOf(counters, rowOf(callerKey, false)))
  }

  async list (_counters: string, _cursor: string | null): Promise<CallerPage> {
    return { callers: [], cursor: null }
  }

  async inspect (): Promise<QuotaStoreState> {
    return { trackedCallers: this.#windows.size }
  }

  async clear (): Promise<void> {
    this.removeAll()
  }

  removeAll (): void {
    this.#windows.clear()
    this.#places.clear()
  }

  /** The names of the caller's places that have not ended. */
  places (caller: QuotaCaller): string[] {
    const places = [...this.#placesOf(caller)]
    return places.filter(([, ends]) => ends > this.#clock()).map(([name]) => name)
  }

  /** The latest window of a caller, or of the overflow counter; undefined if it has none. */
  window ({ counters, callerKey }: QuotaCaller, overflow = false): Window | undefined {
    return this.#windows.get(nameOf(counters, rowOf(callerKey, overflow)))
  }

  #settle ({ counters, row, windowId, lessCount, lessHeld, once }: Settlement): boolean {
    const window = this.#windows.get(nameOf(counters, row))
    const isApplied = window?.id === windowId && (once === null || !this.#once.has(once))
    if (!isApplied) return once === null
    if (once !== null) this.#once.add(once)
    window.count -= lessCount
    for (const [period, less] of lessHeld) {
      window.heldByPeriod.set(period, (window.heldByPeriod.get(period) ?? 0) - less)
    }
    return true
  }

  #decideOn (
    { demands, place }: RequestOfCall,
    call: Call,
    newId: () => number
  ): readonly Decided[] {
    const period = Math.floor(this.#clock() / call.periodLength)
    const reached = demands.map((demand) => {
      if (demand.window === null) {
        return { demand, window: null, overflow: false, count: this.places(demand).length }
      }
      const { window, overflow } = this.#reach(demand, newId)
      return { demand, window, overflow, count: window.count }
    })
    const isAdmitted = reached.every(({ demand, count }) => hasRoom(count, demand))
    const alone = reached.map(({ demand, count }) => ({ demand, granted: grantOf(count, demand) }))
    return reached.map(({ demand, window, overflow, count: before }) => {
      const admitted = hasRoom(before, demand)
      const granted = isAdmitted ? grantedAlike(demand, alone) : 0
      if (window === null) {
        if (isAdmitted) this.#hold(demand, place, call)
        const count = placesCount(this.places(demand).length)
        return { admitted, granted, ...count, windowId: 0 }
      }
      window.count += granted
      const held = window.heldByPeriod.get(period) ?? 0
      if (demand.isEstimate) window.heldByPeriod.set(period, held + granted)
      const state = this.#stateOf(window, demand, overflow, call.periodLength)
      return { admitted, granted, ...state, windowId: window.id }
    })
  }

  #find (demand: Demand): { readonly window: Window | undefined; readonly overflow: boolean } {
    const own = this.window(demand)
    const overflow = own === undefined && this.#windows.size >= this.#cap
    return { window: overflow ? this.window(demand, true) : own, overflow }
  }

  #reach (
    demand: Demand,
    newId: () => number
  ): { readonly window: Window; readonly overflow: boolean } {
    const found = this.#find(demand)
    const { overflow } = found
    let { window } = found
    if (window === undefined || window.ends <= (demand.start ?? this.#clock())) {
      const ends = demand.end ?? this.#clock() + (demand.window ?? 0)
      window = { id: newId(), ends, count: 0, heldByPeriod: new Map() }
      this.#windows.set(nameOf(demand.counters, rowOf(demand.callerKey, overflow)), window)
    }
    return { window, overflow }
  }

  #placesOf ({ counters, callerKey }: QuotaCaller): Map<string, number> {
    const name = nameOf(counters, rowOf(callerKey, false))
    const places = this.#places.get(name) ?? new Map<string, number>()
    this.#places.set(name, places)
    return places
  }

  #hold (caller: QuotaCaller, name: string, { placeDuration }: Call): void {
    this.#placesOf(caller).set(name, this.#clock() + placeDuration)
  }

  #stateOf (
    { count, ends, heldByPeriod }: Window,
    demand: Demand,
    overflow: boolean,
    periodLength: number
  ): QuotaCount & { readonly overflow: boolean } {
    const period = Math.floor(this.#clock() / periodLength)
    const held = (heldByPeriod.get(period) ?? 0) + (heldByPeriod.get(period - 1) ?? 0)
    if (demand.end !== null) return { count, held, windowRemaining: null, end: ends, overflow }
    return { count, held, windowRemaining: ends - this.#clock(), overflow }
  }
}

function placesCount (count: number): QuotaCount & { readonly overflow: boolean } {
  return { count, held: count, windowRemaining: null, overflow: false }
}
