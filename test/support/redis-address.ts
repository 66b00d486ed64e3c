import { once } from 'node:events'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { listenOnLoopback, portOf } from './loopback.js'

/** One address in front of several servers. Connections stay with the server that they were opened to. */
export class SwitchingProxy {
  target: number
  readonly #server: Server
  readonly #connections = new Set<Socket>()

  private constructor (target: number) {
    this.target = target
    this.#server = createServer((downstream) => {
      const upstream = connect(this.target, '127.0.0.1')
      downstream.pipe(upstream).pipe(downstream)
      for (const socket of [downstream, upstream]) {
        this.#connections.add(socket)
        socket.on('error', () => {})
        socket.on('close', () => {
          downstream.destroy()
          upstream.destroy()
        })
      }
    })
  }

  static async start (target: number): Promise<SwitchingProxy> {
    const proxy = new SwitchingProxy(target)
    await listenOnLoopback(proxy.#server)
    return proxy
  }

  get port (): number {
    return portOf(this.#server)
  }

  async stop (): Promise<void> {
    for (const connection of this.#connections) connection.destroy()
    this.#server.close()
    await once(this.#server, 'close')
  }
}
