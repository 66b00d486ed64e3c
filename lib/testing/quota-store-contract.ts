import { AssertionError, deepStrictEqual, ok } from 'node:assert/strict'
import { MemoryQuotaStore, type MemoryQuotaStoreOptions } from '../store/memory/memory-store.js'
import { defaultMaxTrackedCallers, type Acquisition, type QuotaStore } from '../store/store.js'
import { callerRules, severalQuotasCallerRules } from './caller-rules.js'
import { counterRules } from './counter-rules.js'
import type { Rules } from './rules.js'
import { settleCapRules, settleRules } from './settle-rules.js'
import { severalQuotasCapRules, severalQuotasRules } from './several-quotas-rules.js'
import { severalQuotasSettleRules } from './several-quotas-settle-rules.js'
import { flat, places, range, type Steps, type StoreCall } from './steps.js'
import { day, hour, minute, TestQuota, type Callers } from './test-quota.js'
import { VirtualClock } from './virtual-clock.js'

/** A caller cap that no check reaches. */
const largeCap = defaultMaxTrackedCallers

/** A caller cap so small that a few callers need overflow counters. */
const smallCap = 4

/**
 * The options with which to create the store under test. The store must not use any other clock.
 */
export interface QuotaStoreContractOptions extends Required<MemoryQuotaStoreOptions> {}

/** One check of a store, for any test runner. */
export interface QuotaStoreContractCheck {
  /** The rule, as a sentence. */
  readonly name: string
  /**
   * Creates a store and checks the rule. Rejects with an `AssertionError` if the store breaks it.
   */
  run(): Promise<void>
}

type Create = (options: QuotaStoreContractOptions) => QuotaStore | Promise<QuotaStore>

/** The rules of any quota with a window, and those at the caller cap. */
const windowRules = { ...counterRules, ...settleRules }
const windowCapRules = { ...callerRules, ...settleCapRules }

/**
 * Returns the checks of a store, one for each rule (docs/rules.md, "Store"): `for (const { name,
 * run } of quotaStoreContract((options) => new MemoryQuotaStore(options))) test(name, run)`.
 *
 * A check of an optional function that the store does not have passes. A store without `settle` is
 * asked neither for estimates nor for places, which the plugin does not ask of it either. The rules
 * of counters are also checked in quotas of an hour and of a day. A store can be divided into
 * shards, each with a share of the caller cap and an overflow counter of its own, as long as every
 * shard tracks at least one caller.
 *
 * @param create Creates an empty store with the given clock and caller cap. A store that outlives
 *   the process, such as one on a server, must use different keys each time.
 * @returns The checks. They can run in any order.
 */
export function quotaStoreContract (
  create: (options: QuotaStoreContractOptions) => QuotaStore | Promise<QuotaStore>
): QuotaStoreContractCheck[] {
  const ofMinute = new TestQuota('default', minute)
  const ofHour = new TestQuota('chat.requests.hour', hour)
  const ofDay = new TestQuota('chat.requests.day', day)
  const ofSeveral = { ...severalQuotasRules, ...severalQuotasSettleRules }
  const ofSeveralAtCap = { ...severalQuotasCallerRules, ...severalQuotasCapRules }
  return [
    ...checksOf(create, largeCap, ofMinute, { ...windowRules, ...ofSeveral }),
    ...checksOf(create, smallCap, ofMinute, { ...windowCapRules, ...ofSeveralAtCap }),
    ...checksOf(create, largeCap, ofHour, windowRules, ', in a quota with a window of one hour'),
    ...checksOf(create, smallCap, ofHour, windowCapRules, ', in a quota with a window of one hour'),
    ...checksOf(create, largeCap, ofDay, windowRules, ', in a quota with a window of one day'),
    ...checksOf(create, smallCap, ofDay, windowCapRules, ', in a quota with a window of one day')
  ]
}

function checksOf (
  create: Create,
  cap: number,
  quota: TestQuota,
  rules: Rules,
  where = ''
): QuotaStoreContractCheck[] {
  return Object.entries(rules).map(([rule, stepsOf]) => {
    const name = rule + where
    return {
      name,
      async run () {
        try {
          await compare(create, cap, (callers) => stepsOf(quota, callers))
        } catch (error) {
          throw error instanceof AssertionError ? withRule(name, error) : error
        }
      }
    }
  })
}

/** The error of a check, whose message begins with the rule that the store breaks. */
function withRule (rule: string, { message, actual, expected, operator }: AssertionError) {
  return new AssertionError({ message: `${rule}\n${message}`, actual, expected, operator })
}

