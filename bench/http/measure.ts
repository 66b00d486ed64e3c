import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import autocannon from 'autocannon'
import { Random } from '../../test/support/random.js'

/** The situation that a server is started for. */
export interface Situation {
  readonly limit: number
  readonly asynchronousPreference?: boolean
  readonly asynchronousStore?: boolean
  readonly asynchronousAuthentication?: boolean
  readonly decisionsSubscribed?: boolean
  readonly tokens?: boolean
  readonly redisPort?: number
  readonly autoPipelining?: boolean
  /** The number of empty plugins; default `pluginCount`. */
  readonly plugins?: number
}

/** The figures of one round of one server. */
export interface Round {
  /** CPU time of the server process per request, in µs. */
  readonly cpu: number
  readonly requestsPerSecond: number
  readonly requests: number
}

const connections = 20
const random = new Random(1)

/** A server in a separate process. */
export class ServerProcess {
  readonly #process: ChildProcess
  readonly #address: string
  readonly #token: string | undefined

  private constructor (process: ChildProcess, address: string, token: string | undefined) {
    this.#process = process
    this.#address = address
    this.#token = token
  }

  /** @param name The name of a server. With the suffix `again`, the same server is started once more. */
  static async start (name: string, situation: Situation): Promise<ServerProcess> {
    const child = fork(fileURLToPath(new URL('server.js', import.meta.url)), [name.replace(/ again$/, ''), JSON.stringify(situation)])
    const [{ address, token }] = await once(child, 'message')
    return new ServerProcess(child, address, token)
  }

  /** Sends requests for some seconds, spread over a number of callers. */
  async round (path: string, callers: number, seconds: number): Promise<Round> {
    const authorization = this.#token === undefined ? {} : { authorization: `Bearer ${this.#token}` }
    const request = (caller: number) => ({ path, headers: { 'x-subject': `caller ${caller}`, ...authorization } })
    // Each connection has its share of the callers, in random order.
    const share = Math.ceil(callers / connections)
    let first = 0
    const before = await this.#cpu()
    const result = await autocannon({
      url: this.#address,
      connections,
      duration: seconds,
      setupClient (client) {
        const own = first
        first += share
        client.setRequests(Array.from({ length: share }, () => request(random.integer(own, own + share - 1))))
      }
    })
    const total = result.requests.total
    return {
      cpu: (await this.#cpu() - before) / total,
      requestsPerSecond: total / seconds,
      requests: total
    }
  }

  async stop (): Promise<void> {
    const exited = once(this.#process, 'exit')
    this.#process.kill('SIGKILL')
    await exited
  }

  async #cpu (): Promise<number> {
    this.#process.send('cpu')
    const [{ cpu }] = await once(this.#process, 'message')
    return cpu
  }
}
