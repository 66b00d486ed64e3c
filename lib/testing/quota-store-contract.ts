import { AssertionError, deepStrictEqual } from 'node:assert/strict'
import { MemoryQuotaStore, type MemoryQuotaStoreOptions } from '../store/memory/memory-store.js'
import { defaultMaxTrackedCallers, type QuotaStore } from '../store/store.js'
import { callerRules, severalQuotasCallerRules } from './caller-rules.js'
import { counterRules } from './counter-rules.js'
import { onceRules } from './once-rules.js'
import { placeCapRules, placeRules } from './place-rules.js'
import type { Rules } from './rules.js'
import { settleCapRules, settleRules } from './settle-rules.js'
import { severalQuotasCapRules, severalQuotasRules } from './several-quotas-rules.js'
import { severalQuotasSettleRules } from './several-quotas-settle-rules.js'
import { flat, places, type Steps, type StoreCall } from './steps.js'
import { day, hour, minute, otherTokens, smallCap, TestQuota } from './test-quota.js'
import { VirtualClock } from './virtual-clock.js'
import { zoneRules } from './zone-rules.js'

/** A caller cap that no check reaches. */
const largeCap = defaultMaxTrackedCallers

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

/** Whether rules are for a store. The store is empty, and afterwards it need not be. */
type Applies = (store: QuotaStore) => boolean | Promise<boolean>

/** Rules of any quota with a window. */
const windowRules: Rules = { ...counterRules, ...settleRules }
/** Those of a store that sweeps, with the small cap. */
const windowCapRules: Rules = { ...callerRules, ...settleCapRules }
/** Rules of places, of time zones and of several quotas. */
const otherRules: Rules = {
  ...placeRules,
  ...zoneRules,
  ...severalQuotasRules,
  ...severalQuotasSettleRules
}
const otherCapRules: Rules = {
  ...placeCapRules,
  ...severalQuotasCallerRules,
  ...severalQuotasCapRules
}

/**
 * Returns the checks of a store, one for each rule (docs/rules.md, "Store"): `for (const { name,
 * run } of quotaStoreContract((options) => new MemoryQuotaStore(options))) test(name, run)`.
 *
 * A check of an optional function that the store does not have passes. So do the checks of the
 * caller cap, the overflow counter and sweeps if `inspect` returns no `sweeps`, and those of
 * settlements with a text if `settle` returns nothing. A store without `settle` is asked neither
 * for estimates nor for places, which the plugin does not ask of it either. The rules of counters
 * are also checked in quotas of an hour and of a day.
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
  const any = { cap: largeCap, applies: () => true }
  const once = { cap: largeCap, applies: takesOnce }
  const capped = { cap: smallCap, applies: hasSweeps }
  return [
    ...checksOf(create, any, ofMinute, { ...windowRules, ...otherRules }),
    ...checksOf(create, once, ofMinute, onceRules),
    ...checksOf(create, capped, ofMinute, { ...windowCapRules, ...otherCapRules }),
    ...checksOf(create, any, ofHour, windowRules, ', in a quota with a window of one hour'),
    ...checksOf(create, capped, ofHour, windowCapRules, ', in a quota with a window of one hour'),
    ...checksOf(create, any, ofDay, windowRules, ', in a quota with a window of one day'),
    ...checksOf(create, capped, ofDay, windowCapRules, ', in a quota with a window of one day')
  ]
}

async function hasSweeps (store: QuotaStore): Promise<boolean> {
  const state = await store.inspect?.('default')
  return state?.sweeps !== undefined
}

/** Whether `settle` says if a settlement with a text was applied. */
async function takesOnce (store: QuotaStore): Promise<boolean> {
  if (store.settle === undefined) return false
  const [acquisition] = await store.acquire([otherTokens.demand(1)])
  const applied = await store.settle(acquisition?.receipt, { count: 1, held: 0 }, 'a text')
  return typeof applied === 'boolean'
}

interface Conditions {
  readonly cap: number
  readonly applies: Applies
}

function checksOf (
  create: Create,
  { cap, applies }: Conditions,
  quota: TestQuota,
  rules: Rules,
  where = ''
): QuotaStoreContractCheck[] {
  return Object.entries(rules).map(([rule, stepsOf]) => {
    const name = rule + where
    return {
      name,
      async run () {
        const clock = new VirtualClock()
        // In production, a store's clock does not start at 0.
        clock.advance(1_000_000)
        const options = { clock: clock.now, maxTrackedCallers: cap }
        const store = await create(options)
        try {
          if (await applies(store)) await compare(store, options, clock, stepsOf(quota))
        } catch (error) {
          throw error instanceof AssertionError ? withRule(name, error) : error
        } finally {
          await clean(store)
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
  store: QuotaStore,
  options: QuotaStoreContractOptions,
  clock: VirtualClock,
  steps: Steps
): Promise<void> {
  const memory = new MemoryQuotaStore(options)
  // So that it is asked for estimates and places only if the store under test is.
  if (store.settle === undefined) Object.defineProperty(memory, 'settle', { value: undefined })
  for (const [index, step] of flat(steps).entries()) {
    if (typeof step === 'number') clock.advance(step)
    else if (store[step.name] !== undefined) await compareStep(index, step, store, memory)
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

/** Ends what a store on a server would keep: it renews the places of concurrent requests. */
async function clean (store: QuotaStore): Promise<void> {
  for (const receipt of places.get(store) ?? []) {
    await Promise.allSettled([(async () => store.settle?.(receipt, { count: 1, held: 1 }))()])
  }
  await Promise.allSettled([(async () => store.clearCounters?.())()])
}
