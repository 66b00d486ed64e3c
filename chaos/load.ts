import { setTimeout as sleep } from 'node:timers/promises'
import { windowLength } from '../lib/store/counter.js'
import { Stopwatch, type Duration } from './duration.js'
import type { InstanceProcess } from './instance-process.js'

// Limits the wait, so that one stopped instance does not delay requests to the others.
const workersOfAnInstance = 3
const floodingCallers = 4
const requestsOfACaller = 24

// On a busy machine, a round can outlast a window. The counts of a caller are checked as those of
// one window.
const longestFlood = windowLength / 2

/**
 * Sends requests to both instances without a pause until it is stopped, for half a window at most.
 * Half of them come from a few callers that exceed their limit all the time, and half from new
 * callers, each of which exceeds its limit.
 */
export class Load {
  /** For each caller, the counts with which its requests were admitted. */
  readonly admitted = new Map<string, number[]>()
  readonly failures: string[] = []
  requests = 0
  longestWait: Duration = { wall: 0, own: 0 }
  readonly #name: string
  readonly #done: Promise<unknown>
  #isRunning = true

  /**
   * @param name Distinguishes the callers from those of other loads.
   */
  constructor (instances: readonly InstanceProcess[], name: string) {
    this.#name = name
    const endsAt = performance.now() + longestFlood
    this.#done = Promise.all(
      instances.flatMap((instance) =>
        Array.from({ length: workersOfAnInstance }, async () => {
          while (this.#isRunning && performance.now() < endsAt) {
            await this.ask(instance, this.#nextCaller())
            await sleep(2)
          }
        })
      )
    )
  }

  /** Sends one request of a caller to an instance. */
  async ask (instance: InstanceProcess, caller: string): Promise<void> {
    this.requests += 1
    const stopwatch = new Stopwatch()
    const response = await instance
      .ask(caller)
      .catch((error: unknown) => ({ status: String(error), body: '' }))
    const { wall, own } = stopwatch.duration
    this.longestWait = {
      wall: Math.max(this.longestWait.wall, wall),
      own: Math.max(this.longestWait.own, own)
    }
    const counts = this.admitted.get(caller) ?? []
    this.admitted.set(caller, counts)
    if (response.status === 200) counts.push(Number(response.body))
    else if (response.status !== 429) {
      this.failures.push(`${caller} got the status ${response.status}`)
    }
  }

  async stop (): Promise<void> {
    this.#isRunning = false
    await this.#done
  }

  #nextCaller (): string {
    const turn = this.requests
    return turn % 2 === 0
      ? `${this.#name}, flooding caller ${(turn >> 1) % floodingCallers}`
      : `${this.#name}, caller ${Math.floor(turn / requestsOfACaller)}`
  }
}
