import { randomBytes } from 'node:crypto'
import { setImmediate as turn } from 'node:timers/promises'
import { withTimeout } from '../../time-limit.js'
import { haveRoom } from '../side-by-side.js'
import type { Acquisition, Demand } from '../store.js'
import {
  nameOf,
  type Call,
  type Caller,
  type Decided,
  type Driver,
  type Holding,
  type Release
} from './driver.js'
import { longestWait, Queue } from './queue.js'

// A lease lasts three times as long, so two renewals can fail.
const renewalInterval = 10_000

// Numbers that this process uses once each. They begin anywhere, so that they differ from those of
// other processes.
let lastNumber = randomBytes(6).readUIntBE(0, 6)

/** What an acquisition has counted and can still be given back, and how. */
export const counted = new WeakMap<
  Acquisition,
  { readonly demand: Demand; left: number; giveBack(amount: number): Promise<unknown> }
>()

/** The places that this process holds for a caller, and what the server knows of them. */
interface HeldPlaces extends Holding {
  held: number
  /**
   * What the server knows, and until it has answered, the number of the latest call that told it;
   * then 0.
   */
  told: number
  unanswered: number
}

/**
 * The callers that one driver serves. A call to the driver takes with it what has arrived since the
 * one before. Calls follow each other, so that each one states truly how many places this process
 * holds: their number and no difference, so the next one corrects it.
 */
export class Shard {
  readonly #driver: Driver
  readonly #time: () => Call['time']
  readonly #holder = randomBytes(12).toString('base64url')
  readonly #requests = new Queue<readonly Demand[], readonly Acquisition[]>()
  readonly #changes = new Queue<Release | HeldPlaces, true>()
  #sending: Promise<void> | undefined
  // The callers for whom the server may have a number of places other than 0.
  readonly #places = new Map<string, HeldPlaces>()
  #renewal: NodeJS.Timeout | undefined

  constructor (driver: Driver, time: () => Call['time']) {
    this.#driver = driver
    this.#time = time
  }

  /** Asks the driver at once. */
  ask<Result>(question: (driver: Driver, time: Call['time']) => Promise<Result>): Promise<Result> {
    return withTimeout(longestWait, question(this.#driver, this.#time()))
  }

  acquire (demands: readonly Demand[]): Promise<readonly Acquisition[]> {
    this.#sending ??= this.#sendAll()
    return this.#requests.add(demands)
  }

  /** How many places of the caller this process holds. */
  held (caller: Caller): number {
    return this.#places.get(nameOf(caller))?.held ?? 0
  }

  dropPlaces (): void {
    this.#places.clear()
    clearInterval(this.#renewal)
    this.#renewal = undefined
  }

  #change (item: Release | HeldPlaces): Promise<true> {
    this.#sending ??= this.#sendAll()
    return this.#changes.add(item)
  }

  async #sendAll (): Promise<void> {
    do {
      // What arrives in one turn of the event loop goes into the same call.
      await turn()
      const changed = this.#changes.send((changes) => this.#apply(changes))
      // On the server they can run in the other order. The greater number is that of the places
      // that can only have become more.
      await Promise.all([
        changed,
        this.#requests.send((requests, asked) => this.#decide(requests, asked))
      ])
    } while (this.#changes.waiting.length + this.#requests.waiting.length > 0)
    this.#sending = undefined
  }

  async #apply (changes: readonly (Release | HeldPlaces)[]): Promise<true[]> {
    const call = this.#call()
    const releases = changes.filter((change) => 'amount' in change)
    const changed = [...new Set(changes.filter((change) => 'held' in change))].filter((places) =>
      this.#areHeld(places)
    )
    const holdings = changed.map((places) => ({ ...places, held: tell(places, call) }))
    await withTimeout(longestWait, this.#driver.release(releases, holdings, call))
    for (const places of changed) this.#noteAnswer(places, call)
    return changes.map(() => true)
  }

  async #decide (
    requests: readonly (readonly Demand[])[],
    asked: number
  ): Promise<readonly (readonly Decided[] | undefined)[]> {
    const call = this.#call()
    const stored = requests.map((demands) => {
      const nonce = lastNumber + 1
      lastNumber += demands.length
      return {
        demands,
        nonce,
        asked,
        held: demands.map((demand) =>
          demand.window === null ? tell(this.#placesOf(demand), call) : 0
        )
      }
    })
    const noted = this.#driver.acquire(stored, call).then((decided) => {
      requests.forEach((demands, index) => {
        this.#note(demands, decided[index] ?? [], call)
      })
      return decided
    })
    // What a request has counted is given back if its reply is too late.
    const late = (decided: Awaited<typeof noted>): void =>
      decided.flat().forEach((acquisition) => {
        const known = acquisition && counted.get(acquisition)
        known?.giveBack(known.left).catch(() => {})
      })
    return await withTimeout(longestWait, noted, { late })
  }

  #note (demands: readonly Demand[], acquisitions: readonly Decided[], call: Call): void {
    const isCounted = haveRoom(acquisitions)
    acquisitions.forEach((acquisition, index) => {
      const demand: Demand = Object(demands[index])
      const { counters, callerKey, cost, window } = demand
      const { overflow, nonce } = acquisition
      const places = window === null ? this.#placesOf(demand) : undefined
      const giveBack = async (amount: number): Promise<unknown> => {
        if (places === undefined) {
          return this.#change({ counters, callerKey, overflow, nonce, amount })
        }
        if (!this.#areHeld(places)) return
        places.held -= amount
        return this.#change(places)
      }
      if (isCounted) counted.set(acquisition, { demand, left: cost, giveBack })
      if (places === undefined) return
      const taken = isCounted ? cost : 0
      places.held += taken
      places.told += taken
      this.#noteAnswer(places, call)
    })
  }

  /** Returns the places of a caller, whose lease is renewed until they are dropped. */
  #placesOf ({ counters, callerKey }: Caller): HeldPlaces {
    const name = nameOf({ counters, callerKey })
    const places = this.#places.get(name) ?? {
      counters,
      callerKey,
      held: 0,
      told: 0,
      unanswered: 0
    }
    this.#places.set(name, places)
    const renew = (each: HeldPlaces): void => {
      this.#change(each).catch(() => {})
    }
    this.#renewal ??= setInterval(() => {
      this.#places.forEach(renew)
    }, renewalInterval).unref()
    return places
  }

  #areHeld (places: HeldPlaces): boolean {
    return this.#places.get(nameOf(places)) === places
  }

  /**
   * Drops the places if there are none and the server knows it. If not, a change that is still to
   * be sent or the next renewal tells it.
   */
  #noteAnswer (places: HeldPlaces, { sequence }: Call): void {
    if (places.unanswered === sequence) places.unanswered = 0
    const { held, told, unanswered } = places
    if (held === 0 && told === 0 && unanswered === 0 && this.#areHeld(places)) {
      this.#places.delete(nameOf(places))
    }
    if (this.#places.size === 0) this.dropPlaces()
  }

  #call (): Call {
    lastNumber += 1
    return { time: this.#time(), holder: this.#holder, sequence: lastNumber }
  }
}

/** Notes that a call tells the server how many places are held. */
function tell (places: HeldPlaces, { sequence }: Call): number {
  places.told = places.held
  places.unanswered = sequence
  return places.held
}
