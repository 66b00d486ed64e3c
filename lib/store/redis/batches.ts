// Bounds the duration of a script and the number of decisions that fail together.
const mostInBatch = 64

/** Runs a script for a batch. Each column has a value of each request. Resolves with the reply to each. */
export type RunBatch = (columns: readonly string[][], time: number | undefined) => Promise<unknown>

interface Waiting {
  readonly values: readonly string[]
  readonly resolve: (reply: unknown) => void
  readonly reject: (error: unknown) => void
}

/**
 * Joins requests to one shard into batches. If no batch is in flight, a request is sent as soon as the code that runs now has ended, and else at
 * the end of the current turn of the event loop.
 */
export class Batches {
  readonly #run: RunBatch
  readonly #clock: (() => number) | undefined
  #waiting: Waiting[] = []
  #time: number | undefined
  #inFlight = 0

  constructor (run: RunBatch, clock: (() => number) | undefined) {
    this.#run = run
    this.#clock = clock
  }

  add (...values: readonly string[]): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const time = this.#clock?.()
      // With a clock of its own, a batch runs at one time.
      if (time !== this.#time || this.#waiting.length === mostInBatch) this.flush()
      this.#time = time
      this.#waiting.push({ values, resolve, reject })
      if (this.#waiting.length > 1) return
      const wait = this.#inFlight === 0 ? process.nextTick : setImmediate
      wait(() => { this.flush() })
    })
  }

  /** Sends the waiting requests, so that the server runs them before the commands that follow. */
  flush (): void {
    const batch = this.#waiting
    if (batch.length === 0) return
    this.#waiting = []
    this.#send(batch)
  }

  async #send (batch: readonly Waiting[]): Promise<void> {
    this.#inFlight += 1
    const columns = [0, 1, 2].map((column) => batch.map(({ values }) => String(values[column])))
    try {
      const reply = await this.#run(columns, this.#time)
      batch.forEach(({ resolve }, index) => { resolve(Array.isArray(reply) ? reply[index] : reply) })
    } catch (error) {
      for (const { reject } of batch) reject(error)
    } finally {
      this.#inFlight -= 1
    }
  }
}

/** Returns the values of a column, or only one if all requests of the batch have the same. */
export function onceIfEqual (column: readonly string[]): readonly string[] {
  return column.every((value) => value === column[0]) ? column.slice(0, 1) : column
}

/** Whether two requests of the batch have the same value. */
export function hasRepeats (column: readonly string[]): boolean {
  return new Set(column).size < column.length
}
