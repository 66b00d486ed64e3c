import { createHash } from 'node:crypto'
import { NotRunError, TryAgainError, type Call, type Driver, type Reply } from '../shared/driver.js'
import { storedName } from '../shared/stored-names.js'
import type { CallerPage, Demand, QuotaCount, QuotaStoreState } from '../store.js'
import { DecideArguments, holderKey, placesKey, windowsKey } from './arguments.js'
import clear from './clear.lua.js'
import type { QuotaRedisClient } from './clients.js'
import decide from './decide.lua.js'
import forget from './forget.lua.js'
import inspect from './inspect.lua.js'
import list from './list.lua.js'
import peekPlaces from './peek-places.lua.js'
import peek from './peek.lua.js'
import { readPage, readPeeked, readPlaces, readReply, readState } from './replies.js'

// What stands for the time of the server's clock.
const serverTime = -1

// While a slot of a cluster moves, its keys are on two servers. The next attempt can succeed in a
// moment. GLIDE replaces the codes of some error replies by names of its own. The sentence is about
// a key that decide.lua itself has emptied, before it has written any counter: what it can have
// done is to free, renew or take places, which can be done again.
const movingCode = /\b(?:TRYAGAIN|TryAgain)\b|attempted to access a non local key/
// Errors with which a server refuses a script, or its first write, before which decide.lua changes
// nothing. Redis 6.2 writes `ERR Error running script` in front. A cluster that is down but can be
// read refuses the write by a sentence, and one whose slots move faster than a client follows
// redirects it.
const refusalCode = new RegExp(
  '\\b(?:READONLY|LOADING|OOM|CLUSTERDOWN|MASTERDOWN|NOREPLICAS|MISCONF|BUSY|VERSION' +
    '|ReadOnly|BusyLoadingError|ClusterDown|MasterDown|MOVED|ASK|the cluster is down)\\b'
)

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

  /** @param shard The key of the shard. All other keys begin with it. */
  constructor (client: QuotaRedisClient, shard: string, cap: number) {
    this.#client = client
    this.#shard = shard
    this.#cap = cap
  }

  async decide (call: Call): Promise<Reply> {
    const { keys, parameters } = new DecideArguments(this.#shard, call, this.#cap)
    const reply = this.#evaluate(decide, keys, parameters)
    return readReply(await reply.catch(rejectIfNotRun), call.requests)
  }

  async peek (demand: Demand, time: number | null): Promise<QuotaCount | null> {
    const { counters, callerKey, window, start } = demand
    if (window === null) {
      const keys = [this.#keyOf(holderKey(demand))]
      return readPlaces(await this.#run(peekPlaces, keys, time ?? serverTime))
    }
    const keys = [this.#keyOf(windowsKey(counters))]
    const values = [storedName(callerKey), time ?? serverTime, this.#cap, start ?? -1]
    return readPeeked(await this.#run(peek, keys, ...values), demand)
  }

  async forget (callerKey: string, counters: string): Promise<void> {
    await this.#run(forget, [this.#keyOf(windowsKey(counters))], storedName(callerKey))
  }

  async list (
    counters: string,
    cursor: string | null,
    time: number | null,
    date: number
  ): Promise<CallerPage> {
    const values = [cursor ?? '0', time ?? serverTime, date]
    return readPage(await this.#run(list, this.#keysOf(counters), ...values))
  }

  async inspect (counters: string, time: number | null): Promise<QuotaStoreState> {
    return readState(await this.#run(inspect, this.#keysOf(counters), time ?? serverTime))
  }

  async clear (): Promise<void> {
    await this.#run(clear, [])
  }

  #keyOf (end: string): string {
    return `${this.#shard}:${end}`
  }

  /** The keys of a quota, of which it has one. */
  #keysOf (counters: string): string[] {
    return [this.#keyOf(windowsKey(counters)), this.#keyOf(placesKey(counters))]
  }

  #run (
    source: string,
    keys: readonly string[],
    ...values: readonly (string | number)[]
  ): Promise<unknown> {
    return this.#evaluate(source, [this.#shard, ...keys], values.map(String))
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

/** Throws the error of a call, as a `NotRunError` if certainly nothing of the call has run. */
function rejectIfNotRun (error: unknown): never {
  if (hasMessage(error, movingCode)) throw new TryAgainError(error)
  if (hasMessage(error, refusalCode)) throw new NotRunError(error)
  throw error
}

function hasMessage (error: unknown, pattern: RegExp): boolean {
  return error instanceof Error && pattern.test(error.message)
}
