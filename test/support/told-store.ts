import type { Acquisition, Entry, QuotaCount, QuotaStore, QuotaStoreState } from '../../lib/index.js'
import type { VirtualClock } from '../../lib/testing.js'

export type Manner = 'answers' | 'promises' | 'throws' | 'rejects' | 'hangs' | 'answers late' | 'fails late' | 'answers nonsense' | 'promises nonsense'

export const toldAnswer: Acquisition = { admitted: true, count: 77, windowRemaining: 60_000, overflow: false }

/** A store that a test controls, with late answers after 60 ms, and that counts its calls. Callers a0, b0… are in shard 0, a1, b1… in shard 1. */
export class ToldStore implements QuotaStore {
  asked = 0
  readonly told: string[] = []
  /** The limits and costs of the calls of `acquire`. */
  readonly costs: [limit: number, cost: number | undefined][] = []
  /** The places that are taken now. */
  places = 0
  manner: Manner = 'promises'
  /** The manner for the callers of single shards. */
  readonly manners = new Map<number, Manner>()
  answer = toldAnswer
  readonly #clock: VirtualClock
  #answerNow = (): void => {}

  constructor (clock: VirtualClock) {
    this.#clock = clock
  }

  /** Completes the pending answer. */
  answerNow (): void {
    this.#answerNow()
  }

  shardOf (callerKey: string): number {
    return Number(/^[a-z](\d)$/.exec(callerKey)?.[1] ?? 0)
  }

  /** All quotas are the same, since a test controls the answers. */
  quota (): this {
    return this
  }

  acquire (callerKey: string, limit: number, cost?: number): Acquisition | Promise<Acquisition> {
    this.asked += 1
    this.costs.push([limit, cost])
    return this.#behave(this.answer, this.manners.get(this.shardOf(callerKey)))
  }

  enter (): Entry | Promise<Entry> {
    this.places += 1
    const leave = (): void | Promise<void> => {
      this.places -= 1
      return this.#behave(undefined)
    }
    return this.#behave({ admitted: true, count: 77, leave })
  }

  peek (): QuotaCount | null | Promise<QuotaCount | null> {
    return this.#behave({ count: 77, windowRemaining: 60_000, overflow: false })
  }

  forget (callerKey: string): void | Promise<void> {
    this.told.push(`forget ${callerKey}`)
    return this.#behave(undefined)
  }

  clearCounters (): void | Promise<void> {
    this.told.push('clear')
    return this.#behave(undefined)
  }

  inspect (): QuotaStoreState | Promise<QuotaStoreState> {
    return this.#behave({ trackedCallers: 77, sweeps: 0 })
  }

  #behave<Answer> (answer: Answer, manner = this.manner): Answer | Promise<Answer> {
    switch (manner) {
      case 'answers': return answer
      case 'promises': return Promise.resolve(answer)
      case 'throws': throw new Error('thrown')
      case 'rejects': return Promise.reject(new Error('rejected'))
      case 'hangs': return new Promise((resolve) => { this.#answerNow = () => { resolve(answer) } })
      case 'answers late': return new Promise((resolve) => { this.#clock.setTimeout(() => { resolve(answer) }, 60) })
      case 'fails late': return new Promise((_resolve, reject) => { this.#clock.setTimeout(() => { reject(new Error('too late anyway')) }, 60) })
      case 'answers nonsense': return JSON.parse('{"admitted":true}')
      case 'promises nonsense': return Promise.resolve(JSON.parse('null'))
    }
  }
}
