import { MessageChannel } from 'node:worker_threads'
import { Piscina } from 'piscina'
import type { Justification, Model, ModelCall, NodeScore, Reading, Sentence } from '../model.js'
import type { TaxonomyNode } from '../taxonomy.js'
import type { Operations } from './worker.js'

const fiveMinutes = 5 * 60_000

/**
 * The embedded model: wink-nlp with its statistical model of English. It runs in worker threads so that a text does not block other
 * requests. Its code is synchronous, so an abort terminates the thread.
 */
export class EmbeddedModel implements Model {
  readonly description = 'wink-eng-lite-web-model, a statistical model of English for wink-nlp, in worker threads of the service'
  readonly #threads: Piscina

  constructor (threads: number) {
    this.#threads = new Piscina({
      filename: new URL('./worker.js', import.meta.url).href,
      // A thread starts with the first request that needs it, which takes half a second, and keeps the model in memory while it is in use.
      minThreads: 0,
      maxThreads: threads,
      idleTimeout: fiveMinutes,
      maxQueue: 0,
      // The worker does not need the environment variables, which contain secrets.
      env: {},
      execArgv: [],
      resourceLimits: { maxOldGenerationSizeMb: 512 }
    })
  }

  async analyze (text: string, call: ModelCall): Promise<Reading> {
    return await this.#run('analyze', { text }, call)
  }

  async justify (text: string, leaf: string, call: ModelCall): Promise<Justification> {
    return await this.#run('justify', { text, leaf }, call)
  }

  async score (text: string, { code }: TaxonomyNode, call: ModelCall): Promise<readonly NodeScore[]> {
    return await this.#run('score', { text, parent: code }, call)
  }

  async stream (text: string, found: (sentence: Sentence) => void, call: ModelCall): Promise<void> {
    const { port1: here, port2: there } = new MessageChannel()
    try {
      // The thread's last message can arrive after its result.
      const all = new Promise<void>((resolve) => {
        here.on('message', (sentence: Sentence | null) => {
          if (sentence === null) resolve()
          else found(sentence)
        })
      })
      await this.#run('stream', { text, port: there }, call, [there])
      await all
    } finally {
      here.close()
    }
  }

  async close (): Promise<void> {
    await this.#threads.destroy()
  }

  async #run<Name extends keyof Operations> (name: Name, task: Parameters<Operations[Name]>[0], { signal, charge }: ModelCall, transferList: Transferred = []): Promise<ReturnType<Operations[Name]>['found']> {
    const { found, tokens }: ReturnType<Operations[Name]> = await this.#threads.run(task, { name, signal, transferList })
    charge(tokens)
    return found
  }
}

type Transferred = NonNullable<NonNullable<Parameters<Piscina['run']>[1]>['transferList']>
