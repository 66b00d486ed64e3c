import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { plainEnvironment } from './environment.js'

// A test that fails may leave servers running. They must not outlive it, nor keep its process from
// ending.
const servers = new Set<ServerProcess>()
process.once('exit', () => {
  for (const server of servers) server.remove()
})

/** A server program on a port, with a folder for its data. */
export abstract class ServerProcess {
  readonly port: number
  /** The folder of the data. */
  readonly directory: string
  /** Ends the program at once, and its own child processes. */
  protected readonly endSignal: NodeJS.Signals = 'SIGKILL'
  #process: ChildProcess | undefined

  /** @param parent The folder in which the data's folder is created. */
  protected constructor (port: number, parent = tmpdir()) {
    this.port = port
    this.directory = mkdtempSync(join(parent, 'quota-server-'))
    servers.add(this)
  }

  /** The process id while the server runs. */
  get pid (): number | undefined {
    return this.#process?.pid
  }

  signal (name: NodeJS.Signals): void {
    this.#process?.kill(name)
  }

  /** Ends the server as a crash does. */
  async kill (): Promise<void> {
    await this.end('SIGKILL')
  }

  async stop (): Promise<void> {
    await this.end(this.endSignal)
    this.remove()
  }

  /** Ends the process without waiting for it, and removes the data. */
  remove (): void {
    this.signal(this.endSignal)
    rmSync(this.directory, { recursive: true, force: true })
    servers.delete(this)
  }

  protected launch (
    program: string,
    parameters: readonly string[],
    account: { uid?: number; gid?: number } = {}
  ): ChildProcess {
    this.#process = spawn(program, parameters, {
      stdio: 'ignore',
      env: plainEnvironment(),
      ...account
    })
    this.#process.unref()
    return this.#process
  }

  protected async end (signal: NodeJS.Signals): Promise<void> {
    const child = this.#process
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return
    const exited = once(child, 'exit')
    child.ref()
    child.kill(signal)
    await exited
  }
}
