import { drawsOf, type Draw } from './incident.js'
import { clockFaults, instanceFaults } from './instance-faults.js'
import { InstanceProcess, type InstanceSettings } from './instance-process.js'
import { linkFaults } from './link-faults.js'
import { postgresFaults } from './postgres-faults.js'
import { PostgresNode } from './postgres-node.js'
import { redisFaults } from './redis-faults.js'
import { RedisNode } from './redis-node.js'
import { clients } from './stores.js'

const instancesOfAWorld = 2
const redisServers = 3

/**
 * The system under test: three servers of Redis that share the callers, or one of PostgreSQL, and
 * two instances, with a proxy for each connection.
 */
export class World {
  readonly nodes: readonly (RedisNode | PostgresNode)[]
  readonly instances: readonly InstanceProcess[]
  /** The faults of the servers, of the network and of the clock. */
  readonly faults: Readonly<Record<string, Draw>>
  readonly instanceFaults: Readonly<Record<string, Draw>>

  private constructor (
    nodes: World['nodes'],
    instances: readonly InstanceProcess[],
    faults: Readonly<Record<string, Draw>>
  ) {
    this.nodes = nodes
    this.instances = instances
    this.faults = faults
    this.instanceFaults = drawsOf('instance', instances, instanceFaults, () => [...nodes.keys()])
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
    return new World(nodes, instances, {
      ...drawsOf('server', redis, redisFaults, (place) => [place]),
      ...drawsOf('server', postgres, postgresFaults, (place) => [place]),
      ...drawsOf('link', links, linkFaults(client), (place) => [
        Math.floor(place / instancesOfAWorld)
      ]),
      ...(settings.givesTime &&
        drawsOf('instances', [instances], clockFaults, () => [...nodes.keys()]))
    })
  }

  async stop (): Promise<void> {
    await Promise.all(this.instances.map((instance) => instance.stop()))
    await Promise.all(this.nodes.map((node) => node.stop()))
  }
}
