import { nameOf, type Settlement } from './driver.js'
import { longestWait, mostWaiting, Waiting } from './waiting.js'

/**
 * The settlements that wait for the next call. Those of one window are one, so that as many wait as
 * there are windows, however many requests end together.
 */
export class WaitingSettlements {
  // By their window. The oldest is the first.
  #waiting = new Map<string, Waiting<Settlement>>()

  get size (): number {
    return this.#waiting.size
  }

  /**
   * Resolves when the settlement has been applied.
   *
   * @param window The length of the window in milliseconds.
   */
  add (settlement: Settlement, window: number): Promise<void> {
    const name = windowOf(settlement)
    const waiting = this.#waiting.get(name)
    if (waiting !== undefined) {
      waiting.item = joined(waiting.item, settlement)
      return waiting.done
    }
    const until = performance.now() + Math.max(window, longestWait)
    const added = new Waiting(settlement, until)
    this.#waiting.set(name, added)
    return added.done
  }

  /**
   * Adds settlements again of which certainly nothing was applied. They are older than all that
   * wait.
   */
  addAgain (settlements: readonly Waiting<Settlement>[]): void {
    const newer = [...this.#waiting]
    this.#waiting.clear()
    for (const each of settlements) this.#waiting.set(windowOf(each.item), each)
    for (const [name, each] of newer) {
      const older = this.#waiting.get(name)
      if (older === undefined) {
        this.#waiting.set(name, each)
      } else {
        older.item = joined(older.item, each.item)
        older.done.then(each.resolve, each.reject)
      }
    }
  }

  /** Rejects the oldest ones if too many wait, because the server fails. */
  bound (): void {
    for (const [name, oldest] of this.#waiting) {
      if (this.#waiting.size <= mostWaiting) return
      this.#waiting.delete(name)
      oldest.reject(new Error(`more than ${mostWaiting} settlements wait for the server`))
    }
  }

  /** Removes and returns the oldest ones. Rejects all whose window is over. */
  take (most: number): Waiting<Settlement>[] {
    const now = performance.now()
    const taken: Waiting<Settlement>[] = []
    for (const [name, waiting] of this.#waiting) {
      const isOver = waiting.until <= now
      if (!isOver && taken.length >= most) continue
      this.#waiting.delete(name)
      if (isOver) waiting.reject(new Error('the settlement waited until its window was over'))
      else taken.push(waiting)
    }
    // A map that changes with each request keeps alive what it has contained, as a set does: see
    // permit/closing.ts.
    if (this.#waiting.size === 0) this.#waiting = new Map()
    return taken
  }
}

function windowOf ({ counters, callerKey, overflow, windowId }: Settlement): string {
  // Callers who use the overflow counter share its window.
  const name = nameOf({ counters, callerKey: overflow ? '' : callerKey })
  return [windowId, overflow, name].join(' ')
}

/** Joins two settlements of the same window. */
function joined (one: Settlement, other: Settlement): Settlement {
  const lessHeld = new Map(one.lessHeld)
  for (const [period, less] of other.lessHeld) {
    lessHeld.set(period, less + (lessHeld.get(period) ?? 0))
  }
  return { ...one, lessCount: one.lessCount + other.lessCount, lessHeld }
}
