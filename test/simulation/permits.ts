// The permits of a process: a service with the plugin, without requests, whose quotas count on the
// store of the simulation.
import Fastify, { type FastifyInstance } from 'fastify'
import { localAuthentication, quotaPlugin, type QuotaPermit } from '../../lib/index.js'
import { captureLog } from '../support/service.js'
import { isUnlimited, Violation, type Use } from './ledger.js'
import type { ObservedStore } from './observed-store.js'

/** A permit, and what was reported of it; null before the first report. */
interface Reported {
  readonly permit: QuotaPermit
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
  readonly #store: ObservedStore
  readonly #reported: Reported[] = []

  constructor (store: ObservedStore) {
    this.#store = store
  }

  async start (limit: number): Promise<void> {
    await this.#app.register(quotaPlugin, {
      operations: [],
      store: this.#store,
      quotas: {
        tokens: { perMinute: { tokens: limit }, cost: 1 },
        places: { concurrent: limit }
      }
    })
    await this.#app.ready()
  }

  async acquire ({ caller, least, most, place }: Asked): Promise<void> {
    const tokens = { least, most }
    const quotas = place ? { tokens, places: null } : { tokens }
    const permit = await this.#app.quotaAcquire(localAuthentication(caller), quotas)
    if (permit.refusal === null) this.#reported.push({ permit, used: null, hasEnded: false })
  }

  async charge (number: number, amount: number): Promise<void> {
    const reported = this.#chosen(number)
    if (reported === undefined) return
    reported.used = (reported.used ?? 0) + amount
    await reported.permit.charge(amount)
  }

  async end (number: number): Promise<void> {
    const reported = this.#chosen(number)
    if (reported === undefined) return
    reported.hasEnded = true
    await reported.permit.end()
  }

  /** Ends all permits. */
  async endAll (): Promise<void> {
    await Promise.all(this.#reported.map((_reported, number) => this.end(number)))
  }

  /** Throws unless the store was told what was used, and the log says what it has not done. */
  assertSettled (): void {
    let used = 0
    for (const each of this.#reported) used += each.used ?? each.permit.granted('tokens') ?? 0
    let told = 0
    for (const use of this.#store.uses) told += toldOf(use)
    if (told !== used) throw new Violation(`permits have used ${used}, and ${told} is settled`)
    const said = this.#log.errors().filter((message) => !message.endsWith('is not counted'))
    if (said.length !== this.#store.failures) {
      const { failures } = this.#store
      throw new Violation(`${said.length} messages say that settling has failed, not ${failures}`)
    }
  }

  #chosen (number: number): Reported | undefined {
    return this.#reported[number % Math.max(1, this.#reported.length)]
  }
}

/** What the store was told of a request, whether it has done it or not. */
function toldOf ({ state, granted, used, tokens }: Use): number {
  if (state === 'admitted') return Math.min(granted, used)
  // Whether what was used beyond a grant is counted is unknown, and it is not counted again.
  return state === 'failed' && isUnlimited(tokens) ? tokens.most : 0
}
