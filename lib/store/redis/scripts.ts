import { createHash } from 'node:crypto'
import type { QuotaRedisClient } from './client.js'

/** Runs a script of the store. */
export type RunScript = (source: string, keys: readonly string[], parameters?: readonly (string | Buffer)[]) => Promise<unknown>

/**
 * Returns a function that sends a script as source the first time and then by its digest. If the server does not know the digest, for example
 * after a restart, the source is sent again.
 */
export function scriptsOf (client: QuotaRedisClient): RunScript {
  const sent = new Map<string, string>()
  return async (source, keys, parameters = []) => {
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
