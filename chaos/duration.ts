import { readFileSync } from 'node:fs'

/**
 * Milliseconds that have passed, and those of them in which no process of the machine waited for a
 * processor.
 */
export interface Duration {
  readonly wall: number
  readonly own: number
}

/**
 * Measures a duration, of which the limits of time apply to the machine's own, so that they do not
 * depend on its load.
 */
export class Stopwatch {
  readonly #startedAt = performance.now()
  readonly #waitedBefore = processorWait()

  get duration (): Duration {
    const wall = performance.now() - this.#startedAt
    return { wall, own: Math.max(0, wall - (processorWait() - this.#waitedBefore)) }
  }
}

/**
 * The milliseconds in which a process waited for a processor. Only Linux tells this. Elsewhere it
 * is 0, which makes the limits stricter.
 */
function processorWait (): number {
  try {
    return (
      Number(/^some .*total=(\d+)/m.exec(readFileSync('/proc/pressure/cpu', 'utf8'))?.[1]) / 1_000
    )
  } catch {
    return 0
  }
}
