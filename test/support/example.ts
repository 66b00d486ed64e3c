import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { plainEnvironment } from './environment.js'

/** A running example, in a process of its own, as `npm start` runs it. */
export interface Example {
  readonly address: string
  readonly process: ChildProcess
  /** All that it has printed so far, its log included. */
  output (): string
  /** Resolves when it has printed what matches, sooner or later. */
  printed (pattern: RegExp): Promise<void>
  /** Asks it to end, and gives its exit code. */
  stop (): Promise<number | null>
}

/** Starts a built example on a free port. */
export async function startExample (program: string, environment: Record<string, string> = {}): Promise<Example> {
  const child = spawn(process.execPath, [`build/examples/${program}`], {
    env: plainEnvironment({ PORT: '0', ...environment }), stdio: ['ignore', 'pipe', 'pipe']
  })
  let printed = ''
  const exited = once(child, 'close')
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

/** A token of the running service, as `npm run --silent token` prints it. */
export function printToken (...words: string[]): string {
  return execFileSync(process.execPath, ['build/examples/service/print-token.js', ...words], { encoding: 'utf8', env: plainEnvironment() }).trim()
}
