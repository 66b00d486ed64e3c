import { createHash } from 'node:crypto'
import type { Call, Driver, Reply } from '../shared/driver.js'
import type { CallerPage, Demand, QuotaCount, QuotaStoreState } from '../store.js'
import { argumentsOf, quotaName, rowName } from './arguments.js'
import clean from './clean.lua.js'
import clear from './clear.lua.js'
import type { QuotaRedisClient } from './clients.js'
import decide from './decide.lua.js'
import forget from './forget.lua.js'
import inspect from './inspect.lua.js'
import list from './list.lua.js'
import peek from './peek.lua.js'
import { readFlag, readPage, readPeeked, readReply, readState } from './replies.js'

/**
 * A part of the callers on a Redis or Valkey server, with a share of the caller cap. It has two
 * keys in one hash slot (docs/shared-stores.md).
 */
export class RedisDriver implements Driver {
  readonly mostDemands = 384
  readonly #client: QuotaRedisClient
  readonly #keys: readonly string[]
  readonly #cap: number
  // The digests of the scripts that were sent.
  readonly #digests = new Map<string, string>()
  // The server keeps counters for longer than a window after a decision.
  #expectedUntil = -Infinity

  constructor (client: QuotaRedisClient, key: string, cap: number) {
    this.#client = client
    this.#keys = [key, `${key}:places`]
    this.#cap = cap
  }

  async decide (call: Call): Promise<Reply> {
    const isExpected = performance.now() < this.#expectedUntil
    const reply = await this.#run(decide, ...argumentsOf(call, this.#cap, isExpected))
    const now = performance.now()
    for (const demands of call.requests) {
      for (const { window } of demands) {
        if (window !== null) this.#expectedUntil = Math.max(this.#expectedUntil, now + window)
      }
    }
    return readReply(reply, call.requests)
  }

  async peek (demand: Demand, time: number | null): Promise<QuotaCount | null> {
    if (demand.window === null) await this.#cleanPlaces(time)
    let found: QuotaCount | null | number = 0
    while (typeof found === 'number') {
      const parameters = {
        time: time ?? undefined,
        cap: this.#cap,
        quota: quotaName(demand.counters),
        row: rowName(demand),
        isPlace: demand.window === null || undefined,
        ends: demand.end ?? undefined,
        cursor: found
      }
      found = readPeeked(await this.#run(peek, JSON.stringify(parameters)), demand)
    }
    return found
  }

  async forget (callerKey: string, counters: string): Promise<void> {
    await this.#run(forget, quotaName(counters), rowName({ callerKey, counters }))
  }

  async list (
    counters: string,
    cursor: string | null,
    time: number | null,
    date: number
  ): Promise<CallerPage> {
    await this.#cleanPlaces(time)
    const parameters = {
      time: time ?? undefined,
      date,
      quota: quotaName(counters),
      cursor: cursor ?? '0'
    }
    return readPage(await this.#run(list, JSON.stringify(parameters)))
  }

  async inspect (counters: string): Promise<QuotaStoreState> {
    return readState(await this.#run(inspect, quotaName(counters)))
  }

  async clear (): Promise<void> {
    this.#expectedUntil = -Infinity
    await this.#run(clear)
  }

  /** Removes places without a lease, so that none is read. */
  async #cleanPlaces (time: number | null): Promise<void> {
    let isClean = false
    while (!isClean) isClean = readFlag(await this.#run(clean, String(time ?? -1)))
  }

  /**
   * Sends a script by its digest, but as source the first time and if the server has lost it, as in
   * a restart.
   */
  async #run (source: string, ...parameters: readonly (string | Buffer)[]): Promise<unknown> {
    const digest = this.#digests.get(source)
    if (digest === undefined) {
      // Commands on one connection run in order, so the ones that follow can use the digest without
      // waiting for this one.
      this.#digests.set(source, createHash('sha1').update(source).digest('hex'))
      return await this.#client.evaluateSource(source, this.#keys, parameters)
    }
    try {
      return await this.#client.evaluateDigest(digest, this.#keys, parameters)
    } catch (error) {
      if (error instanceof Error && error.message.startsWith('NOSCRIPT')) {
        return await this.#client.evaluateSource(source, this.#keys, parameters)
      }
      throw error
    }
  }
}
