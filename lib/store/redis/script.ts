import { createHash } from 'node:crypto'
import type { QuotaRedisClient } from './client.js'

/** The values of constants that a script's text names but does not define. */
export type Constants = Readonly<Record<string, number | boolean>>

interface Source { readonly text: string, readonly digest: string, wasSent: boolean }

/**
 * A script for one key that is sent as source the first time and then run by its digest. If the server does not know the digest, for example
 * after a restart, the source is sent again.
 */
export class Script {
  readonly #client: QuotaRedisClient
  readonly #key: string
  readonly #text: string
  readonly #constants: Constants
  readonly #sources = new Map<string, Source>()

  constructor (client: QuotaRedisClient, key: string, text: string, constants: Constants = {}) {
    this.#client = client
    this.#key = key
    this.#text = text
    this.#constants = constants
  }

  /** @param constants Those that differ between runs, always with the same names. Each combination of their values is a source of its own. */
  async run (parameters: readonly string[], constants: Constants = {}): Promise<unknown> {
    const source = this.#sourceWith(constants)
    // Commands on one connection run in order, so the ones that follow can use the digest without waiting for this one.
    if (!source.wasSent) {
      source.wasSent = true
      return this.#client.evaluateSource(source.text, this.#key, parameters)
    }
    try {
      return await this.#client.evaluateDigest(source.digest, this.#key, parameters)
    } catch (error) {
      if (error instanceof Error && error.message.startsWith('NOSCRIPT')) return this.#client.evaluateSource(source.text, this.#key, parameters)
      throw error
    }
  }

  #sourceWith (constants: Constants): Source {
    const values = Object.values(constants).join()
    let source = this.#sources.get(values)
    if (source === undefined) {
      const text = Object.entries({ ...this.#constants, ...constants }).map(([name, value]) => `local ${name} = ${value}\n`).join('') + this.#text
      source = { text, digest: createHash('sha1').update(text).digest('hex'), wasSent: false }
      this.#sources.set(values, source)
    }
    return source
  }
}
