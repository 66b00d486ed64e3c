import { once } from 'node:events'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { listenOnLoopback, portOf } from './loopback.js'

/** A proxy that can cut a connection half-way through a reply, or lose everything that is sent without closing a connection. */
export class CuttingProxy {
  isSilent = false
  readonly #server: Server
  readonly #connections = new Set<Socket>()
  #cuts = 0
  #request = /^/

  private constructor (targetPort: number) {
    this.#server = createServer((downstream) => { this.#pass(downstream, connect(targetPort, '127.0.0.1')) })
  }

  static async start (targetPort: number): Promise<CuttingProxy> {
    const proxy = new CuttingProxy(targetPort)
    await listenOnLoopback(proxy.#server)
    return proxy
  }

  get port (): number {
    return portOf(this.#server)
  }

  /**
   * Cuts that many of the next replies half-way, together with their connections.
   *
   * @param request Matches the requests whose replies are cut. A client of a cluster also sends commands of its own at any time.
   */
  cut (replies: number, request = /^/): void {
    this.#cuts = replies
    this.#request = request
  }

  async stop (): Promise<void> {
    for (const connection of this.#connections) connection.destroy()
    this.#server.close()
    await once(this.#server, 'close')
  }

  #pass (downstream: Socket, upstream: Socket): void {
    for (const socket of [downstream, upstream]) {
      this.#connections.add(socket)
      socket.on('error', () => {})
      socket.on('close', () => {
        this.#connections.delete(socket)
        downstream.destroy()
        upstream.destroy()
      })
    }
    let latestRequest = ''
    downstream.on('data', (chunk) => {
      latestRequest = chunk.toString('latin1')
      if (!this.isSilent) upstream.write(chunk)
    })
    upstream.on('data', (chunk) => {
      if (this.isSilent) return
      if (this.#cuts === 0 || !this.#request.test(latestRequest)) {
        downstream.write(chunk)
      } else {
        this.#cuts -= 1
        downstream.write(chunk.subarray(0, Math.ceil(chunk.length / 2)), () => downstream.destroy())
      }
    })
  }
}
