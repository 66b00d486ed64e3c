import { hasFunction, isObject } from '../../option-checks.js'
import type { IoredisClient, QuotaRedisClient, Readiness, ScriptCommands } from './clients.js'

interface Pipeline extends ScriptCommands<unknown> {
  exec(): Promise<[error: Error | null, reply: unknown][]>
}

interface PipeliningCluster {
  pipeline(): Pipeline
}

export function adaptIoredis (client: IoredisClient): QuotaRedisClient {
  // With automatic pipelining, the Cluster of iovalkey up to 0.4 and of ioredis before 5.11 treats
  // a command's first argument as its key, so it groups scripts by digest and rejects a group whose
  // keys are on different nodes. An explicit pipeline uses the key.
  const commands = isPipeliningCluster(client) ? oneByOne(client) : client
  return {
    readiness: () => readinessOfIoredis(client),
    evaluateDigest: (digest, keys, parameters) =>
      commands.evalsha(digest, keys.length, ...keys, ...parameters),
    evaluateSource: (source, keys, parameters) =>
      commands.eval(source, keys.length, ...keys, ...parameters)
  }
}

/** Sends each command in a pipeline of its own. */
function oneByOne (client: PipeliningCluster): IoredisClient {
  const run = async (command: (pipeline: Pipeline) => unknown): Promise<unknown> => {
    const pipeline = client.pipeline()
    command(pipeline)
    const [result] = await pipeline.exec()
    if (result?.[0] instanceof Error) throw result[0]
    return result?.[1]
  }
  return {
    evalsha: (...given) => run((pipeline) => pipeline.evalsha(...given)),
    eval: (...given) => run((pipeline) => pipeline.eval(...given))
  }
}

// With the status `wait`, of a client with the option `lazyConnect`, a command connects it.
const connectingStatus: readonly unknown[] = ['connecting', 'connect', 'close', 'reconnecting']

function readinessOfIoredis (client: object): Readiness {
  const status: unknown = 'status' in client ? client.status : undefined
  if (status === 'end') return 'closed'
  return connectingStatus.includes(status) || isDisconnecting(client) ? 'connecting' : 'ready'
}

// A client that leaves a replica (`reconnectOnError`) has the status `ready` until its socket is
// closed. By then, it rejects what it has not sent.
function isDisconnecting (client: object): boolean {
  return 'stream' in client && isObject(client.stream) &&
    Reflect.get(client.stream, 'writable') === false
}

// Only a Cluster has the function `nodes`.
function isPipeliningCluster (client: object): client is PipeliningCluster {
  const isCluster = hasFunction(client, 'nodes') && hasFunction(client, 'pipeline')
  if (!isCluster || !('options' in client) || !isObject(client.options)) return false
  return Reflect.get(client.options, 'enableAutoPipelining') === true
}