/**
 * Runs steps with a store, as far as it has their functions, and with a memory store, and asserts
 * that both return the same.
 */
async function compare (
  create: Create,
  cap: number,
  stepsOf: (callers: Callers) => Steps
): Promise<void> {
  const clock = new VirtualClock()
  // In production, a store's clock does not start at 0.
  clock.advance(1_000_000)
  const store = await create({ clock: clock.now, maxTrackedCallers: cap })
  const callers = cap === smallCap ? await findCallers(store) : noCallers
  const memory = new MemoryQuotaStore({
    clock: clock.now,
    maxTrackedCallers: cap === smallCap ? callers.tracked.length : cap
  })
  // So that it is asked for estimates and places only if the store under test is.
  if (store.settle === undefined) Object.defineProperty(memory, 'settle', { value: undefined })
  try {
    for (const [index, step] of flat(stepsOf(callers)).entries()) {
      if (typeof step === 'number') clock.advance(step)
      else if (store[step.name] !== undefined) await compareStep(index, step, store, memory)
    }
  } finally {
    // A store on a server would renew the places of concurrent requests.
    for (const place of places.get(store) ?? []) {
      await Promise.allSettled([(async () => store.settle?.(place, 0))()])
    }
    await Promise.allSettled([(async () => store.clearCounters?.())()])
  }
}

async function compareStep (
  index: number,
  step: StoreCall,
  store: QuotaStore,
  memory: QuotaStore
): Promise<void> {
  // Compared, too, so that the message of an error shows them.
  const described = { step: index, call: step.name, demands: step.demands }
  const result = await step.run(store)
  const expected = await step.run(memory, store)
  deepStrictEqual({ ...described, result }, { ...described, result: expected })
}

const noCallers: Callers = { tracked: [], overflowing: [], all: [], later: [] }

/** A cost by which the callers of a shard are found. */
const highCost = 1_000

/** Among how many callers those of a shard are searched: among many if few are not enough. */
const fewCandidates = 24
const manyCandidates = 64

/** Finds callers of a shard of an empty store with the small cap. */
async function findCallers (store: QuotaStore): Promise<Callers> {
  const found = await findCallersAmong(store, fewCandidates)
  const { tracked, overflowing } = found
  const callers =
    tracked.length >= 1 && overflowing.length >= 2
      ? found
      : await findCallersAmong(store, manyCandidates)
  ok(
    callers.tracked.length >= 1 && callers.overflowing.length >= 1,
    'a shard tracks no callers, or too few of 64 callers are in it'
  )
  return callers
}

/**
 * Finds callers of a shard by its overflow counter: what one of them counts there, the requests of
 * all others that use it find.
 */
async function findCallersAmong (store: QuotaStore, length: number): Promise<Callers> {
  const candidates = range(length)
  const first = `first of ${length}`
  const second = `second of ${length}`
  const overflows = ({ overflow }: Acquisition): boolean => overflow
  // Of all shards: who gets no counter of its own.
  const [marked = 0, ...others] = await select(store, first, candidates, 1, overflows)
  const trackedInAll = candidates.length - 1 - others.length
  ok(
    trackedInAll >= 1 && trackedInAll <= smallCap,
    `${trackedInAll} callers got a counter of their own, and the caller cap is ${smallCap}`
  )
  await select(store, first, [marked], highCost, overflows)
  // On the same overflow counter as the marked caller, hence in its shard.
  const isInShard = ({ count }: Acquisition): boolean => count >= highCost
  const shard = (await select(store, first, others, 0, isInShard)).slice(0, 16)
  // On other counters, where none of them is tracked yet.
  const tracked = await select(store, second, shard, 1, ({ overflow }) => !overflow)
  const later = shard.slice(-tracked.length)
  const overflowing = shard.slice(tracked.length, -tracked.length)
  return { tracked, overflowing, all: [...tracked, ...overflowing], later }
}

/** Sends a request of each caller, and returns those whose acquisition is selected. */
async function select (
  store: QuotaStore,
  counters: string,
  numbers: readonly number[],
  cost: number,
  isSelected: (acquisition: Acquisition) => boolean
): Promise<number[]> {
  const quota = new TestQuota(counters, minute)
  const selected: number[] = []
  for (const number of numbers) {
    const [acquisition] = await store.acquire([quota.demand(number, undefined, cost)])
    if (acquisition != null && isSelected(acquisition)) selected.push(number)
  }
  return selected
}
