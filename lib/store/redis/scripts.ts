import { createHash } from 'node:crypto'
import type { QuotaRedisClient } from './client.js'

/** Returns a function that sends a script by its digest, but as source the first time and if the server has lost it, as in a restart. */
export function scriptsOf (client: QuotaRedisClient) {
  const sent = new Map<string, string>()
  return async (source: string, keys: readonly string[], parameters: readonly (string | Buffer)[] = []): Promise<unknown> => {
    const digest = sent.get(source)
    // Commands on one connection run in order, so the ones that follow can use the digest without waiting for this one.
    sent.set(source, digest ?? createHash('sha1').update(source).digest('hex'))
    if (digest === undefined) return client.evaluateSource(source, keys, parameters)
    try {
      return await client.evaluateDigest(digest, keys, parameters)
    } catch (error) {
      if (error instanceof Error && error.message.startsWith('NOSCRIPT')) return client.evaluateSource(source, keys, parameters)
      throw error
    }
  }
}
