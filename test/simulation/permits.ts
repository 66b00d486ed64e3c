// The permits of a process: a service with the plugin, without requests, whose quotas count on the
// store of the simulation.
import Fastify, { type FastifyInstance } from 'fastify'
import { localAuthentication, quotaPlugin, type QuotaPermit } from '../../lib/index.js'
import { captureLog } from '../support/service.js'
import { Violation, type Use } from './ledger.js'
import type { ObservedStore, SettlingStore } from './observed-store.js'

/** What a permit has asked for, was granted and has used. */
interface Held {
  readonly permit: QuotaPermit
  /** One of the admission, and one of each extension. */
  readonly uses: Use[]
  /** What was reported; null before the first report. */
  used: number | null
  hasEnded: boolean
}

/** What a request asks for. */
export interface Asked {
  readonly caller: string
  readonly least: number
  readonly most: number
  /** Whether it needs a place, too. */
  readonly place: boolean
}

/** The service of one process. */
export class Permits {
  readonly #log = captureLog()
  readonly #app: FastifyInstance = Fastify({ logger: this.#log.logger })
  readonly #observed: ObservedStore
  readonly #held: Held[] = []
  // The uses of the latest call of the plugin, which asks its store before the next step begins.
  #begun: Use[] = []
  // The uses of extensions whose permit has ended in the meantime.
  readonly #unused: Use[] = []

  constructor (observed: ObservedStore) {
    this.#observed = observed
  }

  /** Notes a use that a call of the plugin has begun. */
  noteBegun (use: Use): void {
    this.#begun.push(use)
  }

  /** @param store The observed store, or what changes its calls. */
  async start (store: SettlingStore, limit: number): Promise<void> {
    await this.#app.register(quotaPlugin, {
      operations: [],
      store,
      quotas: {
        tokens: { perMinute: { tokens: limit }, cost: 1 },
        places: { concurrent: limit }
      }
    })
    await this.#app.ready()
  }

  async acquire ({ caller, least, most, place }: Asked): Promise<void> {
    const names = place ? ['tokens', 'places'] : ['tokens']
    const authentication = localAuthentication(caller)
    const uses: Use[] = []
    this.#begun = uses
    const permit = await this.#app.quotaAcquire(authentication, names, { tokens: { least, most } })
    if (permit.refusal === null) this.#held.push({ permit, uses, used: null, hasEnded: false })
  }

  async charge (number: number, amount: number): Promise<void> {
    const held = this.#chosen(number)
    if (held === undefined) return
    held.used = (held.used ?? 0) + amount
    await held.permit.charge(amount)
  }

  async extend (number: number, amount: number): Promise<void> {
    const held = this.#chosen(number)
    if (held === undefined || held.hasEnded) return
    const uses: Use[] = []
    this.#begun = uses
    try {
      const refusal = await held.permit.extend(amount)
      if (refusal === null) held.uses.push(...uses)
    } catch {
      // The permit has ended in the meantime.
      for (const use of uses) use.state = 'ended'
      this.#unused.push(...uses)
    }
  }

  async end (number: number): Promise<void> {
    const held = this.#chosen(number)
    if (held === undefined) return
    held.hasEnded = true
    for (const use of held.uses) if (use.state === 'running') use.state = 'ended'
    await held.permit.end()
  }

  /** Ends all permits. */
  async endAll (): Promise<void> {
    await Promise.all(this.#held.map((_held, number) => this.end(number)))
  }

  /** Throws unless the store was told what was used, and the log says what it has not done. */
  assertSettled (): void {
    for (const { uses, used } of this.#held) {
      let granted = 0
      let settled = 0
      for (const use of uses) {
        granted += use.granted
        settled += use.reports.at(-1) ?? NaN
      }
      const expected = used ?? granted
      if (settled !== expected) {
        throw new Violation(`a permit has used ${expected}, and ${settled} is settled`)
      }
    }
    for (const { granted, reports } of this.#unused) {
      if (granted > 0 && reports.at(-1) !== 0) {
        throw new Violation('an extension that is not used is not taken back')
      }
    }
    const said = this.#log.errors().filter((message) => !message.endsWith('is not counted'))
    if (said.length !== this.#observed.failures) {
      const { failures } = this.#observed
      throw new Violation(`${said.length} messages say that settling has failed, not ${failures}`)
    }
  }

  #chosen (number: number): Held | undefined {
    return this.#held[number % Math.max(1, this.#held.length)]
  }
}
