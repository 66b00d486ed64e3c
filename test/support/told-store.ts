import { channel } from 'node:diagnostics_channel'
import { setImmediate as turn } from 'node:timers/promises'
import type { Test } from 'tap'
import { InsuredQuotaStore, MemoryQuotaStore, type Acquisition, type Entry, type InsuredQuotaStoreChange, type InsuredQuotaStoreOptions, type QuotaCount, type QuotaStore, type QuotaStoreState } from '../../lib/index.js'
import { VirtualClock } from '../../lib/testing.js'

export type Manner = 'answers' | 'promises' | 'throws' | 'rejects' | 'hangs' | 'answers late' | 'fails late' | 'answers nonsense' | 'promises nonsense'

export const toldAnswer: Acquisition = { admitted: true, count: 77, windowRemaining: 60_000, overflow: false }

/** A store that a test controls, with late answers after 60 ms, and that counts its calls. Callers a0, b0… are in shard 0, a1, b1… in shard 1. */
export class ToldStore implements QuotaStore {
  asked = 0
  readonly told: string[] = []
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

  acquire (callerKey: string): Acquisition | Promise<Acquisition> {
    this.asked += 1
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
      case 'answers nonsense': return JSON.parse('null')
      case 'promises nonsense': return Promise.resolve(JSON.parse('{"admitted":true}'))
    }
  }
}

/** An insured store over a told one, in virtual time, with a `timeout` of 30 ms and a `coolDown` of 100 ms. */
export function insure (options: Partial<InsuredQuotaStoreOptions> = {}, clock = new VirtualClock()) {
  const primary = new ToldStore(clock)
  const fallback = new MemoryQuotaStore({ clock: clock.now })
  const store = new InsuredQuotaStore({ primary, fallback, timeout: 30, coolDown: 100, clock: clock.now, timers: clock, ...options })
  return { clock, primary, fallback, store }
}

/** The changes of insured stores that are published during a test. */
export function publishedChanges (t: Test): InsuredQuotaStoreChange[] {
  const published: InsuredQuotaStoreChange[] = []
  const publish = (message: unknown): void => { published.push(message as InsuredQuotaStoreChange) }
  channel('fastify-llm-quota:insured-store').subscribe(publish)
  t.teardown(() => channel('fastify-llm-quota:insured-store').unsubscribe(publish))
  return published
}

/** Advances virtual time by one millisecond in each turn of the event loop. */
export async function pass (clock: VirtualClock, ms: number): Promise<void> {
  for (let passed = 0; passed < ms; passed++) {
    clock.advance(1)
    await turn()
  }
}

/** Waits for more turns of the event loop than a store waits for after its timeout. */
export async function manyTurns (): Promise<void> {
  for (let turns = 0; turns < 20; turns++) await turn()
}

/** Advances virtual time until there is an answer, by at most a second. */
export async function answered<Answer> (clock: VirtualClock, asked: Answer | Promise<Answer>): Promise<Answer> {
  const wait = { isOver: false }
  const end = (): void => { wait.isOver = true }
  Promise.resolve(asked).then(end, end)
  for (let passed = 0; passed < 1_000 && !wait.isOver; passed++) await pass(clock, 1)
  return asked
}
