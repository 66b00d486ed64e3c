import { hasFunction } from '../../../option-checks.js'
import type { QuotaRedisClient } from '../client.js'

/**
 * The functions of an `ioredis` or `iovalkey` client that the store uses; both `Redis` and `Cluster` have them. With its default options,
 * the client sends a command again if the connection is lost before the reply arrives, so one request can be counted twice. To prevent
 * this, set `maxRetriesPerRequest: 0` for `Redis`, or `retryDelayOnFailover: 0` for `Cluster`.
 */
export type IoredisClient = ScriptCommands<Promise<unknown>>

interface ScriptCommands<Result> {
  /** Runs a cached script by its SHA-1 digest (`EVALSHA`). */
  evalsha (digest: string, numberOfKeys: number, ...keysAndParameters: (string | Buffer | number)[]): Result
  /** Runs a script from its source (`EVAL`). The server caches the script. */
  eval (script: string, numberOfKeys: number, ...keysAndParameters: (string | Buffer | number)[]): Result
}

interface Pipeline extends ScriptCommands<unknown> { exec (): Promise<[error: Error | null, reply: unknown][]> }

export function adaptIoredis (client: IoredisClient): QuotaRedisClient {
  // With automatic pipelining, the Cluster of iovalkey up to 0.4 and of ioredis before 5.11 treats a command's first argument as its
  // key, so it groups scripts by digest and rejects a group whose keys are on different nodes. An explicit pipeline uses the key.
  const run = async (command: (commands: ScriptCommands<unknown>) => unknown): Promise<unknown> => {
    if (!isPipeliningCluster(client)) return command(client)
    const pipeline = client.pipeline()
    command(pipeline)
    const [result] = await pipeline.exec()
    if (result?.[0] instanceof Error) throw result[0]
    return result?.[1]
  }
  return {
    evaluateDigest: (digest, keys, parameters) => run((commands) => commands.evalsha(digest, keys.length, ...keys, ...parameters)),
    evaluateSource: (source, keys, parameters) => run((commands) => commands.eval(source, keys.length, ...keys, ...parameters))
  }
}

// Only a Cluster has the function `nodes`.
function isPipeliningCluster (client: object): client is { pipeline (): Pipeline } {
  const isCluster = hasFunction(client, 'nodes') && hasFunction(client, 'pipeline')
  return isCluster && 'options' in client && Object(client.options).enableAutoPipelining === true
}
