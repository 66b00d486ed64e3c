import { createHash } from 'node:crypto'
import type { QuotaRedisClient } from './client.js'

/** The values of the constants that a script's text names but does not define. */
export type Constants = Readonly<Record<string, number | boolean>>

/**
 * A script for one key that is sent as source the first time, and then run by its digest. If the server does not know the digest, for example
 * after a restart, the source is sent again.
 */
export class Script {
  readonly #client: QuotaRedisClient
  readonly #key: string
  readonly #source: string
  readonly #digest: string
  #wasSent = false

  constructor (client: QuotaRedisClient, key: string, text: string, constants: Constants = {}) {
    this.#client = client
    this.#key = key
    this.#source = Object.entries(constants).map(([name, value]) => `local ${name} = ${value}\n`).join('') + text
    this.#digest = createHash('sha1').update(this.#source).digest('hex')
  }

  async run (parameters: readonly string[]): Promise<unknown> {
    // Commands on one connection run in order, so the ones that follow can use the digest without waiting for this one.
    if (!this.#wasSent) {
      this.#wasSent = true
      return this.#client.evaluateSource(this.#source, this.#key, parameters)
    }
    try {
      return await this.#client.evaluateDigest(this.#digest, this.#key, parameters)
    } catch (error) {
      if (error instanceof Error && error.message.startsWith('NOSCRIPT')) return this.#client.evaluateSource(this.#source, this.#key, parameters)
      throw error
    }
  }
}
