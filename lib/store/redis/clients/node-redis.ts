import { hasFunction } from '../../../option-checks.js'
import { atMostOnceASecond, type QuotaRedisClient } from '../client.js'

/** The functions that the store uses of a client, a pool or a cluster of the package `redis`, which sends no command twice. */
export interface NodeRedisClient {
  /** Runs a cached script by its SHA-1 digest (`EVALSHA`). */
  evalSha (digest: string, input: ScriptInput): Promise<unknown>
  /** Runs a script from its source (`EVAL`). The server caches the script. */
  eval (script: string, input: ScriptInput): Promise<unknown>
}

interface ScriptInput { keys: string[], arguments: (string | Buffer)[] }

export function adaptNodeRedis (client: NodeRedisClient): QuotaRedisClient {
  // A server that has become a replica keeps its connections, and no option makes the client leave it. After `QUIT`, the server closes the
  // connection, and the client connects again. In a pool, each of the commands gets another idle connection. A cluster has other ways.
  const leaveReplica = atMostOnceASecond(() => {
    if (isLeaving(client)) for (let left = client.idleClients ?? 1; left > 0; left--) client.sendCommand(['QUIT']).catch(() => {})
  })
  const run = async (reply: Promise<unknown>): Promise<unknown> => {
    try {
      return await reply
    } catch (error) {
      // By the next turn, the connection with the error is idle again.
      if (error instanceof Error && error.message.includes('READONLY')) setImmediate(leaveReplica)
      throw error
    }
  }
  return {
    evaluateDigest: (digest, keys, parameters) => run(client.evalSha(digest, { keys: [...keys], arguments: [...parameters] })),
    evaluateSource: (source, keys, parameters) => run(client.eval(source, { keys: [...keys], arguments: [...parameters] }))
  }
}

// A client, or a pool with connections that are not in use.
function isLeaving (client: object): client is { readonly idleClients?: number, sendCommand (command: string[]): Promise<unknown> } {
  return ('isReady' in client || 'idleClients' in client) && hasFunction(client, 'sendCommand')
}
