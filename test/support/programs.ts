import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import type { Test } from 'tap'
import { plainEnvironment } from './environment.js'

/** A process that runs programs one after another, because most of them take less time than loading their packages. */
export class Programs {
  readonly #process: ChildProcess
  readonly #exited = new AbortController()
  #lines: string[] = []

  private constructor (started: ChildProcess) {
    this.#process = started.on('message', (line) => { this.#lines.push(String(line)) }).once('exit', () => { this.#exited.abort() })
  }

  /** Starts the process, and ends it after the test. */
  static start (t: Test, execArgv: string[] = []): Programs {
    const started = fork('build/test/support/run-programs.js', { env: plainEnvironment(), execArgv, stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
    t.teardown(() => { started.kill('SIGKILL') })
    return new Programs(started)
  }

  /** What the last program has printed so far, or the error that ended it. */
  get lines (): readonly string[] {
    return this.#lines
  }

  /** Runs a program until it prints a line that matches, and returns this line. */
  async run (program: string, environment: Record<string, string>, until: RegExp): Promise<string> {
    this.#lines = []
    this.#process.send({ program, environment })
    return await this.printed(until)
  }

  /**
   * Returns the first line that matches, as soon as it is printed.
   *
   * @throws {Error} If an error ends the program or the process.
   */
  async printed (pattern: RegExp): Promise<string> {
    for (;;) {
      const found = this.#lines.find((line) => pattern.test(line))
      if (found !== undefined) return found
      const failed = this.#lines.find((line) => /^\w*Error: /.test(line))
      if (failed !== undefined) throw new Error(failed)
      await once(this.#process, 'message', { signal: this.#exited.signal })
    }
  }
}
