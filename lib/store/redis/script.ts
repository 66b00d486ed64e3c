import { createHash } from 'node:crypto'
import type { QuotaRedisClient } from './client.js'

/**
 * A script that is sent as source the first time, and then run by its digest. If the server does not know the digest, for example
 * after a restart, the source is sent again.
 */
export class Script {
  readonly #client: QuotaRedisClient
  readonly #key: string
  readonly #source: string
  readonly #digest: string
  #wasSent = false

  constructor (client: QuotaRedisClient, key: string, source: string) {
    this.#client = client
    this.#key = key
    this.#source = source
    this.#digest = createHash('sha1').update(source).digest('hex')
  }

  run (parameters: readonly string[]): Promise<unknown> {
    // Commands on one connection run in order, so the ones that follow can use the digest without waiting for this one.
    if (!this.#wasSent) {
      this.#wasSent = true
      return this.#evaluateSource(parameters)
    }
    try {
      return this.#client.evaluateDigest(this.#digest, this.#key, parameters).catch((error: unknown) => {
        if (error instanceof Error && error.message.startsWith('NOSCRIPT')) return this.#evaluateSource(parameters)
        throw error
      })
    } catch (error) {
      return Promise.reject(error)
    }
  }

  async #evaluateSource (parameters: readonly string[]): Promise<unknown> {
    return this.#client.evaluateSource(this.#source, this.#key, parameters)
  }
}
