import { hasFunction } from '../../../errors.js'
import type { QuotaRedisClient } from '../client.js'

/**
 * The function of a `GlideClient` or `GlideClusterClient` of `@valkey/valkey-glide` that the store uses.
 *
 * The client's error shows whether the command was executed:
 *
 * - **Not executed**: a `RequestError`, but not its subclasses, after an error reply or if too many requests are in flight; and a
 *   `ClosingError` if the client was already closed.
 * - **Possibly executed**: `ConnectionError`, `TimeoutError`, and a `ClosingError` if the client was closed with the request in flight.
 *
 * The client never sends a command again after it has lost the connection. By default, a request times out after 250 ms
 * (`requestTimeout`).
 */
export interface ValkeyGlideClient {
  /** Sends any command. A client for a cluster sends it to the node that holds the command's key. */
  customCommand (command: string[]): Promise<unknown>
}

export function isValkeyGlide (client: unknown): client is ValkeyGlideClient {
  return hasFunction(client, 'customCommand')
}

export function adaptValkeyGlide (client: ValkeyGlideClient): QuotaRedisClient {
  return {
    async evaluateDigest (digest, key, parameters) {
      try {
        return await client.customCommand(['EVALSHA', digest, '1', key, ...parameters])
      } catch (error) {
        // The client does not tell which error the server replied with. After any of them, nothing was counted: each script counts in its last
        // write. So the source is sent whether the server does not know the digest or cannot run the script.
        if (error instanceof Error && error.name === 'RequestError') throw new Error('NOSCRIPT', { cause: error })
        throw error
      }
    },
    async evaluateSource (source, key, parameters) {
      try {
        return await client.customCommand(['EVAL', source, '1', key, ...parameters])
      } catch (error) {
        if (error instanceof Error && error.name === 'RequestError') leaveReplica(client).catch(() => {})
        throw error
      }
    },
    // A closed client throws instead of returning a rejected promise.
    removeKey: async (key) => client.customCommand(['UNLINK', key])
  }
}

// A server that has become a replica keeps its connections, and no option makes the client leave it. After `QUIT`, the server closes the
// connection, and the client connects again.
async function leaveReplica (client: ValkeyGlideClient): Promise<void> {
  if (/\nrole:slave\r/.test(String(await client.customCommand(['INFO', 'replication'])))) await client.customCommand(['QUIT'])
}
