/** The error if too many tasks are waiting. */
export class QueueFull extends Error {
  override readonly name = 'QueueFull'
}

interface Waiter {
  readonly begin: () => void
  readonly giveUp: (error: unknown) => void
}

/**
 * Limits the number of running and of waiting tasks. Owners take turns, so that many tasks of one owner do not delay a single task of
 * another.
 */
export class Turns {
  readonly #atOnce: number
  readonly #mostWaiting: number
  // Owners in the order of their next turn.
  readonly #queues = new Map<string, Waiter[]>()
  #running = 0
  #waiting = 0

  constructor ({ atOnce, waiting }: { atOnce: number, waiting: number }) {
    this.#atOnce = atOnce
    this.#mostWaiting = waiting
  }

  /**
   * Runs a task when it is its turn.
   *
   * @param whose The owner of the task.
   * @param signal Ends the wait. A running task must check the signal itself.
   * @returns The result of the task.
   * @throws QueueFull, or the signal's reason.
   */
  async run<T> (whose: string, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    signal.throwIfAborted()
    if (this.#running < this.#atOnce) this.#running++
    else await this.#wait(whose, signal)
    try {
      return await work()
    } finally {
      this.#passOn()
    }
  }

  async #wait (whose: string, signal: AbortSignal): Promise<void> {
    if (this.#waiting >= this.#mostWaiting) this.#makeRoom(whose)
    await new Promise<void>((resolve, reject) => {
      const leave = (): void => {
        this.#remove(whose, waiter)
        reject(signal.reason)
      }
      const waiter: Waiter = {
        begin () {
          signal.removeEventListener('abort', leave)
          resolve()
        },
        giveUp (error) {
          signal.removeEventListener('abort', leave)
          reject(error)
        }
      }
      signal.addEventListener('abort', leave, { once: true })
      const queue = this.#queues.get(whose)
      if (queue === undefined) this.#queues.set(whose, [waiter])
      else queue.push(waiter)
      this.#waiting++
    })
  }

  // If the queue is full, the owner with the most tasks loses the last one, unless the owner of the new task would then have as many.
  #makeRoom (whose: string): void {
    const own = this.#queues.get(whose)?.length ?? 0
    const [busiest, queue] = [...this.#queues].reduce((one, other) => other[1].length > one[1].length ? other : one, ['', []])
    const last = queue.at(-1)
    if (last === undefined || queue.length <= own + 1) throw new QueueFull()
    this.#remove(busiest, last)
    last.giveUp(new QueueFull())
  }

  #passOn (): void {
    const [first] = this.#queues
    if (first === undefined) {
      this.#running--
      return
    }
    const [whose, [next]] = first
    const queue = first[1]
    if (next === undefined) return
    this.#remove(whose, next)
    // The other owners have their turns first.
    if (this.#queues.delete(whose)) this.#queues.set(whose, queue)
    next.begin()
  }

  #remove (whose: string, waiter: Waiter): void {
    const queue = this.#queues.get(whose)
    const index = queue?.indexOf(waiter) ?? -1
    if (queue === undefined || index === -1) return
    queue.splice(index, 1)
    this.#waiting--
    if (queue.length === 0) this.#queues.delete(whose)
  }
}
