import { randomUUID } from 'node:crypto'
import type { Entry } from '../store.js'
import { Batches } from './batches.js'
import { readNumbers, type Database } from './database.js'

// The server frees places that have not been renewed for 30 s.
const renewalInterval = 10_000

/** The places that this process holds for a caller. It is kept until the server knows that there are none. */
interface Holding { readonly quota: string, readonly callerKey: string, held: number, changing: number }

/** Takes a place if the limit allows it; without a limit, only writes how many places are held. */
interface Change { readonly callerKey: string, readonly time: number | null, readonly holding: Holding, readonly limit: number | null }

/**
 * The places of requests in flight that this process holds, for all quotas of a store. Each statement writes how many the process holds for
 * a caller, not a difference. So the next renewal corrects the server after a reply was lost or after the server has lost its tables.
 */
export class Places {
  readonly #database: Database
  readonly #time: () => number | null
  readonly #holder = randomUUID()
  readonly #holdings = new Map<string, Holding>()
  readonly #changes = new Batches<Change, Entry>((changes) => this.#send(changes))
  #renewal: NodeJS.Timeout | undefined

  /** @param time Returns the time of the store's own clock; null for the server's. */
  constructor (database: Database, time: () => number | null) {
    this.#database = database
    this.#time = time
  }

  enter (quota: string, callerKey: string, limit: number): Promise<Entry> {
    const holding = this.#holdings.get(`${quota} ${callerKey}`) ?? { quota, callerKey, held: 0, changing: 0 }
    this.#holdings.set(`${quota} ${callerKey}`, holding)
    this.#renewal ??= setInterval(() => { this.#renew() }, renewalInterval).unref()
    return this.#change(holding, limit)
  }

  async #leave (holding: Holding): Promise<void> {
    holding.held -= 1
    await this.#change(holding, null)
  }

  async #change (holding: Holding, limit: number | null): Promise<Entry> {
    holding.changing += 1
    // Changes for the same caller in different quotas must not be mixed.
    const change = this.#changes.add({ callerKey: `${holding.callerKey} ${holding.quota}`, time: this.#time(), holding, limit })
    const entry = await change.finally(() => { holding.changing -= 1 })
    this.#deleteUnused(holding)
    return entry
  }

  async #send (changes: readonly Change[]): Promise<readonly Entry[]> {
    const holdings = changes.map(({ holding }) => holding)
    const reply = await this.#database.call('enter', this.#holder, changes[0]?.time ?? null, holdings.map(({ quota }) => quota),
      holdings.map(({ callerKey }) => callerKey), changes.map(({ limit }) => limit), holdings.map(({ held }) => held))
    const replies = reply.split(',')
    return holdings.map((holding, index) => {
      const [count, taken] = readNumbers(replies[index])
      if (taken === 0) return { admitted: false, count }
      holding.held += 1
      return { admitted: true, count, leave: () => this.#leave(holding) }
    })
  }

  // The first renewal after a change that failed corrects the server. If it fails too, the server frees the places in time.
  #renew (): void {
    this.#database.call('free', this.#time()).catch(() => {})
    for (const holding of this.#holdings.values()) this.#change(holding, null).catch(() => { this.#deleteUnused(holding) })
    if (this.#holdings.size > 0) return
    clearInterval(this.#renewal)
    this.#renewal = undefined
  }

  #deleteUnused ({ quota, callerKey, held, changing }: Holding): void {
    if (held + changing === 0) this.#holdings.delete(`${quota} ${callerKey}`)
  }
}
