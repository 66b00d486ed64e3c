import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { Agent, request } from 'node:http'
import { fileURLToPath } from 'node:url'
import type { InsuredQuotaStoreState } from '../lib/index.js'

/** The options of an instance. */
export interface InstanceSettings {
  /** The port of its proxy to the server. */
  readonly port: number
  readonly client: string
  readonly limit: number
  /** Whether the instances provide the time of the counters instead of the server. */
  readonly givesTime: boolean
}

/** A message to an instance. */
export interface Order {
  readonly order: 'stall' | 'stepInsuredClock' | 'stepStoreClock' | 'report'
  readonly milliseconds: number
  readonly times: number
}

/** The state that an instance reports. */
export interface InstanceReport {
  state: InsuredQuotaStoreState
  /** The published and the logged changes. */
  published: InsuredQuotaStoreState[]
  logged: string[]
  /** The error of each failure of the primary. */
  reasons: string[]
  /** The number of requests of each caller that the fallback admitted. */
  admittedByFallback: Record<string, number>
  unhandled: string[]
}

// The instance runs compiled or with types stripped, like this module.
const program = fileURLToPath(new URL(import.meta.url.endsWith('.ts') ? 'instance.ts' : 'instance.js', import.meta.url))

/** Controls an instance of the service. */
export class InstanceProcess {
  readonly #child: ChildProcess
  readonly #address: URL
  readonly #agent = new Agent({ keepAlive: true })

  private constructor (child: ChildProcess, address: URL) {
    this.#child = child
    this.#address = address
  }

  static async start (settings: InstanceSettings): Promise<InstanceProcess> {
    const child = fork(program, [JSON.stringify(settings)])
    const [address] = await once(child, 'message')
    return new InstanceProcess(child, new URL('/api/analyze', address))
  }

  get pid (): number | undefined {
    return this.#child.pid
  }

  /** Sends one request of a caller. Returns the status. */
  async ask (caller: string): Promise<number> {
    const asked = request(this.#address, { method: 'POST', agent: this.#agent, headers: { 'x-caller': caller } })
    asked.end()
    const [answer] = await once(asked, 'response')
    answer.resume()
    await once(answer, 'end')
    return answer.statusCode
  }

  tell (order: 'stall' | 'stepInsuredClock' | 'stepStoreClock', milliseconds: number, times = 1): void {
    this.#child.send({ order, milliseconds, times } satisfies Order)
  }

  signal (name: NodeJS.Signals): void {
    this.#child.kill(name)
  }

  async report (): Promise<InstanceReport> {
    const told = once(this.#child, 'message')
    this.#child.send({ order: 'report', milliseconds: 0, times: 0 } satisfies Order)
    const [report] = await told
    return report
  }

  async stop (): Promise<void> {
    this.#agent.destroy()
    const exited = once(this.#child, 'exit')
    this.#child.kill('SIGKILL')
    await exited
  }
}
