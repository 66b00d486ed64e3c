import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import type { Test } from 'tap'
import { secret } from './credentials.js'
import { plainEnvironment } from './environment.js'

// How long a program may print nothing that is waited for, in milliseconds.
const longestWait = 30_000

/**
 * A process that runs programs of the documents one after another, because most of them take less
 * time than loading their packages.
 */
export class Programs {
  readonly #process: ChildProcess
  readonly #exited = new AbortController()
  #lines: string[] = []
  #failure: string | undefined

  /** The process of the test files that run in one process, while it runs. */
  static #running: Programs | undefined

  private constructor (started: ChildProcess) {
    this.#process = started.once('exit', () => {
      this.#exited.abort()
    })
    started.on('message', (message: string | { failure: string }) => {
      if (typeof message === 'string') this.#lines.push(message)
      else this.#failure = message.failure
    })
  }

  /**
   * Returns the process, which all test files that run in one process share. It ends with the test.
   *
   * @param t The whole run.
   */
  static start (t: Test): Programs {
    this.#running ??= this.#start(t)
    return this.#running
  }

  static #start (t: Test): Programs {
    const started = fork('build/test/support/run-programs.js', {
      env: plainEnvironment(),
      // Without the modules of tap.
      execArgv: [],
      stdio: ['ignore', 'ignore', 'inherit', 'ipc']
    })
    t.teardown(() => {
      // Programs that close on SIGTERM would keep the process running.
      started.kill('SIGKILL')
    })
    return new Programs(started)
  }

  /** The lines that the last program has printed so far. */
  get lines (): readonly string[] {
    return this.#lines
  }

  /**
   * Runs a program until it prints a line that matches, by default its address, and returns this
   * line.
   */
  async run (
    program: string,
    environment: Record<string, string> = {},
    until = /^http:/
  ): Promise<string> {
    this.#lines = []
    this.#failure = undefined
    const folder = program.endsWith('.ts') ? 'build/documented' : 'documented'
    this.#process.send({
      program: `${folder}/${program.replace(/ts$/, 'js')}`,
      environment: { PORT: '0', JWT_SECRET: secret, ...environment }
    })
    return await this.printed(until)
  }

  /**
   * Returns the first line that matches, as soon as it is printed.
   *
   * @throws {Error} If an error ends the program or the process, or if it prints no such line.
   */
  async printed (pattern: RegExp): Promise<string> {
    const signal = AbortSignal.any([this.#exited.signal, AbortSignal.timeout(longestWait)])
    while (!signal.aborted) {
      const found = this.#lines.find((line) => pattern.test(line))
      if (found !== undefined) return found
      if (this.#failure !== undefined) throw new Error(this.#failure)
      await once(this.#process, 'message', { signal }).catch(() => {})
    }
    throw new Error(`the program has ended or waits, and has not printed ${pattern}`)
  }
}
