import type { QuotaCount, QuotaStoreState } from '../store.js'
import type { QuotaRedisClient } from './client.js'
import { Decisions } from './decisions.js'
import { forgetScript } from './forget-script.js'
import { inspectScript } from './inspect-script.js'
import { peekScript } from './peek-script.js'
import { readCount, readPage } from './replies.js'
import { Script } from './script.js'

/** One hash on the server, with a part of the callers, a share of the cap, and an overflow counter of its own. */
export class Shard {
  readonly decisions: Decisions
  readonly #client: QuotaRedisClient
  readonly #key: string
  readonly #clock: (() => number) | undefined
  readonly #peek: Script
  readonly #forget: Script
  readonly #inspect: Script

  constructor (client: QuotaRedisClient, key: string, maxTrackedCallers: number, clock: (() => number) | undefined) {
    this.#client = client
    this.#key = key
    this.#clock = clock
    this.#peek = new Script(client, key, peekScript(maxTrackedCallers, clock === undefined ? 'server' : 'given'))
    this.#forget = new Script(client, key, forgetScript)
    this.#inspect = new Script(client, key, inspectScript)
    this.decisions = new Decisions(client, key, maxTrackedCallers, clock)
  }

  async peek (callerKey: string): Promise<QuotaCount | null> {
    const time = this.#clock === undefined ? [] : [String(this.#clock())]
    this.decisions.flush()
    let answer: QuotaCount | null | string = '0'
    while (typeof answer === 'string') {
      answer = readCount(await this.#peek.run([callerKey, answer, ...time]))
    }
    return answer
  }

  async forget (callerKey: string): Promise<void> {
    this.decisions.flush()
    await this.#forget.run([callerKey])
  }

  async clear (): Promise<void> {
    this.decisions.flush()
    await this.#client.removeKey(this.#key)
  }

  async inspect (): Promise<QuotaStoreState> {
    this.decisions.flush()
    let trackedCallers = 0
    let next = '0'
    for (;;) {
      const { sweeps, cursor, ...page } = readPage(await this.#inspect.run([next]))
      trackedCallers += page.trackedCallers
      if (cursor === '0') return { trackedCallers, sweeps }
      next = cursor
    }
  }
}
