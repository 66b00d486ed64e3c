import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { plainEnvironment } from './environment.js'

/** What a process is told to do: the name of a command, and what it needs. */
export interface Told {
  readonly take: { readonly caller: string; readonly quota: string }
  readonly handOver: { readonly permit: number }
  readonly end: { readonly permit: number }
  readonly resume: { readonly text: string; readonly used: number | null; readonly isLast: boolean }
  readonly standing: { readonly caller: string; readonly quota: string }
  readonly settlements: Readonly<Record<string, never>>
}

export interface Answer {
  readonly id: number
  result: unknown
  error: string | null
}

/** What is counted and held of a caller. */
interface Standing {
  readonly count: number
  readonly held: number
}

interface Settlement {
  readonly used: number
  readonly before: number
}

let latestId = 0

/** A service in a process of its own (permit-process.ts). */
export class PermitProcess {
  readonly #process: ChildProcess
  readonly #waiting = new Map<number, (answer: Answer) => void>()

  private constructor (child: ChildProcess) {
    this.#process = child
    child.on('message', (answer: Answer) => {
      this.#waiting.get(answer.id)?.(answer)
    })
  }

  /**
   * @param kind Which store is used: `plain`, `sharded` or `insured`.
   * @param url That of Redis or PostgreSQL.
   */
  static async start (
    t: { teardown(end: () => void): void },
    kind: string,
    url: string
  ): Promise<PermitProcess> {
    const child = fork('build/test/support/permit-process.js', [kind, url], {
      env: plainEnvironment(),
      // Without the modules of tap, which take longer than all else.
      execArgv: []
    })
    t.teardown(() => {
      child.kill('SIGKILL')
    })
    await once(child, 'message')
    return new PermitProcess(child)
  }

  /** Tells the process something, without waiting. The id is that of a permit that it takes. */
  tell<Name extends keyof Told> (
    name: Name,
    told: Told[Name]
  ): { id: number; answer: Promise<unknown> } {
    latestId += 1
    const id = latestId
    const answer = new Promise<unknown>((resolve, reject) => {
      this.#waiting.set(id, ({ result, error }) => {
        if (error === null) resolve(result)
        else reject(new Error(error))
      })
    })
    this.#process.send({ id, name, told })
    return { id, answer }
  }

  /** Takes a permit of 60 tokens, and returns its text. */
  async takeAndHandOver (caller: string, quota = 'tokens'): Promise<string> {
    const { id, answer } = this.tell('take', { caller, quota })
    await answer
    return String(await this.tell('handOver', { permit: id }).answer)
  }

  async resume (text: string, used: number | null, isLast = true): Promise<void> {
    await this.tell('resume', { text, used, isLast }).answer
  }

  async standing (caller: string, quota = 'tokens'): Promise<Standing> {
    const standing = await this.tell('standing', { caller, quota }).answer
    return standing as Standing
  }

  /** Returns the settlements that were published since the last call. */
  async settlements (): Promise<readonly Settlement[]> {
    const published = await this.tell('settlements', {}).answer
    return published as Settlement[]
  }

  async kill (): Promise<void> {
    const exited = once(this.#process, 'exit')
    this.#process.kill('SIGKILL')
    await exited
  }
}
