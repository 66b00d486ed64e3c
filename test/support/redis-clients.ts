import * as glide from '@valkey/valkey-glide'
import { Cluster, Redis } from 'ioredis'
import ioredisLowest, { Cluster as LowestCluster } from 'ioredis-lowest'
import * as iovalkey from 'iovalkey'
import * as iovalkeyLowest from 'iovalkey-lowest'
import * as nodeRedis from 'redis'
import * as nodeRedisLowest from 'redis-lowest'
import * as glideLowest from 'valkey-glide-lowest'
import type { NodeRedisClient, IoredisClient, ValkeyGlideClient } from '../../lib/redis.js'

const { default: LowestRedis } = ioredisLowest

/** A connected client of any package, and a function that ends it. */
export interface ConnectedClient {
  readonly client: IoredisClient | NodeRedisClient | ValkeyGlideClient
  close(): unknown
}

/** A function that connects clients of one package with one set of options. */
export type Connect = (ports: readonly [number, ...number[]]) => Promise<ConnectedClient>

// Otherwise the native part writes each error to the standard output.
glide.Logger.setLoggerConfig('off')
glideLowest.Logger.setLoggerConfig('off')

// How long a client waits for a server that does not answer. A busy machine can stall both for
// longer than a host would choose.
const patience = 10_000
// Clients of Valkey GLIDE wait this long for a server that is not running.
const shortPatience = 3_000

/**
 * The options that docs/scaling.md recommends: the client never sends a command twice, and gives up
 * in time.
 */
const recommended = { maxRetriesPerRequest: 0, socketTimeout: patience, retryStrategy: () => 50 }
const recommendedForClusters = {
  retryDelayOnFailover: 0,
  redisOptions: { socketTimeout: patience }
}
// The lowest versions do not know socketTimeout.
const recommendedForLowest = {
  maxRetriesPerRequest: 0,
  commandTimeout: patience,
  retryStrategy: () => 50
}
const recommendedForNodeRedis = {
  disableOfflineQueue: true,
  socket: { reconnectStrategy: () => 50 }
}

type WithErrors = IoredisClient & {
  on(event: 'error', listener: () => void): unknown
  disconnect(): void
}

/** Ignores the connection errors that clients emit and that a host would log. */
export function quiet (client: WithErrors): { client: IoredisClient; close(): void } {
  client.on('error', () => {})
  return {
    client,
    close: () => {
      client.disconnect()
    }
  }
}

interface Connectable extends NodeRedisClient {
  connect(): Promise<unknown>
  destroy(): unknown
  on(event: 'error', run: () => void): unknown
}

/** Connects a client of the package `redis`. */
export async function connected (client: Connectable): Promise<ConnectedClient> {
  client.on('error', () => {})
  await client.connect()
  return { client, close: () => client.destroy() }
}

/** A client of the package @valkey/valkey-glide. */
export async function closing (
  connecting: Promise<ValkeyGlideClient & { close(): void }>
): Promise<ConnectedClient> {
  const client = await connecting
  return {
    client,
    close: () => {
      client.close()
    }
  }
}

export const nodesOf = (ports: readonly number[]) =>
  ports.map((port) => ({ host: '127.0.0.1', port }))

const nodeRedisOptions = (port: number) => ({
  ...recommendedForNodeRedis,
  socket: { ...recommendedForNodeRedis.socket, port }
})

const buffersAndStrings = {
  [nodeRedis.RESP_TYPES.NUMBER]: String,
  [nodeRedis.RESP_TYPES.BLOB_STRING]: Buffer
}

/**
 * Clients of one server: each package as recommended, with options that change requests and
 * replies, and in its lowest version.
 */
