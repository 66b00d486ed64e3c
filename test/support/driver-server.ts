// A server for stores on servers, in this process: what the interface of a driver says, written
// plainly. Tests make its messages late, lost or repeated.
import type {
  Call,
  Caller,
  Decided,
  Driver,
  Reply,
  StoredRequest
} from '../../lib/store/shared/driver.js'
import type { CallerPage, Demand, QuotaCount, QuotaStoreState } from '../../lib/store/store.js'

const placeDuration = 30_000
const periodLength = 600_000

/** What a caller, or the overflow counter, has counted in a window. */
export interface Window {
  readonly id: number
  readonly ends: number
  count: number
  readonly heldByPeriod: Map<number, number>
}

const rowOf = ({ counters, callerKey }: Caller) => JSON.stringify([counters, callerKey])
const overflowRow = ({ counters }: Pick<Caller, 'counters'>) => JSON.stringify([counters])

/** A server with a clock of its own, which has all callers of one shard. */
export class DriverServer implements Driver {
  mostDemands = 384
  /** How many calls have reached the server. */
  calls = 0
  readonly #clock: () => number
  readonly #cap: number
  readonly #windows = new Map<string, Window>()
  /** When each place of a caller ends, by its name. */
  readonly #places = new Map<string, Map<string, number>>()
  #latestId = 0

  constructor (clock: () => number, cap = Infinity) {
    this.#clock = clock
    this.#cap = cap
  }

  async decide (call: Call): Promise<Reply> {
    this.calls += 1
    for (const place of call.freed) this.#places.get(rowOf(place))?.delete(place.name)
    for (const place of call.renewed) this.#hold(place, place.name)
    for (const { overflow, windowId, lessCount, lessHeld, ...caller } of call.settlements) {
      const window = this.#windows.get(overflow ? overflowRow(caller) : rowOf(caller))
      if (window?.id !== windowId) continue
      window.count -= lessCount
      for (const [period, less] of lessHeld) {
        window.heldByPeriod.set(period, (window.heldByPeriod.get(period) ?? 0) - less)
      }
    }
    return call.requests.map((request) => this.#decideOn(request))
  }

  async peek (demand: Demand): Promise<QuotaCount | null> {
    if (demand.window === null) {
      const count = this.places(demand).length
      return { count, held: count, windowRemaining: null, overflow: false }
    }
    const window = this.#windows.get(rowOf(demand))
    if (window === undefined || window.ends <= (demand.start ?? this.#clock())) return null
    return this.#stateOf(window, demand, false)
  }

  async forget (callerKey: string, counters: string): Promise<void> {
    this.#windows.delete(rowOf({ callerKey, counters }))
  }

  async list (_counters: string, _cursor: string | null): Promise<CallerPage> {
    return { callers: [], cursor: null }
  }

  async inspect (): Promise<QuotaStoreState> {
    return { trackedCallers: this.#windows.size, sweeps: 0 }
  }

  async clear (): Promise<void> {
    this.#windows.clear()
    this.#places.clear()
  }

  /** The names of the caller's places that have not ended. */
  places (caller: Caller): string[] {
    const places = [...(this.#places.get(rowOf(caller)) ?? [])]
    return places.filter(([, ends]) => ends > this.#clock()).map(([name]) => name)
  }

  /** The latest window of a caller, or of the overflow counter; undefined if it has none. */
  window (caller: Caller, overflow = false): Window | undefined {
    return this.#windows.get(overflow ? overflowRow(caller) : rowOf(caller))
  }

  #decideOn ({ demands, place }: StoredRequest): readonly Decided[] {
    const now = this.#clock()
    const period = Math.floor(now / periodLength)
    const reached = demands.map((demand) => {
      const count =
        demand.window === null ? this.places(demand).length : this.#reach(demand).window.count
      const isUnlimited = demand.limit === Number.MAX_SAFE_INTEGER
      const hasRoom = isUnlimited || count + Math.max(demand.least, 1) <= demand.limit
      const room = isUnlimited ? Infinity : demand.limit - count
      return { demand, hasRoom, granted: Math.min(demand.most, room) }
    })
    const isAdmitted = reached.every(({ hasRoom }) => hasRoom)
    return reached.map(({ demand, hasRoom: admitted, granted: mostGranted }) => {
      const granted = isAdmitted ? mostGranted : 0
      if (demand.window === null) {
        if (isAdmitted) this.#hold(demand, place)
        const count = this.places(demand).length
        const held = { count, held: count, windowRemaining: null, overflow: false }
        return { admitted, granted, ...held, windowId: 0, period }
      }
      const { window, overflow } = this.#reach(demand)
      window.count += granted
      const held = window.heldByPeriod.get(period) ?? 0
      if (demand.isEstimate) window.heldByPeriod.set(period, held + granted)
      const state = this.#stateOf(window, demand, overflow)
      return { admitted, granted, ...state, windowId: window.id, period }
    })
  }

  #reach (demand: Demand): { readonly window: Window; readonly overflow: boolean } {
    const own = this.#windows.has(rowOf(demand)) || this.#windows.size < this.#cap
    const row = own ? rowOf(demand) : overflowRow(demand)
    let window = this.#windows.get(row)
    if (window === undefined || window.ends <= (demand.start ?? this.#clock())) {
      this.#latestId += 1
      const ends = demand.end ?? this.#clock() + (demand.window ?? 0)
      window = { id: this.#latestId, ends, count: 0, heldByPeriod: new Map() }
      this.#windows.set(row, window)
    }
    return { window, overflow: !own }
  }

  #hold (caller: Caller, name: string): void {
    const places = this.#places.get(rowOf(caller)) ?? new Map<string, number>()
    this.#places.set(rowOf(caller), places)
    places.set(name, this.#clock() + placeDuration)
  }

  #stateOf ({ count, ends, heldByPeriod }: Window, demand: Demand, overflow: boolean): QuotaCount {
    const period = Math.floor(this.#clock() / periodLength)
    const held = (heldByPeriod.get(period) ?? 0) + (heldByPeriod.get(period - 1) ?? 0)
    if (demand.end !== null) return { count, held, windowRemaining: null, end: ends, overflow }
    return { count, held, windowRemaining: ends - this.#clock(), overflow }
  }
}
