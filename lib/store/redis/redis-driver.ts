import type { Call, Decided, Driver, Holding, Release, StoredRequest } from '../shared/driver.js'
import type { CallerPage, Demand, QuotaCount, QuotaStoreState } from '../store.js'
import acquire from './acquire.lua.js'
import { changeOfHolding, changeOfRelease, decisionsOn, invocationOf, windowOf } from './arguments.js'
import clear from './clear.lua.js'
import forget from './forget.lua.js'
import inspect from './inspect.lua.js'
import list from './list.lua.js'
import peek from './peek.lua.js'
import { askAgain, readDecided, readPage, readPeeked, readState } from './replies.js'
import type { Scripts } from './scripts.js'

/** A part of the callers on a Redis or Valkey server, with a share of the caller cap. All of its keys are in one hash slot. */
export class RedisDriver implements Driver {
  readonly #register: string
  readonly #cap: number
  readonly #scripts: Scripts
  // The server keeps counters for longer than a window after a decision.
  readonly #expectedUntil = new Map<string, number>()

  /**
   * @param register The key of the shard, and the beginning of its other keys.
   * @param cap The share of the caller cap.
   */
  constructor (scripts: Scripts, register: string, cap: number) {
    this.#register = register
    this.#cap = cap
    this.#scripts = scripts
  }

  async acquire (requests: readonly StoredRequest[], call: Call): Promise<readonly (readonly Decided[] | undefined)[]> {
    const isExpected = (counters: string): boolean => performance.now() < Number(this.#expectedUntil.get(counters))
    const decisions = requests.map((request) => decisionsOn(request, isExpected))
    const { quotas, parameters, columns } = invocationOf(decisions, call, this.#cap)
    const decided = readDecided(await this.#scripts.run(acquire, this.#keys(quotas), parameters), columns)
    const now = performance.now()
    for (const { demand: { counters, window } } of decisions.flat()) if (window !== null) this.#expectedUntil.set(counters, now + window)
    return decisions.map((each) => {
      const decidedOn = each.map((decision): Decided => Object(decided.get(decision)))
      return decidedOn.some(({ count }) => count === askAgain) ? undefined : decidedOn
    })
  }

  async release (releases: readonly Release[], holdings: readonly Holding[], call: Call): Promise<void> {
    const changes = [...releases.map(changeOfRelease), ...holdings.map(changeOfHolding)].map((change) => [change])
    const { quotas, parameters } = invocationOf(changes, call, this.#cap)
    await this.#scripts.run(acquire, this.#keys(quotas), parameters)
  }

  async peek (demand: Demand, time: number | null): Promise<QuotaCount | null> {
    const parameters = [String(time ?? NaN), demand.callerKey, String(this.#cap), String(windowOf(demand)), String(demand.end ?? '')]
    let found: QuotaCount | null | string = '0'
    while (typeof found === 'string') {
      found = readPeeked(await this.#scripts.run(peek, [this.#key(demand.counters)], [...parameters, found]), demand)
    }
    return found
  }

  async forget (callerKey: string, counters: string): Promise<void> {
    await this.#scripts.run(forget, [this.#key(counters)], [callerKey])
  }

  async list (counters: string, cursor: string | null, time: number | null, date: number): Promise<CallerPage> {
    return readPage(await this.#scripts.run(list, [this.#key(counters)], [String(time ?? NaN), cursor ?? '0', String(date)]))
  }

  async inspect (counters: string): Promise<QuotaStoreState> {
    return readState(await this.#scripts.run(inspect, [this.#key(counters)]))
  }

  async clear (): Promise<void> {
    this.#expectedUntil.clear()
    await this.#scripts.run(clear, [this.#register])
  }

  #keys (quotas: readonly string[]): string[] {
    return [this.#register, ...quotas.map((counters) => this.#key(counters))]
  }

  #key (counters: string): string {
    return `${this.#register}:${counters}`
  }
}
