import { createHash } from 'node:crypto'
import {
  NotRunError,
  TryAgainError,
  type Call,
  type Connection,
  type Driver,
  type Reply
} from '../shared/driver.js'
import { periodLength } from '../counter.js'
import { overflowRow, storedName } from '../shared/stored-names.js'
import type { CallerPage, QuotaStoreState } from '../store.js'
import { DecideArguments, serverTime } from './arguments.js'
import clear from './clear.lua.js'
import type { QuotaRedisClient } from './clients.js'
import decide from './decide.lua.js'
import forget from './forget.lua.js'
import inspect from './inspect.lua.js'
import type { Keys } from './keys.js'
import list from './list.lua.js'
import { readCallers, readPage, readReply } from './replies.js'

// The codes of error replies, which stand at the beginning of the message, or after what a client
// or Redis 6.2 (`ERR Error running script`) writes in front. GLIDE has names of its own for some.

// While a slot of a cluster moves, its keys are on two servers. The next attempt can succeed in a
// moment.
const movingCode = /\b(?:TRYAGAIN|TryAgain)\b/
// With these, a server refuses a script, or its first write, before which decide.lua changes
// nothing. It redirects a client that does not follow as fast as slots move.
const refusalCode = new RegExp(
  '\\b(?:READONLY|LOADING|OOM|CLUSTERDOWN|MASTERDOWN|NOREPLICAS|MISCONF|BUSY' +
    '|ReadOnly|BusyLoadingError|ClusterDown|MasterDown|MOVED|ASK)\\b'
)

/** The counters and places on a Redis or Valkey server, in one hash slot (keys.ts). */
export class RedisDriver implements Driver {
  readonly mostDemands = 384
  readonly hasJournal = false
  readonly canRepeat = true
  readonly #client: QuotaRedisClient
  readonly #keys: Keys
  readonly #cap: number
  // The digests of the scripts that were sent.
  readonly #digests = new Map<string, string>()
  readonly #connection: Connection = {
    run: (call) => this.#decide(call),
    release () {}
  }

  /** @param cap The most callers with a counter of their own in each quota, or `Infinity`. */
  constructor (client: QuotaRedisClient, keys: Keys, cap: number) {
    this.#client = client
    this.#keys = keys
    this.#cap = cap
  }

  /** @throws {NotRunError} If the client says that it is not ready. */
  connect (): Connection {
    const readiness = this.#client.readiness?.()
    if (readiness === 'connecting') {
      throw new TryAgainError(new Error('the Redis client is not connected'))
    }
    if (readiness === 'closed') throw new NotRunError(new Error('the Redis client is closed'))
    return this.#connection
  }

  async forget (counters: string, callerKey: string): Promise<void> {
    await this.#evaluate(forget, [this.#keys.counters(counters)], [storedName(callerKey)])
  }

  async list (
    counters: string,
    cursor: string | null,
    time: number | null,
    date: number
  ): Promise<CallerPage> {
    const keys = this.#keysOf(counters)
    const numbers = [time ?? serverTime, date, periodLength].map(String)
    const values = [cursor ?? '0', ...numbers, overflowRow]
    return readPage(await this.#evaluate(list, keys, values))
  }

  async inspect (counters: string, time: number | null): Promise<QuotaStoreState> {
    const keys = this.#keysOf(counters)
    const values = [String(time ?? serverTime), overflowRow]
    let trackedCallers = 0
    let cursor: string | null = '0'
    while (cursor !== null) {
      const page = readCallers(await this.#evaluate(inspect, keys, [cursor, ...values]))
      trackedCallers += page.count
      cursor = page.cursor
    }
    return { trackedCallers }
  }

  async clear (): Promise<void> {
    let cursor = '0'
    do {
      cursor = String(await this.#evaluate(clear, [this.#keys.root], [cursor]))
    } while (cursor !== '0')
  }

  /** What a quota has: counters, or holders of places. */
  #keysOf (counters: string): string[] {
    return [this.#keys.counters(counters), this.#keys.holders(counters)]
  }

  async #decide (call: Call): Promise<Reply> {
    const { keys, parameters } = new DecideArguments(call, this.#keys, this.#cap)
    const reply = this.#evaluate(decide, keys, parameters)
    return readReply(await reply.catch(rejectIfNotRun), call)
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

/** Throws the error of a call, as a `NotRunError` if the server says that nothing of it has run. */
function rejectIfNotRun (error: unknown): never {
  if (hasMessage(error, movingCode)) throw new TryAgainError(error)
  if (hasMessage(error, refusalCode)) throw new NotRunError(error)
  throw error
}

function hasMessage (error: unknown, pattern: RegExp): boolean {
  return error instanceof Error && pattern.test(error.message)
}
