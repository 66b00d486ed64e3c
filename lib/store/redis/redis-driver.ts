import { createHash } from 'node:crypto'
import { NotRunError, type Call, type Driver, type Reply } from '../shared/driver.js'
import type { CallerPage, Demand, QuotaCount, QuotaStoreState } from '../store.js'
import { DecideArguments, placesField, windowsField } from './arguments.js'
import clear from './clear.lua.js'
import type { QuotaRedisClient } from './clients.js'
import decide from './decide.lua.js'
import forget from './forget.lua.js'
import inspect from './inspect.lua.js'
import list from './list.lua.js'
import memory from './memory.lua.js'
import peekPlaces from './peek-places.lua.js'
import peek from './peek.lua.js'
import { readPage, readPeeked, readPlaces, readReply, readState } from './replies.js'

// What stands for the time of the server's clock.
const serverTime = -1

/**
 * A part of the callers on a Redis or Valkey server, with a share of the caller cap. All of its
 * keys are in one hash slot (docs/shared-stores.md).
 */
export class RedisDriver implements Driver {
  readonly mostDemands = 384
  readonly #client: QuotaRedisClient
  readonly #shard: string
  readonly #cap: number
  // The digests of the scripts that were sent.
  readonly #digests = new Map<string, string>()
  // By the counters of a quota, the time of `performance.now()` until which the server should have
  // them, because this process has counted there.
  readonly #expectedUntil = new Map<string, number>()

  /** @param shard The key of the shard. All other keys begin with it. */
  constructor (client: QuotaRedisClient, shard: string, cap: number) {
    this.#client = client
    this.#shard = shard
    this.#cap = cap
  }

  async decide (call: Call): Promise<Reply> {
    const reply = await this.#runDecide(call)
    const decided = readReply(reply, call.requests)
    const now = performance.now()
    for (const { demands } of call.requests) {
      for (const { counters, window } of demands) {
        if (window !== null) this.#expectedUntil.set(counters, now + window)
      }
    }
    return decided
  }

  async peek (demand: Demand, time: number | null): Promise<QuotaCount | null> {
    const { counters, callerKey, window, start } = demand
    if (window === null) {
      const key = `${this.#keyOf(placesField(counters))} ${callerKey}`
      return readPlaces(await this.#run(peekPlaces, [key], time ?? serverTime))
    }
    const field = windowsField(counters)
    const keys = [this.#keyOf(field)]
    const values = [field, callerKey, time ?? serverTime, this.#cap, start ?? -1]
    return readPeeked(await this.#run(peek, keys, ...values), demand)
  }

  async forget (callerKey: string, counters: string): Promise<void> {
    await this.#run(forget, [this.#keyOf(windowsField(counters))], callerKey)
  }

  async list (
    counters: string,
    cursor: string | null,
    time: number | null,
    date: number
  ): Promise<CallerPage> {
    const field = windowsField(counters)
    const keys = [this.#keyOf(field), this.#keyOf(placesField(counters))]
    const values = [field, cursor ?? '0', time ?? serverTime, date]
    return readPage(await this.#run(list, keys, ...values))
  }

  async inspect (counters: string, time: number | null): Promise<QuotaStoreState> {
    const field = windowsField(counters)
    const keys = [this.#keyOf(field), this.#keyOf(placesField(counters))]
    return readState(await this.#run(inspect, keys, field, time ?? serverTime))
  }

  async clear (): Promise<void> {
    this.#expectedUntil.clear()
    await this.#run(clear, [])
  }

  async #runDecide (call: Call): Promise<unknown> {
    const now = performance.now()
    const isExpected = (counters: string): boolean => now < (this.#expectedUntil.get(counters) ?? 0)
    try {
      return await this.#runWith(isExpected, call)
    } catch (error) {
      // Nothing of the call was done. It is done if the server has not evicted the counters.
      if (!hasMessage(error, /LOST the counters of/)) throw error
      await this.#run(memory, [])
      return await this.#runWith(() => false, call)
    }
  }

  #runWith (isExpected: (counters: string) => boolean, call: Call): Promise<unknown> {
    const { keys, parameters } = new DecideArguments(this.#shard, call, this.#cap, isExpected)
    return this.#send(decide, keys, parameters)
  }

  #keyOf (field: string): string {
    return `${this.#shard}:${field}`
  }

  #run (
    source: string,
    keys: readonly string[],
    ...values: readonly (string | number)[]
  ): Promise<unknown> {
    return this.#send(source, [this.#shard, ...keys], values.map(String))
  }

  /**
   * Runs a script.
   *
   * @throws {NotRunError} While a slot of a cluster moves, and its keys are on two servers.
   */
  async #send (
    source: string,
    keys: readonly string[],
    parameters: readonly (string | Buffer)[]
  ): Promise<unknown> {
    try {
      return await this.#evaluate(source, keys, parameters)
    } catch (error) {
      // GLIDE replaces the codes of some error replies by names of its own.
      if (!hasMessage(error, /TRYAGAIN|TryAgain/)) throw error
      throw new NotRunError(error, true)
    }
  }

  /**
   * Sends a script by its digest, but as source the first time and if the server has lost it, as in
   * a restart.
   */
  async #evaluate (
    source: string,
    keys: readonly string[],
    parameters: readonly (string | Buffer)[]
  ): Promise<unknown> {
    const digest = this.#digests.get(source)
    if (digest === undefined) {
      // Commands on one connection run in order, so the ones that follow can use the digest without
      // waiting for this one.
      this.#digests.set(source, createHash('sha1').update(source).digest('hex'))
      return await this.#client.evaluateSource(source, keys, parameters)
    }
    try {
      return await this.#client.evaluateDigest(digest, keys, parameters)
    } catch (error) {
      if (!hasMessage(error, /^NOSCRIPT/)) throw error
      return await this.#client.evaluateSource(source, keys, parameters)
    }
  }
}

function hasMessage (error: unknown, pattern: RegExp): boolean {
  return error instanceof Error && pattern.test(error.message)
}
