/**
 * The commands that `RedisQuotaStore` sends. The store adapts clients of `ioredis`, `iovalkey`,
 * `redis` and `@valkey/valkey-glide` itself. Implement this interface to use another client.
 *
 * - **Parameters**: send each unchanged. A Buffer holds numbers in binary form.
 * - **Replies**: return the client's replies unchanged. The store reads texts and arrays of texts.
 *   A text can be a string or a Buffer, so RESP2, RESP3 and a client's own reply options all work.
 * - **Errors**: reject the promise. If the server does not know the digest, the message must start
 *   with `NOSCRIPT`. The command was not executed in this case, and the store sends the script's
 *   source. After other errors the command may have been executed, so an implementation must not
 *   send it again.
 * - **Keys**: an implementation can add a prefix of its own to keys, if it adds the same prefix in
 *   both functions.
 */
export interface QuotaRedisClient {
  /** Runs a cached script by its SHA-1 digest, with keys of one hash slot (`EVALSHA`). */
  evaluateDigest(
    digest: string,
    keys: readonly string[],
    parameters: readonly (string | Buffer)[]
  ): Promise<unknown>
  /**
   * Runs a script from its source, with keys of one hash slot (`EVAL`). The server caches the
   * script.
   */
  evaluateSource(
    source: string,
    keys: readonly string[],
    parameters: readonly (string | Buffer)[]
  ): Promise<unknown>
  /**
   * Returns whether the client would send a command now. `connecting`: not yet, or not at the
   * moment. `closed`: it does not connect any more. So the store knows that it has sent nothing,
   * and loses nothing. Without this function, the client counts as ready.
   */
  readiness?(): Readiness
}

/** Whether a client would send a command now. */
export type Readiness = 'ready' | 'connecting' | 'closed'

/**
 * The functions of an `ioredis` or `iovalkey` client that the store uses; both `Redis` and
 * `Cluster` have them. With its default options, the client sends a command again if the connection
 * is lost before the reply arrives. What requests use is then counted twice, until their windows
 * end; what is settled is settled once. To prevent this, set `maxRetriesPerRequest: 0` for `Redis`,
 * or `retryDelayOnFailover: 0` for `Cluster`.
 */
export type IoredisClient = ScriptCommands<Promise<unknown>>

export interface ScriptCommands<Result> {
  /** Runs a cached script by its SHA-1 digest (`EVALSHA`). */
  evalsha(
    digest: string,
    numberOfKeys: number,
    ...keysAndParameters: (string | Buffer | number)[]
  ): Result
  /** Runs a script from its source (`EVAL`). The server caches the script. */
  eval(
    script: string,
    numberOfKeys: number,
    ...keysAndParameters: (string | Buffer | number)[]
  ): Result
}

/**
 * The functions that the store uses of a client, a pool, a cluster or a sentinel of the package
 * `redis`. Only a sentinel sends a command twice, as `ioredis` does. To prevent this, set
 * `maxCommandRediscovers: 0`.
 */
export interface NodeRedisClient {
  /** Runs a cached script by its SHA-1 digest (`EVALSHA`). */
  evalSha(digest: string, input: ScriptInput): Promise<unknown>
  /** Runs a script from its source (`EVAL`). The server caches the script. */
  eval(script: string, input: ScriptInput): Promise<unknown>
}

interface ScriptInput {
  keys: string[]
  arguments: (string | Buffer)[]
}

/**
 * The function that the store uses of a `GlideClient` or `GlideClusterClient` of
 * `@valkey/valkey-glide`, which sends no command twice.
 */
export interface ValkeyGlideClient {
  /**
   * Sends any command. A client for a cluster sends it to the node that holds the command's key.
   */
  customCommand(command: (string | Buffer)[]): Promise<unknown>
}

/**
 * The clients that the store can use. They are recognised by their functions, not by their class.
 */
export type SupportedRedisClient =
  IoredisClient | NodeRedisClient | ValkeyGlideClient | QuotaRedisClient
