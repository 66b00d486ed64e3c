import { hasFunction } from '../../option-checks.js'
import type { NodeRedisClient, QuotaRedisClient, Readiness } from './clients.js'
import { leaverOf } from './replica-leaver.js'

export function adaptNodeRedis (client: NodeRedisClient): QuotaRedisClient {
  // In a pool, each of the commands gets another idle connection. A cluster has other ways to leave
  // a replica.
  const leaver = leaverOf(client, async () => {
    if (!canLeave(client)) return
    const quitting = Array.from({ length: client.idleClients ?? 1 }, () =>
      client.sendCommand(['QUIT'])
    )
    await Promise.allSettled(quitting)
  })
  return {
    readiness: () => (leaver.isLeaving ? 'connecting' : readinessOfNodeRedis(client)),
    evaluateDigest: (digest, keys, parameters) =>
      leaver.watch(client.evalSha(digest, { keys: [...keys], arguments: [...parameters] })),
    evaluateSource: (source, keys, parameters) =>
      leaver.watch(client.eval(source, { keys: [...keys], arguments: [...parameters] }))
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
