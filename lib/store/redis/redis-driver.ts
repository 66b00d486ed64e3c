import { createHash } from 'node:crypto'
import type { Call, Decided, Driver, Holding, Release, StoredRequest } from '../shared/driver.js'
import type { CallerPage, Demand, QuotaCount, QuotaStoreState } from '../store.js'
import acquire from './acquire.lua.js'
import { changeOf, decisionsOn, invocationOf, windowOf, type Change } from './arguments.js'
import clear from './clear.lua.js'
import type { QuotaRedisClient } from './clients.js'
import forget from './forget.lua.js'
import list from './list.lua.js'
import peek from './peek.lua.js'
import { readDecided, readPage, readPeeked } from './replies.js'

/** A part of the callers on a Redis or Valkey server, with a share of the caller cap. All of its keys are in one hash slot. */
export class RedisDriver implements Driver {
  readonly #client: QuotaRedisClient
  readonly #register: string
  readonly #cap: number
  // The digests of the scripts that were sent.
  readonly #digests = new Map<string, string>()
  // The server keeps counters for longer than a window after a decision.
  readonly #expectedUntil = new Map<string, number>()

  /** @param register The key of the shard, and the beginning of its other keys. */
  constructor (client: QuotaRedisClient, register: string, cap: number) {
    this.#client = client
    this.#register = register
    this.#cap = cap
  }

  async acquire (requests: readonly StoredRequest[], call: Call): Promise<readonly (readonly Decided[] | undefined)[]> {
    const isExpected = (counters: string): boolean => performance.now() < Number(this.#expectedUntil.get(counters))
    const decisions = requests.map((request) => decisionsOn(request, isExpected))
    const { reply, columns } = await this.#change(decisions, call)
    const now = performance.now()
    for (const { demand: { counters, window } } of decisions.flat()) if (window !== null) this.#expectedUntil.set(counters, now + window)
    return readDecided(reply, decisions, columns)
  }

  async release (releases: readonly Release[], holdings: readonly Holding[], call: Call): Promise<void> {
    await this.#change([...releases, ...holdings].map((change) => [changeOf(change)]), call)
  }

  async peek (demand: Demand, time: number | null): Promise<QuotaCount | null> {
    const parameters = [String(time ?? NaN), demand.callerKey, String(this.#cap), String(windowOf(demand)), String(demand.end ?? '')]
    let found: QuotaCount | null | string = '0'
    while (typeof found === 'string') found = readPeeked(await this.#ask(peek, demand.counters, ...parameters, found), demand)
    return found
  }

  forget (callerKey: string, counters: string): Promise<unknown> {
    return this.#ask(forget, counters, callerKey)
  }

  async list (counters: string, cursor: string | null, time: number | null, date: number): Promise<CallerPage & QuotaStoreState> {
    return readPage(await this.#ask(list, counters, String(time ?? NaN), cursor ?? '0', String(date)))
  }

  inspect (counters: string): Promise<QuotaStoreState> {
    return this.list(counters, null, null, 0)
  }

  clear (): Promise<unknown> {
    this.#expectedUntil.clear()
    return this.#run(clear, [this.#register])
  }

  async #change<Each extends Change> (changes: readonly (readonly Each[])[], call: Call) {
    const { quotas, parameters, columns } = invocationOf(changes, call, this.#cap)
    const keys = [this.#register, ...quotas.map((counters) => `${this.#register}:${counters}`)]
    return { reply: await this.#run(acquire, keys, parameters), columns }
  }

  #ask (script: string, counters: string, ...parameters: readonly string[]): Promise<unknown> {
    return this.#run(script, [`${this.#register}:${counters}`], parameters)
  }

  /** Sends a script by its digest, but as source the first time and if the server has lost it, as in a restart. */
  async #run (source: string, keys: readonly string[], parameters: readonly (string | Buffer)[] = []): Promise<unknown> {
    const digest = this.#digests.get(source)
    // Commands on one connection run in order, so the ones that follow can use the digest without waiting for this one.
    this.#digests.set(source, digest ?? createHash('sha1').update(source).digest('hex'))
    if (digest === undefined) return this.#client.evaluateSource(source, keys, parameters)
    try {
      return await this.#client.evaluateDigest(digest, keys, parameters)
    } catch (error) {
      if (error instanceof Error && error.message.startsWith('NOSCRIPT')) return this.#client.evaluateSource(source, keys, parameters)
      throw error
    }
  }
}
