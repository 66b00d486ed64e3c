import { hasFunction } from '../../../option-checks.js'
import { atMostOnceASecond, type QuotaRedisClient } from '../client.js'

/** The functions that the store uses of a client, a pool or a cluster of the package `redis`, which sends no command twice. */
export interface NodeRedisClient {
  /** Runs a cached script by its SHA-1 digest (`EVALSHA`). */
  evalSha (digest: string, input: ScriptInput): Promise<unknown>
  /** Runs a script from its source (`EVAL`). The server caches the script. */
  eval (script: string, input: ScriptInput): Promise<unknown>
}

interface ScriptInput {
  keys: string[]
  arguments: (string | Buffer)[]
}

export function isNodeRedis (client: unknown): client is NodeRedisClient {
  return ['evalSha', 'eval'].every((name) => hasFunction(client, name))
}

export function adaptNodeRedis (client: NodeRedisClient): QuotaRedisClient {
  const leave = atMostOnceASecond(() => { if (isLeaving(client)) leaveReplica(client) })
  const run = async (reply: Promise<unknown>): Promise<unknown> => {
    try {
      return await reply
    } catch (error) {
      // By the next turn, the connection with the error is idle again.
      if (error instanceof Error && error.message.includes('READONLY')) setImmediate(leave)
      throw error
    }
  }
  return {
    evaluateDigest: (digest, keys, parameters) => run(client.evalSha(digest, { keys: [...keys], arguments: [...parameters] })),
    evaluateSource: (source, keys, parameters) => run(client.eval(source, { keys: [...keys], arguments: [...parameters] }))
  }
}

interface Leaving {
  /** The connections of a pool that are not in use. */
  readonly idleClients?: number
  sendCommand (command: string[]): Promise<unknown>
}

// A server that has become a replica keeps its connections, and no option makes the client leave it. After `QUIT`, the server closes the
// connection, and the client connects again. In a pool, each of the commands gets another idle connection.
function leaveReplica (client: Leaving): void {
  for (let connections = client.idleClients ?? 1; connections > 0; connections--) client.sendCommand(['QUIT']).catch(() => {})
}

// A client or a pool. A cluster has other ways.
function isLeaving (client: object): client is Leaving {
  return ('isReady' in client || 'idleClients' in client) && hasFunction(client, 'sendCommand')
}
