import { hasFunction, isObject } from '../../option-checks.js'
import type { IoredisClient, QuotaRedisClient, Readiness, ScriptCommands } from './clients.js'

interface Pipeline extends ScriptCommands<unknown> {
  exec(): Promise<[error: Error | null, reply: unknown][]>
}

export function adaptIoredis (client: IoredisClient): QuotaRedisClient {
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