export const singleClients: Record<string, Connect> = {
  ioredis: async ([port]) => quiet(new Redis({ port, ...recommended })),
  'a wrapper around ioredis': async ([port]) => {
    const { client, close } = quiet(new Redis({ port, ...recommended }))
    const { evalsha, eval: evaluate } = client
    return { client: { evalsha: evalsha.bind(client), eval: evaluate.bind(client) }, close }
  },
  'ioredis, RESP3 replies': async ([port]) =>
    quiet(new Redis({ port, ...recommended, protocol: 3, replyMapping: 'resp3' })),
  'ioredis, RESP2, numbers as strings, a key prefix, automatic pipelining': async ([port]) =>
    quiet(
      new Redis({
        port,
        ...recommended,
        protocol: 2,
        stringNumbers: true,
        keyPrefix: 'all:',
        enableAutoPipelining: true
      })
    ),
  'ioredis 5.0.0': async ([port]) =>
    quiet(new LowestRedis({ port, ...recommendedForLowest, stringNumbers: true })),
  iovalkey: async ([port]) => quiet(new iovalkey.Redis({ port, ...recommended })),
  'iovalkey, a key prefix, automatic pipelining': async ([port]) =>
    quiet(
      new iovalkey.Redis({ port, ...recommended, keyPrefix: 'all:', enableAutoPipelining: true })
    ),
  'iovalkey 0.1.0': async ([port]) =>
    quiet(new iovalkeyLowest.Redis({ port, ...recommendedForLowest, stringNumbers: true })),
  redis: ([port]) => connected(nodeRedis.createClient(nodeRedisOptions(port))),
  'redis, pings and a socketTimeout': ([port]) =>
    connected(
      nodeRedis.createClient({
        disableOfflineQueue: true,
        pingInterval: 300,
        socket: { port, socketTimeout: patience, reconnectStrategy: () => 50 }
      })
    ),
  'redis, RESP2, numbers as strings, strings as buffers, a key prefix': ([port]) =>
    connected(
      nodeRedis.createClient({
        ...nodeRedisOptions(port),
        RESP: 2,
        keyPrefix: 'all:',
        commandOptions: { typeMapping: buffersAndStrings }
      })
    ),
  'redis, pool': ([port]) => connected(nodeRedis.createClientPool(nodeRedisOptions(port))),
  'redis 5.7.0': ([port]) =>
    connected(nodeRedisLowest.createClient({ ...nodeRedisOptions(port), RESP: 3 })),
  'valkey-glide': (ports) =>
    closing(
      glide.GlideClient.createClient({ addresses: nodesOf(ports), requestTimeout: shortPatience })
    ),
  'valkey-glide, RESP2, strings as buffers': (ports) =>
    closing(
      glide.GlideClient.createClient({
        addresses: nodesOf(ports),
        requestTimeout: shortPatience,
        protocol: glide.ProtocolVersion.RESP2,
        defaultDecoder: glide.Decoder.Bytes
      })
    ),
  'valkey-glide 2.0.1': (ports) =>
    closing(
      glideLowest.GlideClient.createClient({
        addresses: nodesOf(ports),
        requestTimeout: shortPatience
      })
    )
}

/** Clients of a cluster, each configured to use replicas where it can. */
export const clusterClients: Record<string, Connect> = {
  'ioredis, Cluster, RESP3 replies': async (ports) =>
    quiet(
      new Cluster(nodesOf(ports), {
        retryDelayOnFailover: 0,
        redisOptions: {
          ...recommendedForClusters.redisOptions,
          protocol: 3,
          replyMapping: 'resp3'
        },
        scaleReads: 'slave'
      })
    ),
  'ioredis, Cluster, RESP2, a key prefix, automatic pipelining': async (ports) =>
    quiet(
      new Cluster(nodesOf(ports), {
        retryDelayOnFailover: 0,
        redisOptions: { ...recommendedForClusters.redisOptions, protocol: 2 },
        scaleReads: 'all',
        keyPrefix: 'all:',
        enableAutoPipelining: true
      })
    ),
  'ioredis 5.0.0, Cluster, automatic pipelining': async (ports) =>
    quiet(
      new LowestCluster(nodesOf(ports), {
        retryDelayOnFailover: 0,
        redisOptions: { commandTimeout: patience },
        scaleReads: 'slave',
        enableAutoPipelining: true
      })
    ),
  'iovalkey, Cluster, automatic pipelining': async (ports) =>
    quiet(
      new iovalkey.Cluster(nodesOf(ports), {
        ...recommendedForClusters,
        scaleReads: 'slave',
        enableAutoPipelining: true
      })
    ),
  'redis, cluster': (ports) =>
    connected(
      nodeRedis.createCluster({
        rootNodes: nodesOf(ports).map((socket) => ({ socket })),
        useReplicas: true,
        defaults: recommendedForNodeRedis
      })
    ),
  'redis 5.7.0, cluster': (ports) =>
    connected(
      nodeRedisLowest.createCluster({
        RESP: 2,
        rootNodes: nodesOf(ports).map((socket) => ({ socket })),
        useReplicas: true,
        defaults: recommendedForNodeRedis
      })
    ),
  'valkey-glide, cluster': (ports) =>
    closing(
      glide.GlideClusterClient.createClient({
        addresses: nodesOf(ports),
        requestTimeout: shortPatience,
        readFrom: 'preferReplica'
      })
    ),
  'valkey-glide 2.0.1, cluster, RESP2, strings as buffers': (ports) =>
    closing(
      glideLowest.GlideClusterClient.createClient({
        addresses: nodesOf(ports),
        requestTimeout: shortPatience,
        readFrom: 'preferReplica',
        protocol: glideLowest.ProtocolVersion.RESP2,
        defaultDecoder: glideLowest.Decoder.Bytes
      })
    )
}
