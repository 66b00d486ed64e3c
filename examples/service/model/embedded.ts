import { Piscina } from 'piscina'
import { ModelBusy } from '../plugins/errors.js'
import type { Answer, Call, Model, Questions, Sentence } from './model.js'
import type { Counted } from './worker.js'

const maxQueue = 100
const sentences = new Intl.Segmenter('en', { granularity: 'sentence' })
// The worker does not need the environment variables, which contain secrets.
const settings = {
  minThreads: 0,
  maxThreads: 2,
  idleTimeout: 60_000,
  maxQueue,
  env: {},
  execArgv: []
}

/**
 * A statistical model of English, in worker threads, so that a text does not block other requests.
 * It requires no download.
 */
export class EmbeddedModel implements Model {
  readonly #threads = new Piscina({
    filename: new URL('./worker.js', import.meta.url).href,
    ...settings
  })

  async ask<Name extends keyof Questions>(
    name: Name,
    question: Questions[Name],
    { signal, chargeUsage }: Call
  ): Promise<Answer<Name>> {
    if (this.#threads.queueSize >= maxQueue) throw new ModelBusy()
    const { answer, tokens }: Counted<Answer<Name>> = await this.#threads.run(question, {
      name,
      signal
    })
    chargeUsage(tokens === 0 ? null : { total_tokens: tokens })
    return answer
  }

  async * stream (text: string, call: Call): AsyncGenerator<Sentence> {
    for (const { segment } of sentences.segment(text)) {
      yield * (await this.ask('analysis', { text: segment }, call)).sentences
    }
  }

  async close (): Promise<void> {
    await this.#threads.destroy()
  }
}
