import { randomBytes } from 'node:crypto'
import type { Entry } from '../store.js'
import { Batches, hasRepeats, onceIfEqual } from './batches.js'
import type { QuotaRedisClient } from './client.js'
import text from './places.lua.js'
import { readEntry } from './replies.js'
import { Script } from './script.js'

// A lease ends 30 s after it was taken or renewed, so two renewals can fail.
const renewalInterval = 10_000

// How many rows a renewal checks for leases of processes that have ended.
const checkedByRenewal = '500'

// Bounds the duration of a script, and its arguments, of which Lua's stack holds about 8,000.
const mostRenewedAtOnce = 1000

// The ids of a process begin with characters of its own. Each id has 16 characters.
const processId = randomBytes(6).toString('base64url')
let entries = 0

/** The places of requests in flight in one shard. This process renews the leases of its own ones until they are given back. */
export class Places {
  readonly #script: Script
  readonly #clock: (() => number) | undefined
  readonly #batches: Batches
  // The ids of this process's places, by caller.
  readonly #entered = new Map<string, Set<string>>()
  #timer: NodeJS.Timeout | undefined

  constructor (client: QuotaRedisClient, key: string, clock: (() => number) | undefined) {
    this.#script = new Script(client, key, text, { HAS_CLOCK: clock !== undefined })
    this.#clock = clock
    this.#batches = new Batches((columns, time) => this.#run('0', columns, time), clock)
  }

  async enter (callerKey: string, limit: number): Promise<Entry> {
    const id = processId + (entries++).toString(36).padStart(8, '0')
    const entry = readEntry(await this.#batches.add(callerKey, id, String(limit)))
    if (!entry.admitted) return entry
    const ids = this.#entered.get(callerKey) ?? new Set()
    this.#entered.set(callerKey, ids.add(id))
    if (ids.size > limit) {
      // The server has lost places, for example because it evicts keys.
      await this.#leave(id, callerKey)
      return { admitted: false, count: ids.size }
    }
    this.#timer ??= setInterval(() => { this.#renew().catch(() => {}) }, renewalInterval).unref()
    return { ...entry, leave: () => this.#leave(id, callerKey) }
  }

  // A place that could not be given back is free when its lease ends, so the request that is over does not fail.
  async #leave (id: string, callerKey: string): Promise<void> {
    const ids = this.#entered.get(callerKey)
    if (ids?.delete(id) !== true) return
    if (ids.size === 0) this.#entered.delete(callerKey)
    if (this.#entered.size === 0) {
      clearInterval(this.#timer)
      this.#timer = undefined
    }
    await this.#batches.add(callerKey, id, '0').catch(() => {})
  }

  async #renew (): Promise<void> {
    const renewed = [...this.#entered].flatMap(([callerKey, ids]) => [...ids].map((id) => [id, callerKey] as const))
    for (let first = 0; first < renewed.length; first += mostRenewedAtOnce) {
      const some = renewed.slice(first, first + mostRenewedAtOnce)
      const columns = [some.map(([, callerKey]) => callerKey), some.map(([id]) => id), some.map(() => String(Number.MAX_SAFE_INTEGER))]
      await this.#run(checkedByRenewal, columns, this.#clock?.())
    }
    // A client with several connections can run a renewal after the command that gave the place back.
    await Promise.all(renewed.filter(([id, callerKey]) => this.#entered.get(callerKey)?.has(id) !== true).map(([id, callerKey]) => this.#batches.add(callerKey, id, '0')))
  }

  #run (checkedRows: string, [callers = [], ids = [], limits = []]: readonly string[][], time: number | undefined): Promise<unknown> {
    const sentLimits = onceIfEqual(limits)
    const parameters = [checkedRows, ...callers, ...ids, ...sentLimits, ...(time === undefined ? [] : [String(time)])]
    return this.#script.run(parameters, { HAS_LIMITS: sentLimits.length > 1, HAS_REPEATS: checkedRows !== '0' || hasRepeats(callers) })
  }
}
