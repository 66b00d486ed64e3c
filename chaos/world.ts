import { drawsOf, type Draw } from './incident.js'
import { InstanceProcess, type InstanceSettings } from './instance-process.js'
import { linkFaults } from './link-faults.js'
import { postgresFaults } from './postgres-faults.js'
import { PostgresNode } from './postgres-node.js'
import { redisFaults } from './redis-faults.js'
import { RedisNode } from './redis-node.js'
import { clients, type ChaosClient } from './stores.js'

const instancesOfAWorld = 2
const redisServers = 3

/**
 * The system under test: three servers of Redis that share the callers, or one of PostgreSQL, and
 * two instances, with a proxy for each connection.
 */
export class World {
  readonly nodes: readonly (RedisNode | PostgresNode)[]
  readonly instances: readonly InstanceProcess[]
  readonly serverFaults: Readonly<Record<string, Draw>>
  readonly linkFaults: Readonly<Record<string, Draw>>
  readonly #client: ChaosClient

  private constructor (
    client: ChaosClient,
    nodes: World['nodes'],
    instances: readonly InstanceProcess[],
    serverFaults: Readonly<Record<string, Draw>>,
    linkFaults: Readonly<Record<string, Draw>>
  ) {
    this.#client = client
    this.nodes = nodes
    this.instances = instances
    this.serverFaults = serverFaults
    this.linkFaults = linkFaults
  }

  static async start (settings: Omit<InstanceSettings, 'ports'>): Promise<World> {
    const client = clients[settings.client]
    if (client === undefined) {
      throw new RangeError(`there are these clients: ${Object.keys(clients).join(', ')}`)
    }
    const isPostgres = settings.client === 'postgres'
    const redis = isPostgres
      ? []
      : await Promise.all(
        Array.from({ length: redisServers }, () => RedisNode.start(instancesOfAWorld))
      )
    const postgres = isPostgres ? [await PostgresNode.start(instancesOfAWorld)] : []
    const nodes = [...redis, ...postgres]
    const instances = await Promise.all(
      Array.from({ length: instancesOfAWorld }, (_, instance) =>
        InstanceProcess.start({
          ...settings,
          ports: nodes.flatMap(({ proxies }) => proxies[instance]?.port ?? [])
        })
      )
    )
    const links = nodes.flatMap(({ proxies }) => proxies)
    const serverFaults = {
      ...drawsOf('server', redis, redisFaults, (place) => [place]),
      ...drawsOf('server', postgres, postgresFaults, (place) => [place])
    }
    const serverOfLink = (place: number): number => Math.floor(place / instancesOfAWorld)
    return new World(
      client,
      nodes,
      instances,
      serverFaults,
      drawsOf('link', links, linkFaults(client), (place) => [serverOfLink(place)])
    )
  }

  /** Returns how many callers have places on the servers. */
  async callersWithPlaces (): Promise<number> {
    let callers = 0
    for (const { server } of this.nodes) {
      const { store, close } = await this.#client.connect(server.port)
      const state = await store.inspect?.('streams.concurrent')
      callers += state?.trackedCallers ?? NaN
      await close()
    }
    return callers
  }

  async stop (): Promise<void> {
    await Promise.all(this.instances.map((instance) => instance.stop()))
    await Promise.all(this.nodes.map((node) => node.stop()))
  }
}
