import { ServiceError } from '../service-error.js'
import { QueueFull, Turns } from '../turns.js'
import type { Model, ModelCall, Sentence } from './model.js'

/** The origin of a call of the model. */
export interface Call {
  /** Identifies the caller. Calls of different callers take turns. */
  readonly caller: string
  /** Aborted when the client has disconnected. */
  readonly gone: AbortSignal
  /** Reports the number of tokens that the call has used. */
  charge (tokens: number): void
}

export interface Bounds {
  /** The maximum number of concurrent calls. */
  readonly atOnce: number
  /** The maximum number of waiting calls. */
  readonly waiting: number
  /** How long a call may take, including the time in the queue, in milliseconds. */
  readonly timeLimit: number
}

/** A model with a bounded queue and a time limit for each call. Calls of disconnected clients are aborted. */
export class BoundedModel {
  readonly #model: Model
  readonly #turns: Turns
  readonly #timeLimit: number

  constructor (model: Model, { timeLimit, ...turns }: Bounds) {
    this.#model = model
    this.#turns = new Turns(turns)
    this.#timeLimit = timeLimit
  }

  get description (): string {
    return this.#model.description
  }

  /**
   * Calls the model when it is the call's turn.
   *
   * @throws ServiceError 503 if the queue is full or the call takes too long, 499 if the client has disconnected, or the error of the model.
   */
  async answer<T> ({ caller, gone, charge }: Call, ask: (model: Model, call: ModelCall) => Promise<T>): Promise<T> {
    const overdue = AbortSignal.timeout(this.#timeLimit)
    const signal = AbortSignal.any([gone, overdue])
    let isAsked = false
    try {
      return await this.#turns.run(caller, signal, async () => {
        isAsked = true
        return await ask(this.#model, { signal, charge })
      })
    } catch (error) {
      if (!isAsked) charge(0)
      if (gone.aborted) throw new ServiceError(499, 'CALLER_GONE', 'The caller has gone.')
      if (overdue.aborted) throw new ServiceError(503, 'MODEL_TIMEOUT', 'The model took too long. Please try again, or send a shorter text.', { retryAfter: 1 })
      if (error instanceof QueueFull) throw new ServiceError(503, 'MODEL_BUSY', 'The model is busy. Please try again.', { retryAfter: 1 })
      if (error instanceof ServiceError) throw error
      throw new ServiceError(503, 'MODEL_FAILED', 'The model failed. Please try again.', { retryAfter: 1, cause: error })
    }
  }

  /** Reads a text sentence by sentence. A slow client does not block the model. An error follows the sentences that were read before it. */
  stream (call: Call, text: string): AsyncGenerator<Sentence> {
    const findings = new Findings<Sentence>()
    this.answer(call, async (model, asked) => { await model.stream(text, (sentence) => { findings.add(sentence) }, asked) })
      .then(() => { findings.end() }, (error: unknown) => { findings.fail(error) })
    return findings.read()
  }

  async close (): Promise<void> {
    await this.#model.close()
  }
}

type Finding<T> = { readonly found: T } | { readonly failed: unknown } | 'end'

/** A queue of findings between the model and a reader with a different pace. */
class Findings<T> {
  readonly #unread: Finding<T>[] = []
  #wake = (): void => {}

  add (found: T): void {
    this.#push({ found })
  }

  end (): void {
    this.#push('end')
  }

  fail (failed: unknown): void {
    this.#push({ failed })
  }

  /** Yields the findings in order. Throws the error of the model after the findings that came before it. */
  async * read (): AsyncGenerator<T> {
    for (;;) {
      const next = this.#unread.shift()
      if (next === undefined) await new Promise<void>((resolve) => { this.#wake = resolve })
      else if (next === 'end') return
      else if ('failed' in next) throw next.failed
      else yield next.found
    }
  }

  #push (finding: Finding<T>): void {
    this.#unread.push(finding)
    this.#wake()
  }
}
