import { randomUUID } from 'node:crypto'
import { shown } from '../../errors.js'
import type { Entry } from '../store.js'
import { compareTexts, type Database } from './database.js'

const mostInStatement = 64

// The server frees places that have not been renewed for 30 s.
const renewalInterval = 10_000

/** The places that this process holds for a caller. */
interface Holding {
  readonly name: string
  readonly quota: string
  readonly callerKey: string
  held: number
  /** How many calls of `enter` have not returned. */
  entering: number
}

interface Change {
  readonly holding: Holding
  /** The limit, to take a place; null to only write how many places are held. */
  readonly limit: number | null
  readonly resolve: (entry: Entry) => void
  readonly reject: (error: unknown) => void
}

/**
 * The places of requests in flight that this process holds, for all quotas of a store. Each statement writes how many the process holds for
 * a caller, not a difference. So the next renewal corrects the server after a reply was lost or after the server has lost its tables.
 */
export class Places {
  readonly #database: Database
  readonly #time: () => number | null
  readonly #holder = randomUUID()
  readonly #holdings = new Map<string, Holding>()
  readonly #changes: Change[] = []
  #isSending = false
  #renewal: NodeJS.Timeout | undefined

  /** @param time Returns the time of the store's own clock; null for the server's. */
  constructor (database: Database, time: () => number | null) {
    this.#database = database
    this.#time = time
  }

  async enter (quota: string, callerKey: string, limit: number): Promise<Entry> {
    const name = `${callerKey} ${quota}`
    const holding = this.#holdings.get(name) ?? { name, quota, callerKey, held: 0, entering: 0 }
    this.#holdings.set(name, holding)
    this.#renewal ??= setInterval(() => { this.#renew() }, renewalInterval).unref()
    holding.entering += 1
    try {
      return await this.#change(holding, limit)
    } finally {
      holding.entering -= 1
      this.#deleteUnused(holding)
    }
  }

  async #leave (holding: Holding): Promise<void> {
    holding.held -= 1
    this.#deleteUnused(holding)
    await this.#change(holding, null)
  }

  #deleteUnused (holding: Holding): void {
    if (holding.held === 0 && holding.entering === 0) this.#holdings.delete(holding.name)
  }

  #change (holding: Holding, limit: number | null): Promise<Entry> {
    return new Promise((resolve, reject) => {
      this.#changes.push({ holding, limit, resolve, reject })
      if (!this.#isSending) void this.#send()
    })
  }

  /** Sends one statement at a time, because each writes what the process held when it was sent. */
  async #send (): Promise<void> {
    this.#isSending = true
    while (this.#changes.length > 0) {
      const changes = this.#changes.splice(0, mostInStatement).sort((one, other) => compareTexts(one.holding.name, other.holding.name))
      try {
        const reply = await this.#database.call('enter', this.#holder, this.#time(),
          changes.map(({ holding }) => holding.quota), changes.map(({ holding }) => holding.callerKey),
          changes.map(({ limit }) => limit), changes.map(({ holding }) => holding.held))
        const replies = reply.split(',')
        for (const [index, { holding, resolve }] of changes.entries()) resolve(this.#read(holding, replies[index]))
      } catch (error) {
        for (const { reject } of changes) reject(error)
      }
    }
    this.#isSending = false
  }

  #read (holding: Holding, reply: string | undefined): Entry {
    const [, count, taken] = /^(\d+) ([01])$/.exec(reply ?? '') ?? []
    if (count === undefined) throw new TypeError(`unexpected reply of the server: ${shown(reply)}`)
    if (taken === '0') return { admitted: false, count: Number(count) }
    holding.held += 1
    return { admitted: true, count: Number(count), leave: () => this.#leave(holding) }
  }

  // If a renewal fails, the next one comes before the server frees the places.
  #renew (): void {
    this.#database.call('free', this.#time()).catch(() => {})
    for (const holding of this.#holdings.values()) this.#change(holding, null).catch(() => {})
    if (this.#holdings.size > 0) return
    clearInterval(this.#renewal)
    this.#renewal = undefined
  }
}
