// What is true in a simulation, kept without the code of lib: which requests run, what they were
// granted and used, in which windows the server counted it, and what their users were told.
import type { Call, Reply } from '../../lib/store/shared/driver.js'
import type { Demand } from '../../lib/store/store.js'
import { required } from '../../lib/required.js'
import type { DriverServer, Window } from '../support/driver-server.js'
import type { Link } from './network.js'

// For as long after a message was lost or late, or a server has lost everything, a place that a
// request has can be missing.
const placeDuration = 30_000

/** What should always be true is not. */
export class Violation extends Error {}

/** What a server has counted of a request. */
interface Counted {
  readonly server: DriverServer
  readonly window: Window
  readonly overflow: boolean
  readonly amount: number
}

/** A place that a server has given to a request. */
interface GivenPlace {
  readonly server: DriverServer
  readonly name: string
}

/** A request of a user to its store, from the demands to the last report. */
export interface Use {
  readonly process: { readonly isAlive: boolean }
  /** The connections of the process. */
  readonly links: ReadonlyMap<DriverServer, Link>
  readonly tokens: Demand
  readonly place: Demand | null
  state: 'asked' | 'admitted' | 'rejected' | 'failed'
  granted: number
  /** What is left of the grant after what was given back; infinite before the first settlement. */
  used: number
  /** Whether it runs, and has a place. */
  isRunning: boolean
  counted: Counted | null
  given: GivenPlace | null
  /** Whether its user was told that what it counts may be wrong, or its process was killed. */
  isUncertain: boolean
  /** Whether the fallback of an insured store has decided. */
  isElsewhere: boolean
}

/** Whether a demand has the greatest limit, as of what was used beyond a grant. */
export function isUnlimited ({ limit }: Demand): boolean {
  return limit === Number.MAX_SAFE_INTEGER
}

/** The truth of a simulation, with which a store is compared. */
export class Ledger {
  readonly uses: Use[] = []
  /** Whether a message has not reached a process that waits for it. */
  hasLost = false
  readonly #useOf = new Map<Demand, Use>()
  readonly #lostAllAt = new Map<DriverServer, number>()
  // The callers whose places a server can have given to others: a documented loss.
  readonly #lostPlaces = new Set<string>()

  /** Begins a request: the demands of one call of `acquire`. */
  begin (process: Use['process'], links: Use['links'], demands: readonly Demand[]): Use {
    const tokens = demands.find(({ window }) => window !== null)
    const use: Use = {
      process,
      links,
      tokens: required(tokens, 'the demand of a window'),
      place: demands.find(({ window }) => window === null) ?? null,
      state: 'asked',
      granted: 0,
      used: Infinity,
      isRunning: false,
      counted: null,
      given: null,
      isUncertain: false,
      isElsewhere: false
    }
    this.uses.push(use)
    for (const demand of demands) this.#useOf.set(demand, use)
    return use
  }

