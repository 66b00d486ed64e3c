import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { InsuredQuotaStoreState } from '../lib/index.js'

/** The options of an instance. */
export interface InstanceSettings {
  /** The ports of its proxies to the servers. */
  readonly ports: readonly number[]
  readonly client: string
  readonly limit: number
}

/** The state that an instance reports. */
export interface InstanceReport {
  /** `primary` if that is the state of each shard. */
  state: InsuredQuotaStoreState
  /** How many calls a store has decided. */
  decisions: number
  /** The published changes: the shard, and the store that counts its callers from then on. */
  changes: { shard: number; to: string }[]
  /** The states that were logged, and other lines of the log. */
  logged: string[]
  /** The failures of the primary. */
  errors: { shard: number; message: string }[]
  /** The number of requests of each caller that the fallback admitted. */
  admittedByFallback: Record<string, number>
  unhandled: string[]
}

// The instance runs compiled or with types stripped, like this module.
const program = fileURLToPath(
  new URL(import.meta.url.endsWith('.ts') ? 'instance.ts' : 'instance.js', import.meta.url)
)

/** An instance of the service in a process of its own. */
export class InstanceProcess {
  readonly #child: ChildProcess
  readonly #address: URL

  private constructor (child: ChildProcess, address: URL) {
    this.#child = child
    this.#address = address
  }

  static async start (settings: InstanceSettings): Promise<InstanceProcess> {
    const child = fork(program, [JSON.stringify(settings)])
    const [address] = await once(child, 'message')
    return new InstanceProcess(child, new URL('/api/analyze', address))
  }

  /** Sends one request of a caller. */
  async ask (caller: string): Promise<{ status: number; body: string }> {
    const response = await fetch(this.#address, { method: 'POST', headers: { 'x-caller': caller } })
    return { status: response.status, body: await response.text() }
  }

  async report (): Promise<InstanceReport> {
    const told = once(this.#child, 'message')
    this.#child.send('report')
    const [report] = await told
    return report
  }

  async stop (): Promise<void> {
    const exited = once(this.#child, 'exit')
    this.#child.kill('SIGKILL')
    await exited
  }
}
