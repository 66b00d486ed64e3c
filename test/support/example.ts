import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { plainEnvironment } from './environment.js'

/** An example that runs in its own process, as with `npm start`. */
export interface Example {
  readonly address: string
  readonly process: ChildProcess
  /** The output so far, including the log. */
  output (): string
  /** Resolves when the output matches. */
  printed (pattern: RegExp): Promise<void>
  /** Ends the process and returns its exit code. */
  stop (): Promise<number | null>
}

// Examples must not outlive a test that fails.
const running = new Set<ChildProcess>()
process.once('exit', () => { for (const child of running) child.kill('SIGKILL') })

/** Starts a built example on a free port. */
export async function startExample (program: string, environment: Record<string, string> = {}): Promise<Example> {
  const child = spawn(process.execPath, [`build/examples/${program}`], {
    env: plainEnvironment({ PORT: '0', ...environment }), stdio: ['ignore', 'pipe', 'pipe']
  })
  let printed = ''
  const exited = once(child, 'close')
  running.add(child)
  child.once('exit', () => running.delete(child))
  const address = await new Promise<string>((resolve, reject) => {
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (chunk) => {
        printed += String(chunk)
        const [found] = /http:\/\/127\.0\.0\.1:\d+/.exec(printed) ?? []
        if (found !== undefined) resolve(found)
      })
    }
    exited.then(() => { reject(new Error(`the example ended before it listened:\n${printed}`)) }, reject)
  })
  return {
    address,
    process: child,
    output: () => printed,
    async printed (pattern) {
      while (!pattern.test(printed)) await once(child.stdout, 'data')
    },
    async stop () {
      child.kill('SIGTERM')
      const [code] = await exited
      return code
    }
  }
}
