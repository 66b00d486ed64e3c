import { setImmediate as turn } from 'node:timers/promises'
import { InsuredQuotaStore, MemoryQuotaStore, type InsuredQuotaStoreOptions } from '../../lib/index.js'
import { VirtualClock } from '../../lib/testing.js'
import { ToldStore } from './told-store.js'

/** An insured store in virtual time, with a `timeout` of 30 ms and a `coolDown` of 100 ms. */
export function insure (options: Partial<InsuredQuotaStoreOptions> = {}) {
  const clock = new VirtualClock()
  const primary = new ToldStore(clock)
  const fallback = new MemoryQuotaStore({ clock: clock.now })
  const store = new InsuredQuotaStore({ primary, fallback, timeout: 30, coolDown: 100, clock: clock.now, timers: clock, ...options })
  return { clock, primary, fallback, store }
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
