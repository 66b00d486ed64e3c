import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import autocannon from 'autocannon'

/** What a server is started for. */
export interface Situation {
  readonly limit: number
  readonly asynchronousPreference?: boolean
  readonly decisionsSubscribed?: boolean
  readonly tokens?: boolean
  readonly redisPort?: number
  readonly autoPipelining?: boolean
}

/** Figures of one round of one subject. */
export interface Round {
  /** CPU time of the server process for each request, µs. */
  readonly cpu: number
  readonly requestsPerSecond: number
  readonly p50: number
  readonly p99: number
  readonly p999: number
  readonly requests: number
}

const connections = 20

/** A subject's server, in a process of its own. */
export class SubjectServer {
  readonly #process: ChildProcess
  readonly #address: string
  readonly #token: string | undefined

  private constructor (process: ChildProcess, address: string, token: string | undefined) {
    this.#process = process
    this.#address = address
    this.#token = token
  }

  static async start (subject: string, situation: Situation): Promise<SubjectServer> {
    const described = JSON.stringify({ asynchronousPreference: false, decisionsSubscribed: false, ...situation })
    const child = fork(fileURLToPath(new URL('server.js', import.meta.url)), [subject, described])
    const [{ address, token }] = await once(child, 'message')
    return new SubjectServer(child, address, token)
  }

  /** Sends requests for a while, each for the next of so many callers. */
  async round (path: string, callers: number, seconds: number): Promise<Round> {
    const authorization = this.#token === undefined ? {} : { authorization: `Bearer ${this.#token}` }
    const request = (caller: number) => ({ path, headers: { 'x-subject': `caller ${caller}`, ...authorization } })
    // Each connection has its share of the callers, and asks for them in no order.
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
        client.setRequests(Array.from({ length: share }, () => request(own + Math.floor(Math.random() * share))))
      }
    })
    const total = result.requests.total
    return {
      cpu: (await this.#cpu() - before) / total,
      requestsPerSecond: total / seconds,
      p50: result.latency.p50,
      p99: result.latency.p99,
      p999: result.latency.p99_9,
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
