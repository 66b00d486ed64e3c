import { Redis } from 'ioredis'
import { RedisServer } from '../test/support/redis-server.js'
import { clients, credentials } from './clients.js'
import { FaultyProxy } from './faulty-proxy.js'
import { InstanceProcess, type InstanceSettings } from './instance-process.js'
import { ProcessorWaits } from './processor-waits.js'

/** The system under test: a server, and two instances, each with a proxy to the server. */
export class World {
  readonly server: RedisServer
  readonly proxies: readonly FaultyProxy[]
  readonly instances: readonly InstanceProcess[]
  /** Whether the instances' clients close silent connections. */
  readonly noticesSilence: boolean
  /** How long the processes of the world and this process wait for a processor. */
  readonly processorWaits: ProcessorWaits

  private constructor (server: RedisServer, proxies: readonly FaultyProxy[], instances: readonly InstanceProcess[], client: string) {
    this.noticesSilence = clients[client]?.noticesSilence ?? true
    this.server = server
    this.proxies = proxies
    this.instances = instances
    this.processorWaits = new ProcessorWaits(() => [process.pid, server.pid, ...instances.map(({ pid }) => pid)].filter((pid) => pid !== undefined))
  }

  static async start (settings: Omit<InstanceSettings, 'port'>): Promise<World> {
    const server = await RedisServer.start('--user', credentials.username, 'on', `>${credentials.password}`, '~*', '&*', '+@all')
    const proxies = [await FaultyProxy.start(server.port), await FaultyProxy.start(server.port)]
    const instances = await Promise.all(proxies.map(({ port }) => InstanceProcess.start({ ...settings, port })))
    return new World(server, proxies, instances, settings.client)
  }

  /** Sends a command to the server directly. */
  async administer (command: string, ...parameters: string[]): Promise<unknown> {
    // While a server is busy with a script, it only accepts the command that ends the script.
    const client = new Redis({ host: '127.0.0.1', port: this.server.port, enableReadyCheck: false, maxRetriesPerRequest: 0 })
    client.on('error', () => {})
    try {
      return await client.call(command, ...parameters)
    } finally {
      client.disconnect()
    }
  }

  /** The number of keys that the server has evicted since it was started. */
  async evicted (): Promise<number> {
    return Number(/^evicted_keys:(\d+)/m.exec(String(await this.administer('INFO', 'stats')))?.[1])
  }

  async stop (): Promise<void> {
    this.processorWaits.stop()
    await Promise.all(this.instances.map((instance) => instance.stop()))
    await Promise.all(this.proxies.map((proxy) => proxy.stop()))
    this.server.signal('SIGCONT')
    await this.server.stop()
  }
}
