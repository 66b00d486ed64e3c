import { createHash } from 'node:crypto'
import type { RedisClient } from './client.js'

/** A script that the server is asked to run by its digest, and sent whole where the server does not know it (any more). */
export class Script {
  readonly #source: string
  readonly #digest: string

  constructor (source: string) {
    this.#source = source
    this.#digest = createHash('sha1').update(source).digest('hex')
  }

  async run (client: RedisClient, keys: readonly string[], parameters: readonly (string | number | Buffer)[]): Promise<unknown> {
    try {
      return await client.evalsha(this.#digest, keys.length, ...keys, ...parameters)
    } catch (error) {
      if (!(error instanceof Error && error.message.startsWith('NOSCRIPT'))) throw error
      return client.eval(this.#source, keys.length, ...keys, ...parameters)
    }
  }
}
