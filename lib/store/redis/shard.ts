import type { Acquisition, Entry, QuotaCount, QuotaStoreState } from '../store.js'
import acquireText from './acquire.lua.js'
import { Batches, hasRepeats, onceIfEqual } from './batches.js'
import type { QuotaRedisClient } from './client.js'
import forgetText from './forget.lua.js'
import inspectText from './inspect.lua.js'
import peekText from './peek.lua.js'
import { Places } from './places.js'
import { readAcquisition, readCount, readState } from './replies.js'
import { Script } from './script.js'

/** What the shards of a quota have in common. */
export interface ShardSettings {
  readonly client: QuotaRedisClient
  readonly window: number
  readonly clock: (() => number) | undefined
}

/** One hash on the server with the counters of a part of the callers, a share of the caller cap and an overflow counter of its own. */
export class Shard {
  readonly #client: QuotaRedisClient
  readonly #key: string
  readonly #window: number
  readonly #clock: (() => number) | undefined
  readonly #decisions: Batches
  readonly #places: Places
  readonly #acquire: Script
  readonly #peek: Script
  readonly #forget: Script
  readonly #inspect: Script
  #decidedAt = -Infinity

  constructor ({ client, window, clock }: ShardSettings, key: string, cap: number) {
    this.#client = client
    this.#key = `${key}:counters`
    this.#window = window
    this.#clock = clock
    this.#acquire = new Script(client, this.#key, acquireText, { WINDOW: window, CAP: cap, HAS_CLOCK: clock !== undefined })
    this.#peek = new Script(client, this.#key, peekText, { WINDOW: window, CAP: cap })
    this.#forget = new Script(client, this.#key, forgetText)
    this.#inspect = new Script(client, this.#key, inspectText)
    this.#decisions = new Batches((columns, time) => this.#decide(columns, time), clock)
    this.#places = new Places(client, `${key}:places`, clock)
  }

  async acquire (callerKey: string, limit: number, cost: number): Promise<Acquisition> {
    for (;;) {
      const acquisition = readAcquisition(await this.#decisions.add(callerKey, String(limit), String(cost)))
      if (acquisition !== undefined) return acquisition
    }
  }

  enter (callerKey: string, limit: number): Promise<Entry> {
    return this.#places.enter(callerKey, limit)
  }

  async peek (callerKey: string): Promise<QuotaCount | null> {
    const time = this.#clock === undefined ? '' : String(this.#clock())
    this.#decisions.flush()
    let found: QuotaCount | null | string = '0'
    while (typeof found === 'string') found = readCount(await this.#peek.run([callerKey, found, time]))
    return found
  }

  async forget (callerKey: string): Promise<void> {
    this.#decisions.flush()
    await this.#forget.run([callerKey])
  }

  async clear (): Promise<void> {
    this.#decisions.flush()
    await this.#client.removeKey(this.#key)
    this.#decidedAt = -Infinity
  }

  async inspect (): Promise<QuotaStoreState> {
    this.#decisions.flush()
    return readState(await this.#inspect.run([]))
  }

  async #decide ([callers = [], limits = [], costs = []]: readonly string[][], time: number | undefined): Promise<unknown> {
    const sentLimits = onceIfEqual(limits)
    // The usual costs are constants.
    const cost = ['0', '1'].find((usual) => costs.every((cost) => cost === usual))
    // The server keeps a shard for longer than a window after a decision.
    const isExpected = performance.now() - this.#decidedAt < this.#window
    const parameters = [...callers, ...sentLimits, ...(cost === undefined ? costs : []), ...(time === undefined ? [] : [String(time)]), ...(isExpected ? [] : ['new'])]
    const reply = await this.#acquire.run(parameters, { HAS_LIMITS: sentLimits.length > 1, HAS_REPEATS: hasRepeats(callers), COST: cost === undefined ? false : Number(cost) })
    this.#decidedAt = performance.now()
    return reply
  }
}
