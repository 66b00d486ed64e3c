import { hasFunction } from '../../../errors.js'
import type { QuotaRedisClient } from '../client.js'

/**
 * The functions of a client of the package `redis` that the store uses. The client is created by `createClient`, `createClientPool` or
 * `createCluster`.
 *
 * The client's error shows whether the command was executed:
 *
 * - **Not executed**: error replies (`NOSCRIPT`, `MOVED`, `LOADING`, `OOM`, …), `TimeoutError`, `AbortError`, `ClientClosedError`,
 *   `ClientOfflineError` and `The queue is full`. The client's timeouts apply only before it sends a command.
 * - **Possibly executed**: `SocketClosedUnexpectedlyError`, `SocketTimeoutError` and errors of the socket (`ECONNRESET`).
 *
 * The client never sends a command again after it has lost the connection.
 */
export interface NodeRedisClient {
  /** Runs a cached script by its SHA-1 digest (`EVALSHA`). */
  evalSha (digest: string, input: ScriptInput): Promise<unknown>
  /** Runs a script from its source (`EVAL`). The server caches the script. */
  eval (script: string, input: ScriptInput): Promise<unknown>
  /** Removes a key (`UNLINK`). */
  unlink (key: string): Promise<unknown>
}

interface ScriptInput {
  keys: string[]
  arguments: string[]
}

export function isNodeRedis (client: unknown): client is NodeRedisClient {
  return ['evalSha', 'eval', 'unlink'].every((name) => hasFunction(client, name))
}

export function adaptNodeRedis (client: NodeRedisClient): QuotaRedisClient {
  return {
    evaluateDigest: (digest, key, parameters) => leavingReplica(client, client.evalSha(digest, { keys: [key], arguments: [...parameters] })),
    evaluateSource: (source, key, parameters) => leavingReplica(client, client.eval(source, { keys: [key], arguments: [...parameters] })),
    removeKey: (key) => client.unlink(key)
  }
}

interface Connection {
  readonly isReady: boolean
  destroy (): void
  connect (): Promise<unknown>
}

interface Pool {
  readonly idleClients: number
  execute (task: (connection: Connection) => Promise<unknown>): Promise<unknown>
}

// A server that has become a replica keeps its connections, and no option makes the client leave it, so it is connected again.
async function leavingReplica (client: NodeRedisClient, reply: Promise<unknown>): Promise<unknown> {
  try {
    return await reply
  } catch (error) {
    if (error instanceof Error && error.message.startsWith('READONLY')) {
      if (isPool(client)) setImmediate(reconnectPool, client)
      else if (isConnection(client)) reconnect(client).catch(() => {})
    }
    throw error
  }
}

async function reconnect (connection: Connection): Promise<void> {
  if (!connection.isReady) return
  connection.destroy()
  await connection.connect()
}

// By now, the connection with the error is idle again. Each of the tasks gets another one.
function reconnectPool (pool: Pool): void {
  for (let idle = pool.idleClients; idle > 0; idle--) pool.execute(reconnect).catch(() => {})
}

function isPool (client: object): client is Pool {
  return 'idleClients' in client && hasFunction(client, 'execute')
}

// A cluster has no `isReady`.
function isConnection (client: object): client is Connection {
  return 'isReady' in client && hasFunction(client, 'destroy') && hasFunction(client, 'connect')
}