  /** The request of a demand. */
  useOf (demand: Demand): Use {
    return required(this.#useOf.get(demand), 'the request of a demand')
  }

  /** Notes what a server has decided. */
  note (server: DriverServer, { requests }: Call, reply: Reply): void {
    for (const [index, { demands, place }] of requests.entries()) {
      const decided = required(reply.decided[index], 'what was decided on a request')
      if (!decided.every(({ admitted }) => admitted)) continue
      for (const [position, { granted, overflow }] of decided.entries()) {
        const demand = required(demands[position], 'a demand')
        const use = this.useOf(demand)
        if (demand.window === null) use.given = { server, name: place }
        else {
          const window = required(server.window(demand, overflow), 'the window')
          use.counted = { server, window, overflow, amount: granted }
        }
      }
    }
  }

  /** Notes that a server has lost everything: a documented loss. */
  noteLossOf (server: DriverServer): void {
    this.#lostAllAt.set(server, performance.now())
  }

  /** Notes that a process was killed. */
  noteKill (process: object): void {
    for (const use of this.uses) {
      if (use.process !== process) continue
      use.isRunning = false
      use.isUncertain = true
      if (use.state === 'asked') use.state = 'failed'
    }
  }

  /** Throws unless what is true at any moment is true. */
  assertAlways (): void {
    const kept = new Map<Window, number>()
    for (const use of this.uses) {
      if (use.state !== 'admitted' || use.isElsewhere) continue
      const { window, amount } = required(use.counted, 'what a server has counted')
      if (use.granted !== amount) {
        throw new Violation(`a request was granted ${use.granted}, and ${amount} is counted`)
      }
      if (isUnlimited(use.tokens)) continue
      const sum = (kept.get(window) ?? 0) + Math.min(use.granted, use.used)
      kept.set(window, sum)
      if (sum > use.tokens.limit) {
        throw new Violation(`${sum} is granted in a window of ${use.tokens.limit}`)
      }
    }
    for (const running of this.#runningByCaller().values()) this.#assertPlaces(running)
  }

  /** @param running The requests of a caller that run and have places. */
  #assertPlaces (running: readonly Use[]): void {
    const { place } = required(running[0], 'a request')
    const { callerKey, limit } = required(place, 'the demand of a place')
    for (const use of running) {
      const { server, name } = required(use.given, 'the place')
      if (server.places(required(use.place, 'the demand of a place')).includes(name)) continue
      const troubledAt = Math.max(
        this.#lostAllAt.get(server) ?? -Infinity,
        use.links.get(server)?.troubledAt ?? -Infinity
      )
      if (performance.now() - troubledAt > placeDuration) {
        throw new Violation('the place of a request that runs has ended')
      }
      this.#lostPlaces.add(callerKey)
    }
    if (running.length <= limit) this.#lostPlaces.delete(callerKey)
    else if (!this.#lostPlaces.has(callerKey)) {
      throw new Violation(`${running.length} requests run, and there are ${limit} places`)
    }
  }

  /** Throws unless the places on the servers are those of the requests that run. */
  assertPlaces (servers: readonly DriverServer[]): void {
    const running = this.#runningByCaller()
    const callers = new Map<string, Demand>()
    for (const { place } of this.uses) if (place !== null) callers.set(place.callerKey, place)
    for (const [callerKey, place] of callers) {
      const names = servers.flatMap((server) => server.places(place))
      const expected = (running.get(callerKey) ?? []).map(({ given }) => given?.name)
      if (names.some((name) => !expected.includes(name))) {
        throw new Violation(`places are lost: ${names.length}, not ${expected.length}`)
      }
      if (names.length < expected.length) {
        throw new Violation(`places in use are free: ${names.length}, not ${expected.length}`)
      }
    }
  }

  /** Throws unless the servers count what was used, when nothing runs any more. */
  assertCounts (): void {
    const windows = new Map<Window, Use[]>()
    for (const use of this.uses) {
      if (use.counted === null) continue
      const { server, window, overflow } = use.counted
      if (server.window(use.tokens, overflow) !== window) continue
      windows.set(window, [...(windows.get(window) ?? []), use])
    }
    for (const [window, uses] of windows) this.#assertCounted(window, uses)
  }

  #assertCounted ({ count, ends, heldByPeriod }: Window, uses: readonly Use[]): void {
    // What is late is counted in the end. A settlement waits for as long as a window lasts.
    const isExact = !this.hasLost && ends > performance.now()
    let least = 0
    let uncertain = 0
    let mostHeld = 0
    for (const use of uses) {
      const due = use.state === 'admitted' && !use.isElsewhere ? Math.min(use.granted, use.used) : 0
      least += due
      const isCertain = use.state === 'admitted' && !use.isElsewhere && !use.isUncertain
      if (isCertain || isExact) continue
      const amount = use.counted?.amount ?? 0
      uncertain += amount - due
      mostHeld += amount
    }
    if (count < least || count > least + uncertain) {
      throw new Violation(`a window counts ${count}, not ${least} to ${least + uncertain}`)
    }
    for (const held of heldByPeriod.values()) {
      if (held < 0 || held > mostHeld) {
        throw new Violation(`a window holds ${held}, not 0 to ${mostHeld}`)
      }
    }
  }

  /** Throws unless each request was answered. */
  assertAnswered (): void {
    for (const { state } of this.uses) {
      if (state === 'asked') throw new Violation('a promise is not answered')
    }
  }

  #runningByCaller (): Map<string, Use[]> {
    const running = new Map<string, Use[]>()
    for (const use of this.uses) {
      if (!use.isRunning || use.place === null || use.isElsewhere) continue
      const { callerKey } = use.place
      running.set(callerKey, [...(running.get(callerKey) ?? []), use])
    }
    return running
  }
}
