import { setTimeout as sleep } from 'node:timers/promises'
import type { InstanceProcess } from './instance-process.js'
import type { ProcessorWaits } from './processor-waits.js'

// Limits the wait, so that one stopped instance does not delay requests to the others.
const workersOfAnInstance = 3
const floodingCallers = 4
const requestsOfACaller = 24

/** The answers to a caller. */
export interface Answers {
  admitted: number
  rejected: number
}

/**
 * Sends requests to both instances without a pause until it is stopped. Half of them come from a few callers that exceed their limit all
 * the time, and half from new callers, each of which exceeds its limit.
 */
export class Load {
  readonly answers = new Map<string, Answers>()
  readonly failures: string[] = []
  requests = 0
  longestWait = 0
  /** The longest wait without the time that processes waited for a processor. */
  longestOwnWait = 0
  readonly #processorWaits: ProcessorWaits
  readonly #name: string
  readonly #done: Promise<unknown>
  #isRunning = true

  /**
   * @param name Distinguishes the callers from those of other loads.
   */
  constructor (instances: readonly InstanceProcess[], name: string, processorWaits: ProcessorWaits) {
    this.#name = name
    this.#processorWaits = processorWaits
    this.#done = Promise.all(instances.flatMap((instance) => Array.from({ length: workersOfAnInstance }, async () => {
      while (this.#isRunning) {
        await this.ask(instance, this.#nextCaller())
        await sleep(2)
      }
    })))
  }

  /** Sends one request of a caller to an instance. Returns whether it was admitted. */
  async ask (instance: InstanceProcess, caller: string): Promise<boolean> {
    this.requests += 1
    const startedAt = performance.now()
    const status = await instance.ask(caller).catch((error: unknown) => String(error))
    const wait = performance.now() - startedAt
    this.longestWait = Math.max(this.longestWait, wait)
    if (wait > this.longestOwnWait) this.longestOwnWait = Math.max(this.longestOwnWait, wait - this.#processorWaits.since(startedAt))
    const answers = this.answers.get(caller) ?? { admitted: 0, rejected: 0 }
    this.answers.set(caller, answers)
    if (status === 200) answers.admitted += 1
    else if (status === 429) answers.rejected += 1
    else this.failures.push(`${caller} was answered ${status}`)
    return status === 200
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
