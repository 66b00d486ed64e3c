/**
 * The commands that `RedisQuotaStore` sends. The store adapts clients of `ioredis`, `iovalkey`, `redis` and
 * `@valkey/valkey-glide` itself. Implement this interface to use another client.
 *
 * - **Replies**: return the client's replies unchanged. An integer can be a number, a string, a bigint or a Buffer, so RESP2, RESP3
 *   and a client's own reply options all work. An array can hold any of these.
 * - **Errors**: reject the promise. If the server does not know the digest, the message must start with `NOSCRIPT`. The command was
 *   not executed in this case, and the store sends the script's source. After any other error the command may have been executed,
 *   so the store does not send it again, and an implementation must not do so either.
 * - **Keys**: an implementation can add a prefix of its own to keys, if it adds the same prefix in all three functions.
 */
export interface QuotaRedisClient {
  /** Runs a cached script by its SHA-1 digest, with one key (`EVALSHA`). */
  evaluateDigest (digest: string, key: string, parameters: readonly string[]): Promise<unknown>
  /** Runs a script from its source, with one key (`EVAL`). The server caches the script. */
  evaluateSource (source: string, key: string, parameters: readonly string[]): Promise<unknown>
  /** Removes a key (`UNLINK`). */
  removeKey (key: string): Promise<unknown>
}
