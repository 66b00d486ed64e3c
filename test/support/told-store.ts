import { channel } from 'node:diagnostics_channel'
import { setImmediate as turn } from 'node:timers/promises'
import type { Test } from 'tap'
import { insuredStoreChanges, type InsuredQuotaStoreChange } from '../../lib/channels.js'
import { InsuredQuotaStore } from '../../lib/store/insured/insured-store.js'
import type { InsuredQuotaStoreOptions } from '../../lib/store/insured/options.js'
import { MemoryQuotaStore } from '../../lib/store/memory/memory-store.js'
import type {
  Acquisition,
  CallerPage,
  Demand,
  QuotaCount,
  QuotaStore,
  QuotaStoreState,
  Settled
} from '../../lib/store/store.js'
import { VirtualClock } from '../../lib/testing/virtual-clock.js'
import { demand } from './demands.js'

type Manner =
  | 'answers'
  | 'promises'
  | 'throws'
  | 'rejects'
  | 'hangs'
  | 'answers late'
  | 'fails late'
  | 'answers nonsense'
  | 'promises nonsense'

/**
 * A store on a server that a test controls and that counts its calls. Late results take 60 ms of
 * virtual time. A receipt is the name of the counters.
 */
export class ToldStore implements QuotaStore {
  asked = 0
  readonly told: string[] = []
  manner: Manner = 'promises'
  /** What each demand counts up to. */
  count = 77
  admitted = true
  /** Whether rejections come from memory. */
  isRemembered = false
  /** Completes the pending answer. */
  answerNow = (): void => {}

  constructor (readonly clock: VirtualClock) {}

  acquire (demands: readonly Demand[]): readonly Acquisition[] | Promise<readonly Acquisition[]> {
    this.asked += 1
    return this.#behave(demands.map((demand) => this.#acquisition(demand)))
  }

  settle (
    receipt: unknown,
    { count, held }: Settled,
    once?: string
  ): boolean | Promise<boolean> {
    const only = once === undefined ? '' : `, once for ${once}`
    this.told.push(`settle ${count} and ${held} of ${receipt}${only}`)
    return this.#behave(once !== undefined)
  }

  peek (): QuotaCount | null | Promise<QuotaCount | null> {
    return this.#behave({ count: this.count, held: 0, windowRemaining: 60_000 })
  }

  forget (counters: string, callerKey: string): void | Promise<void> {
    this.told.push(`forget ${callerKey.slice(0, 4)} in ${counters}`)
    return this.#behave(undefined)
  }

  /** Lists one caller a page. */
  list (counters: string, cursor = '0'): CallerPage | Promise<CallerPage> {
    const callerKey = `${counters} ${cursor}`
    const callers = [{ callerKey, count: this.count, held: 0, windowRemaining: 60_000 }]
    return this.#behave({ callers, cursor: String(Number(cursor) + 1) })
  }

  clearCounters (): void | Promise<void> {
    this.told.push('clear')
    return this.#behave(undefined)
  }

  inspect (): QuotaStoreState | Promise<QuotaStoreState> {
    return this.#behave({ trackedCallers: this.count })
  }

  #acquisition ({ counters, window, most, isEstimate }: Demand): Acquisition {
    const { admitted, count } = this
    return {
      admitted,
      granted: admitted ? most : 0,
      count,
      held: admitted && isEstimate ? most : 0,
      windowRemaining: window,
      ...(admitted && { receipt: counters }),
      ...(this.isRemembered && !admitted && { isRemembered: true })
    }
  }

  #behave<Answer>(answer: Answer): Answer | Promise<Answer> {
    switch (this.manner) {
      case 'answers':
        return answer
      case 'promises':
        return Promise.resolve(answer)
      case 'throws':
        throw new Error('thrown')
      case 'rejects':
        return Promise.reject(new Error('rejected'))
      case 'hangs':
        return new Promise((resolve) => {
          this.answerNow = () => {
            resolve(answer)
          }
        })
      case 'answers late':
        return new Promise((resolve) => {
          this.clock.setTimeout(() => {
            resolve(answer)
          }, 60)
        })
      case 'fails late':
        return new Promise((_resolve, reject) => {
          this.clock.setTimeout(() => {
            reject(new Error('too late'))
          }, 60)
        })
      case 'answers nonsense':
        return JSON.parse('null')
      case 'promises nonsense':
        return Promise.resolve(JSON.parse('[{"admitted":true}]'))
    }
  }
}

/**
 * An insured store over a told one, in virtual time, with a `timeout` of 30 ms and a `coolDown` of
 * 100 ms.
 */
export function insure (
  options: Partial<InsuredQuotaStoreOptions> = {},
  clock = new VirtualClock()
) {
  const primary = new ToldStore(clock)
  const fallback = new MemoryQuotaStore({ clock: clock.now })
  const store = new InsuredQuotaStore({
    primary,
    fallback,
    timeout: 30,
    coolDown: 100,
    clock: clock.now,
    timers: clock,
    ...options
  })
  /**
   * Sends a request of one caller; returns what is counted, or minus that if it is rejected. A
   * count of 77 is the primary's.
   */
  const countOf = async (callerKey = 'a', limit = 5): Promise<number> => {
    const [acquisition] = await answered(clock, store.acquire([demand(callerKey, { limit })]))
    return acquisition?.admitted === true ? acquisition.count : -(acquisition?.count ?? 0)
  }
  return { clock, primary, fallback, store, countOf }
}

/** The changes of insured stores that are published during a test. */
export function publishedChanges (t: Test): InsuredQuotaStoreChange[] {
  const published: InsuredQuotaStoreChange[] = []
  const publish = (message: unknown): void => {
    published.push(message as InsuredQuotaStoreChange)
  }
  channel(insuredStoreChanges.name).subscribe(publish)
  t.teardown(() => channel(insuredStoreChanges.name).unsubscribe(publish))
  return published
}

/** Advances virtual time by one millisecond in each turn of the event loop. */
export async function pass (clock: VirtualClock, ms: number): Promise<void> {
  for (let passed = 0; passed < ms; passed++) {
    clock.advance(1)
    await turn()
  }
}

/** Advances virtual time until there is an answer, by at most a second. */
export async function answered<Answer> (
  clock: VirtualClock,
  asked: Answer | Promise<Answer>
): Promise<Answer> {
  const wait = { isOver: false }
  Promise.allSettled([asked]).then(() => {
    wait.isOver = true
  })
  await turn()
  for (let passed = 0; passed < 1_000 && !wait.isOver; passed++) await pass(clock, 1)
  return asked
}
