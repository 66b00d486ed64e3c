/**
 * The commands that `RedisQuotaStore` sends. The store adapts clients of `ioredis`, `iovalkey`, `redis` and
 * `@valkey/valkey-glide` itself. Implement this interface to use another client.
 *
 * - **Parameters**: send each unchanged. A Buffer holds numbers in binary form.
 * - **Replies**: return the client's replies unchanged. An integer can be a number, a string, a bigint or a Buffer, so RESP2, RESP3
 *   and a client's own reply options all work. An array can hold any of these.
 * - **Errors**: reject the promise. If the server does not know the digest, the message must start with `NOSCRIPT`. The command was
 *   not executed in this case, and the store sends the script's source. After any other error the command may have been executed,
 *   so the store does not send it again, and an implementation must not do so either.
 * - **Keys**: an implementation can add a prefix of its own to keys, if it adds the same prefix in both functions.
 */
export interface QuotaRedisClient {
  /** Runs a cached script by its SHA-1 digest, with keys of one hash slot (`EVALSHA`). */
  evaluateDigest (digest: string, keys: readonly string[], parameters: readonly (string | Buffer)[]): Promise<unknown>
  /** Runs a script from its source, with keys of one hash slot (`EVAL`). The server caches the script. */
  evaluateSource (source: string, keys: readonly string[], parameters: readonly (string | Buffer)[]): Promise<unknown>
}

/** Returns a function that runs the given one, but not again within a second. */
export function atMostOnceASecond (run: () => void): () => void {
  let ranAt = -Infinity
  return () => {
    if (performance.now() - ranAt < 1_000) return
    ranAt = performance.now()
    run()
  }
}
