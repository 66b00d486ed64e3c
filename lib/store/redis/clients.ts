import { OptionError, formatType } from '../../errors.js'
import { hasFunction, isObject } from '../../option-checks.js'

/**
 * The commands that `RedisQuotaStore` sends. The store adapts clients of `ioredis`, `iovalkey`,
 * `redis` and `@valkey/valkey-glide` itself. Implement this interface to use another client.
 *
 * - **Parameters**: send each unchanged. A Buffer holds numbers in binary form.
 * - **Replies**: return the client's replies unchanged. The store reads texts and arrays of texts,
 *   each a string or a Buffer, so RESP2, RESP3 and a client's own reply options all work.
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
 * is lost before the reply arrives, so one request can be counted twice. To prevent this, set
 * `maxRetriesPerRequest: 0` for `Redis`, or `retryDelayOnFailover: 0` for `Cluster`.
 */
export type IoredisClient = ScriptCommands<Promise<unknown>>

interface ScriptCommands<Result> {
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

interface Pipeline extends ScriptCommands<unknown> {
  exec(): Promise<[error: Error | null, reply: unknown][]>
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

/**
 * Adapts the value of the option `client`. Throws an `OptionError` if it is not a supported client.
 */
export function adaptClient (client: unknown): QuotaRedisClient {
  if (hasFunctions<QuotaRedisClient>(client, 'evaluateDigest', 'evaluateSource')) return client
  if (hasFunctions<ValkeyGlideClient>(client, 'customCommand')) return adaptValkeyGlide(client)
  if (hasFunctions<NodeRedisClient>(client, 'evalSha', 'eval')) return adaptNodeRedis(client)
  if (hasFunctions<IoredisClient>(client, 'evalsha', 'eval')) {
    const rule = 'must not be a client of redis 3 or earlier, which returns no promises'
    if (isEarlyNodeRedis(client)) throw new OptionError('client', rule, client, formatType)
    return adaptIoredis(client)
  }
  const rule =
    'must be a client of ioredis, iovalkey, redis or @valkey/valkey-glide, or a QuotaRedisClient'
  throw new OptionError('client', rule, client, formatType)
}

// Its commands have the names of those of ioredis, which has no function `batch`.
function isEarlyNodeRedis (client: object): boolean {
  return hasFunction(client, 'batch') && !hasFunction(client, 'pipeline')
}

function hasFunctions<Client> (
  client: unknown,
  ...names: (keyof Client & string)[]
): client is Client {
  return names.every((name) => hasFunction(client, name))
}

function adaptIoredis (client: IoredisClient): QuotaRedisClient {
  // With automatic pipelining, the Cluster of iovalkey up to 0.4 and of ioredis before 5.11 treats
  // a command's first argument as its key, so it groups scripts by digest and rejects a group whose
  // keys are on different nodes. An explicit pipeline uses the key.
  const run = async (command: (commands: ScriptCommands<unknown>) => unknown): Promise<unknown> => {
    if (!isPipeliningCluster(client)) return command(client)
    const pipeline = client.pipeline()
    command(pipeline)
    const [result] = await pipeline.exec()
    if (result?.[0] instanceof Error) throw result[0]
    return result?.[1]
  }
  return {
    readiness: () => readinessOfIoredis(client),
    evaluateDigest: (digest, keys, parameters) =>
      run((commands) => commands.evalsha(digest, keys.length, ...keys, ...parameters)),
    evaluateSource: (source, keys, parameters) =>
      run((commands) => commands.eval(source, keys.length, ...keys, ...parameters))
  }
}

// With the status `wait`, of a client with the option `lazyConnect`, a command connects it.
const connectingStatus: readonly unknown[] = ['connecting', 'connect', 'close', 'reconnecting']

function readinessOfIoredis (client: object): Readiness {
  const status: unknown = 'status' in client ? client.status : undefined
  if (status === 'end') return 'closed'
  return connectingStatus.includes(status) ? 'connecting' : 'ready'
}

// Only a Cluster has the function `nodes`.
function isPipeliningCluster (client: object): client is { pipeline(): Pipeline } {
  const isCluster = hasFunction(client, 'nodes') && hasFunction(client, 'pipeline')
  if (!isCluster || !('options' in client) || !isObject(client.options)) return false
  return Reflect.get(client.options, 'enableAutoPipelining') === true
}

function adaptNodeRedis (client: NodeRedisClient): QuotaRedisClient {
  // In a pool, each of the commands gets another idle connection. A cluster has other ways to leave
  // a replica.
  const run = leavingReplicas(() => {
    if (canLeave(client)) {
      for (let left = client.idleClients ?? 1; left > 0; left--) {
        client.sendCommand(['QUIT']).catch(() => {})
      }
    }
  })
  return {
    readiness: () => readinessOfNodeRedis(client),
    evaluateDigest: (digest, keys, parameters) =>
      run(client.evalSha(digest, { keys: [...keys], arguments: [...parameters] })),
    evaluateSource: (source, keys, parameters) =>
      run(client.eval(source, { keys: [...keys], arguments: [...parameters] }))
  }
}

// Clients and sentinels have `isReady`, and all but the lowest versions `isOpen`.
function readinessOfNodeRedis (client: object): Readiness {
  if ('isOpen' in client && client.isOpen === false) return 'closed'
  return 'isReady' in client && client.isReady === false ? 'connecting' : 'ready'
}

// Whether this is a client, or a pool, which tells how many of its connections are idle. The
// function `sendCommand` of a sentinel takes other arguments.
function canLeave (
  client: object
): client is { readonly idleClients?: number; sendCommand(command: string[]): Promise<unknown> } {
  const isClient = 'isReady' in client && !hasFunction(client, 'getMasterNode')
  return (isClient || 'idleClients' in client) && hasFunction(client, 'sendCommand')
}

function adaptValkeyGlide (client: ValkeyGlideClient): QuotaRedisClient {
  const run = leavingReplicas(() => {
    client.customCommand(['QUIT']).catch(() => {})
  })
  const send = async (
    command: string,
    script: string,
    keys: readonly string[],
    parameters: readonly (string | Buffer)[]
  ) => {
    try {
      return await run(
        client.customCommand([command, script, String(keys.length), ...keys, ...parameters])
      )
    } catch (error) {
      // The client replaces the codes of some error replies by names of its own.
      const isUnknown =
        error instanceof Error &&
        error.name === 'RequestError' &&
        error.message.includes('NoScriptError')
      throw isUnknown ? new Error('NOSCRIPT', { cause: error }) : error
    }
  }
  return {
    evaluateDigest: (digest, keys, parameters) => send('EVALSHA', digest, keys, parameters),
    evaluateSource: (source, keys, parameters) => send('EVAL', source, keys, parameters)
  }
}

/**
 * Returns a function that awaits a reply and leaves a server that has become a replica, at most
 * once a second. The server keeps its connections, and no option makes the client leave it. After
 * `QUIT`, it closes the connection, and the client connects again.
 */
function leavingReplicas (quit: () => void): (reply: Promise<unknown>) => Promise<unknown> {
  let leftAt = -Infinity
  return async (reply) => {
    try {
      return await reply
    } catch (error) {
      if (
        error instanceof Error &&
        /READONLY|ReadOnly/.test(error.message) &&
        performance.now() - leftAt >= 1_000
      ) {
        leftAt = performance.now()
        // By the next turn, the connection with the error is idle again.
        setImmediate(quit)
      }
      throw error
    }
  }
}
