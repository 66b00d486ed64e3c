import { createHash } from 'node:crypto'
import type { QuotaRedisClient } from './client.js'

/**
 * The scripts of one client. A script is sent as source the first time and then run by its digest. If the server does not know the
 * digest, for example after a restart, the source is sent again.
 */
export class Scripts {
  readonly #client: QuotaRedisClient
  // Those that were sent.
  readonly #digests = new Map<string, string>()

  constructor (client: QuotaRedisClient) {
    this.#client = client
  }

  async run (source: string, keys: readonly string[], parameters: readonly (string | Buffer)[] = []): Promise<unknown> {
    const digest = this.#digests.get(source)
    // Commands on one connection run in order, so the ones that follow can use the digest without waiting for this one.
    if (digest === undefined) {
      this.#digests.set(source, createHash('sha1').update(source).digest('hex'))
      return this.#client.evaluateSource(source, keys, parameters)
    }
    try {
      return await this.#client.evaluateDigest(digest, keys, parameters)
    } catch (error) {
      if (error instanceof Error && error.message.startsWith('NOSCRIPT')) return this.#client.evaluateSource(source, keys, parameters)
      throw error
    }
  }
}
