import type { Acquisition } from '../store.js'
import { acquireScript } from './acquire-script.js'
import type { QuotaRedisClient } from './client.js'
import { readAcquisition } from './replies.js'
import { Script } from './script.js'

const mostInScript = 32

interface Decision {
  readonly callerKey: string
  readonly answered: ((acquisition: Acquisition) => void) | undefined
  readonly resolve: (acquisition: Acquisition) => void
  readonly reject: (error: unknown) => void
}

/** Decisions that share a script. They have the same limit and, if the store has a clock, the same time. */
interface Group {
  readonly limit: number
  readonly time: number | undefined
  readonly decisions: Decision[]
}

/**
 * Sends the decisions of one shard. If none is in flight, a decision is sent immediately. Decisions that arrive while others are in
 * flight are sent together at the end of the current turn of the event loop.
 */
export class Decisions {
  readonly #script: Script
  readonly #clock: (() => number) | undefined
  readonly #groups = new Map<number, Group>()
  #inFlight = 0

  constructor (client: QuotaRedisClient, key: string, maxTrackedCallers: number, clock: (() => number) | undefined) {
    this.#script = new Script(client, key, acquireScript(maxTrackedCallers, clock === undefined ? 'server' : 'given'))
    this.#clock = clock
  }

  /** @param answered Called with the server's answer before the promise is fulfilled. */
  acquire (callerKey: string, limit: number, answered?: (acquisition: Acquisition) => void): Promise<Acquisition> {
    return new Promise((resolve, reject) => {
      const decision = { callerKey, answered, resolve, reject }
      if (this.#inFlight === 0 && this.#groups.size === 0) {
        this.#send({ limit, time: this.#clock?.(), decisions: [decision] })
      } else {
        this.#join(decision, limit)
      }
    })
  }

  /** Sends the waiting decisions, so that the server runs them before the commands that follow. */
  flush (): void {
    for (const group of this.#groups.values()) this.#send(group)
    this.#groups.clear()
  }

  #join (decision: Decision, limit: number): void {
    const time = this.#clock?.()
    // If the store has its own clock, decisions must run in the order in which they were requested.
    if (time !== undefined && [...this.#groups.values()].some((group) => group.limit !== limit || group.time !== time)) this.flush()
    const group = this.#groups.get(limit)
    if (group === undefined) {
      if (this.#groups.size === 0) setImmediate(() => { this.flush() })
      this.#groups.set(limit, { limit, time, decisions: [decision] })
      return
    }
    group.decisions.push(decision)
    if (group.decisions.length < mostInScript) return
    this.#groups.delete(limit)
    this.#send(group)
  }

  #send ({ limit, time, decisions }: Group): void {
    const parameters = [String(limit)]
    for (const { callerKey } of decisions) parameters.push(callerKey)
    if (time !== undefined) parameters.push(String(time))
    this.#inFlight += 1
    this.#script.run(parameters).then((reply) => {
      this.#inFlight -= 1
      this.#answer(decisions, limit, reply)
    }, (error: unknown) => {
      this.#inFlight -= 1
      for (const { reject } of decisions) reject(error)
    })
  }

  #answer (decisions: readonly Decision[], limit: number, reply: unknown): void {
    const again: Decision[] = []
    for (const [index, decision] of decisions.entries()) {
      try {
        const acquisition = readAcquisition(Array.isArray(reply) ? reply[index] : reply)
        if (acquisition === undefined) {
          again.push(decision)
        } else {
          decision.answered?.(acquisition)
          decision.resolve(acquisition)
        }
      } catch (error) {
        decision.reject(error)
      }
    }
    if (again.length > 0) this.#send({ limit, time: this.#clock?.(), decisions: again })
  }
}
