import { once } from 'node:events'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { listenOnLoopback, portOf } from '../test/support/loopback.js'

interface Connection {
  readonly downstream: Socket
  readonly upstream: Socket
  /** Nothing passes a silent connection any more. It stays open, unless a reply was cut. */
  isSilent: boolean
  /** Settles when the replies until now have been sent. */
  sent: Promise<void>
}

/** Forwards connections to a server, with network faults. */
export class FaultyProxy {
  /** The port of the server, for new connections. */
  targetPort: number
  readonly #server: Server
  readonly #connections = new Set<Connection>()
  #delay = (): number => 0
  #repliesToCut = 0
  #rejects = false

  private constructor (targetPort: number) {
    this.targetPort = targetPort
    this.#server = createServer((downstream) => {
      if (this.#rejects) downstream.resetAndDestroy()
      else this.#pass({ downstream, upstream: connect(this.targetPort, '127.0.0.1'), isSilent: false, sent: Promise.resolve() })
    })
  }

  static async start (targetPort: number): Promise<FaultyProxy> {
    const proxy = new FaultyProxy(targetPort)
    await listenOnLoopback(proxy.#server)
    return proxy
  }

  get port (): number {
    return portOf(this.#server)
  }

  /** Delays each reply by some milliseconds. Replies keep their order. */
  delay (milliseconds: () => number): void {
    this.#delay = milliseconds
  }

  /** Closes the connections of the next replies, each in the middle of its reply. */
  cut (replies: number): void {
    this.#repliesToCut = replies
  }

  /** Resets every connection. */
  reset (): void {
    for (const { downstream } of this.#connections) downstream.resetAndDestroy()
  }

  /** Stops forwarding on the current connections without closing them. */
  silence (): void {
    for (const connection of this.#connections) connection.isSilent = true
  }

  /** Resets the connections that are silent. */
  endSilence (): void {
    for (const { downstream, isSilent } of this.#connections) if (isSilent) downstream.resetAndDestroy()
  }

  /** Whether new connections are reset at once. */
  reject (rejects: boolean): void {
    this.#rejects = rejects
  }

  /** Ends all faults, except that silent connections stay silent. */
  recover (): void {
    this.#delay = () => 0
    this.#repliesToCut = 0
    this.#rejects = false
  }

  async stop (): Promise<void> {
    this.reset()
    this.#server.close()
    await once(this.#server, 'close')
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
    downstream.on('data', (chunk) => { if (!connection.isSilent) upstream.write(chunk) })
    upstream.on('data', (chunk) => { this.#reply(connection, chunk) })
  }

  #reply (connection: Connection, chunk: Buffer): void {
    const dueAt = performance.now() + this.#delay()
    connection.sent = connection.sent.then(async () => {
      const wait = dueAt - performance.now()
      if (wait > 0) await sleep(wait)
      this.#send(connection, chunk)
    })
  }

  #send (connection: Connection, chunk: Buffer): void {
    const { downstream } = connection
    if (connection.isSilent || downstream.destroyed) return
    if (this.#repliesToCut === 0) {
      downstream.write(chunk)
      return
    }
    this.#repliesToCut -= 1
    connection.isSilent = true
    downstream.write(chunk.subarray(0, Math.ceil(chunk.length / 2)), () => downstream.destroy())
  }
}
