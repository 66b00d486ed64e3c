import { readdirSync, readFileSync } from 'node:fs'

const sampleEvery = 50

interface Sample {
  readonly at: number
  /** The time that each thread has waited for a processor, in milliseconds. */
  readonly waits: ReadonlyMap<string, number>
}

/** Milliseconds that have passed, and those of them in which the processes did not wait for a processor. */
export interface Duration {
  readonly wall: number
  readonly own: number
}

/**
 * Measures how long threads of some processes have been ready to run while other work used the processors, so that limits of time do not
 * depend on the load of the machine. Only Linux tells this. Elsewhere the time is 0, which makes the limits stricter.
 */
export class ProcessorWaits {
  readonly #processes: () => readonly number[]
  readonly #samples: Sample[]
  readonly #timer: NodeJS.Timeout

  /** @param processes Returns the ids of the processes, which can change. */
  constructor (processes: () => readonly number[]) {
    this.#processes = processes
    this.#samples = [this.#sample()]
    this.#timer = setInterval(() => { this.#samples.push(this.#sample()) }, sampleEvery)
  }

  /** Returns the duration since a time of `performance.now()`. Waits of up to `sampleEvery` before it count as well. */
  durationSince (time: number): Duration {
    const wall = performance.now() - time
    const before = this.#samples.findLast(({ at }) => at <= time)?.waits
    let own = wall
    for (const [thread, wait] of this.#sample().waits) own -= wait - (before?.get(thread) ?? 0)
    // Several threads can wait at the same time.
    return { wall, own: Math.max(0, own) }
  }

  stop (): void {
    clearInterval(this.#timer)
  }

  #sample (): Sample {
    return { at: performance.now(), waits: new Map(this.#processes().flatMap(threadWaits)) }
  }
}

function threadWaits (process: number): [thread: string, milliseconds: number][] {
  try {
    return readdirSync(`/proc/${process}/task`).map((thread) => {
      const [, nanoseconds] = readFileSync(`/proc/${process}/task/${thread}/schedstat`, 'utf8').split(' ')
      return [thread, Number(nanoseconds) / 1e6]
    })
  } catch {
    // The process or one of its threads has just ended, or this is not Linux.
    return []
  }
}
