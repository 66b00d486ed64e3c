import { required } from '../../required.js'
import { CopiedAcquisition } from '../copied-acquisition.js'
import type { Acquisition, Demand } from '../store.js'
import type { Decided, NamedPlace, Settlement } from './driver.js'

/** Settles what a shard has counted. Each promise is fulfilled when the server has done it. */
export interface Settler {
  /** @param window The length of the window in milliseconds. */
  settle(settlement: Settlement, window: number): Promise<void>
  free(place: NamedPlace): Promise<void>
}

/** An acquisition of a store on a server. One of this class itself has counted nothing. */
export class SharedAcquisition extends CopiedAcquisition {
  readonly #settler: Settler
  readonly #demand: Demand

  constructor (settler: Settler, demand: Demand, decided: Acquisition) {
    super(decided)
    this.#settler = settler
    this.#demand = demand
  }

  /** The shard that has decided. */
  get settler (): Settler {
    return this.#settler
  }

  get demand (): Demand {
    return this.#demand
  }

  /** Does nothing, because nothing is counted. */
  async settle (_used: number): Promise<void> {}
}

/** A demand that was counted in a window. Settling it lowers what it counts, and holds nothing. */
export class CountedInWindow extends SharedAcquisition {
  readonly #windowId: number
  readonly #period: number
  /** What it counts now. */
  #counted: number
  #held: number
  /** Settles as the latest settlement that was sent. */
  #settled: Promise<void> | undefined

  constructor (settler: Settler, demand: Demand, decided: Decided) {
    super(settler, demand, decided)
    this.#windowId = decided.windowId
    this.#period = decided.period
    this.#counted = decided.granted
    this.#held = demand.isEstimate ? decided.granted : 0
  }

  override async settle (used: number): Promise<void> {
    const lessCount = Math.max(0, this.#counted - used)
    const lessHeld = this.#held
    if (lessCount === 0 && lessHeld === 0) return await this.#settled
    this.#counted -= lessCount
    this.#held = 0
    const { counters, callerKey, window } = this.demand
    const settlement = {
      counters,
      callerKey,
      overflow: this.overflow,
      windowId: this.#windowId,
      lessCount,
      lessHeld: new Map(lessHeld > 0 ? [[this.#period, lessHeld]] : [])
    }
    this.#settled = this.settler.settle(settlement, required(window, 'the window of a demand'))
    await this.#settled
  }
}

/** A demand that took a place, which is free again once it is settled with 0. */
export class TakenPlace extends SharedAcquisition {
  readonly #place: NamedPlace
  /** Settles when the place is free; undefined until it is freed. */
  #freed: Promise<void> | undefined

  /** @param name The name of the place. */
  constructor (settler: Settler, demand: Demand, decided: Decided, name: string) {
    super(settler, demand, decided)
    const { counters, callerKey } = demand
    this.#place = { counters, callerKey, name }
  }

  get place (): NamedPlace {
    return this.#place
  }

  override async settle (used: number): Promise<void> {
    if (used > 0) return
    this.#freed ??= this.settler.free(this.#place)
    await this.#freed
  }
}
