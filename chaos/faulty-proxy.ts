import { connect, createServer, type Socket } from 'node:net'
import { listenOnLoopback, type Listening } from '../test/support/loopback.js'

interface Connection {
  readonly downstream: Socket
  readonly upstream: Socket
  /** Nothing passes a silent connection any more. It stays open, unless a reply was cut. */
  isSilent: boolean
  latestRequest: string
}

/** Forwards connections to a server, with network faults. */
export class FaultyProxy {
  /** The port of the server, for new connections. */
  targetPort: number
  /** While true, everything is lost on every connection, and none is closed. */
  isSilent = false
  readonly #connections = new Set<Connection>()
  #listening: Listening | undefined
  #repliesToCut = 0
  #requestToCut = /^/
  #rejects = false

  private constructor (targetPort: number) {
    this.targetPort = targetPort
  }

  static async start (targetPort: number): Promise<FaultyProxy> {
    const proxy = new FaultyProxy(targetPort)
    proxy.#listening = await listenOnLoopback(
      createServer((downstream) => {
        if (proxy.#rejects) downstream.resetAndDestroy()
        else {
          const upstream = connect(proxy.targetPort, '127.0.0.1')
          proxy.#pass({ downstream, upstream, isSilent: false, latestRequest: '' })
        }
      })
    )
    return proxy
  }

  get port (): number {
    return this.#listening?.port ?? 0
  }

  /**
   * Closes the connections of the next replies, each in the middle of its reply.
   *
   * @param request Matches the requests whose replies are cut. A client of a cluster also sends
   *   commands of its own at any time.
   */
  cut (replies: number, request = /^/): void {
    this.#repliesToCut = replies
    this.#requestToCut = request
  }

  reset (): void {
    for (const { downstream } of this.#connections) downstream.resetAndDestroy()
  }

  /** Stops forwarding on the current connections without closing them. */
  silence (): void {
    for (const connection of this.#connections) connection.isSilent = true
  }

  /** Resets the connections that are silent. */
  endSilence (): void {
    for (const { downstream, isSilent } of this.#connections) {
      if (isSilent) downstream.resetAndDestroy()
    }
  }

  /** Whether new connections are reset at once. */
  reject (rejects: boolean): void {
    this.#rejects = rejects
  }

  /** Ends all faults, except that silent connections stay silent. */
  recover (): void {
    this.#repliesToCut = 0
    this.#rejects = false
  }

  async stop (): Promise<void> {
    await this.#listening?.stop()
  }

  #pass (connection: Connection): void {
    const { downstream, upstream } = connection
    this.#connections.add(connection)
    for (const socket of [downstream, upstream]) {
      socket.setNoDelay()
      socket.on('error', () => {})
      socket.on('close', () => {
        this.#connections.delete(connection)
        downstream.destroy()
        upstream.destroy()
      })
    }
    downstream.on('data', (chunk) => {
      connection.latestRequest = chunk.toString('latin1')
      if (!connection.isSilent && !this.isSilent) upstream.write(chunk)
    })
    upstream.on('data', (chunk) => {
      this.#send(connection, chunk)
    })
  }

  #send (connection: Connection, chunk: Buffer): void {
    const { downstream, latestRequest } = connection
    if (connection.isSilent || this.isSilent || downstream.destroyed) return
    if (this.#repliesToCut === 0 || !this.#requestToCut.test(latestRequest)) {
      downstream.write(chunk)
      return
    }
    this.#repliesToCut -= 1
    connection.isSilent = true
    downstream.write(chunk.subarray(0, Math.ceil(chunk.length / 2)), () => downstream.destroy())
  }
}
