import { hasRoom } from '../counter.js'
import type { Acquisition, CallerCount, Demand, QuotaCount, Settled } from '../store.js'
import { nextId, type PlaceReceipt } from './memory-receipt.js'

/** The concurrent requests of one quota, by caller. Callers without any are not kept. */
export class MemoryPlaces {
  readonly #byCaller = new Map<string, Set<number>>()

  get callers (): number {
    return this.#byCaller.size
  }

  countOf (callerKey: string): number {
    return this.#byCaller.get(callerKey)?.size ?? 0
  }

  /** Takes a place. */
  admit ({ counters, callerKey }: Demand): Acquisition {
    const place = nextId()
    const places = this.#byCaller.get(callerKey)
    if (places === undefined) this.#byCaller.set(callerKey, new Set([place]))
    else places.add(place)
    const receipt: PlaceReceipt = { counters, callerKey, place }
    const count = this.countOf(callerKey)
    return { admitted: true, granted: 1, receipt, count, held: count, windowRemaining: null }
  }

  /** Takes no place for a demand of a rejected request. */
  reject (demand: Demand): Acquisition {
    const count = this.countOf(demand.callerKey)
    const admitted = hasRoom(count, demand)
    return { admitted, granted: 0, count, held: count, windowRemaining: null }
  }

  /** Frees a place. Returns whether it was taken. */
  settle ({ callerKey, place }: PlaceReceipt, { count }: Settled): boolean {
    const places = this.#byCaller.get(callerKey)
    if (places === undefined || count === 0) return false
    const wasTaken = places.delete(place)
    if (places.size === 0) this.#byCaller.delete(callerKey)
    return wasTaken
  }

  stateOf (callerKey: string): QuotaCount {
    const count = this.countOf(callerKey)
    return { count, held: count, windowRemaining: null }
  }

  list (): CallerCount[] {
    const callers = [...this.#byCaller.keys()]
    return callers.map((callerKey) => ({ callerKey, ...this.stateOf(callerKey) }))
  }
}
