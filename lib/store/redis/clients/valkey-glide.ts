import { atMostOnceASecond, type QuotaRedisClient } from '../client.js'

/** The function that the store uses of a `GlideClient` or `GlideClusterClient` of `@valkey/valkey-glide`, which sends no command twice. */
export interface ValkeyGlideClient {
  /** Sends any command. A client for a cluster sends it to the node that holds the command's key. */
  customCommand (command: (string | Buffer)[]): Promise<unknown>
}

export function adaptValkeyGlide (client: ValkeyGlideClient): QuotaRedisClient {
  // As in node-redis.ts.
  const leaveReplica = atMostOnceASecond(() => { client.customCommand(['QUIT']).catch(() => {}) })
  const run = async (command: string, script: string, keys: readonly string[], parameters: readonly (string | Buffer)[]) => {
    try {
      return await client.customCommand([command, script, String(keys.length), ...keys, ...parameters])
    } catch (error) {
      // The client replaces the codes of some error replies by names of its own.
      if (error instanceof Error && error.name === 'RequestError') {
        if (error.message.includes('NoScriptError')) throw new Error('NOSCRIPT', { cause: error })
        if (error.message.includes('ReadOnly')) leaveReplica()
      }
      throw error
    }
  }
  return {
    evaluateDigest: (digest, keys, parameters) => run('EVALSHA', digest, keys, parameters),
    evaluateSource: (source, keys, parameters) => run('EVAL', source, keys, parameters)
  }
}
